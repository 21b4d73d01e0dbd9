//! Which states are the same: those in which the same can happen next.
//!
//! Times count only as what is left of them, and nothing that only people read counts at all.

use fencegate::domain::counter::CommitNo;
use fencegate::domain::lease::{EndCause, LeaseState};
use fencegate::domain::position::Position;
use fencegate::domain::time::{Millis, Timestamp};
use fencegate::protocol::Snapshot;
use fencegate::protocol::rows::{OperationRecord, ResourceRow};
use sha2::{Digest, Sha256};

use super::history::History;
use super::steps::plain;

/// A hash of everything that decides what can happen next; 16 bytes of it tell apart more states than there are.
pub(super) fn key(snapshot: &Snapshot, history: &History, now: Timestamp) -> [u8; 16] {
    let mut bytes = Bytes(Vec::with_capacity(1_024));
    bytes.put(history.epoch);
    bytes.put(u64::from(history.stopped));
    bytes.put(u64::from(snapshot.namespaces().next().is_some()));
    for page in &history.pages {
        for at in [page.acknowledged, page.registered] {
            bytes.put(at.0);
            bytes.put(at.1);
        }
        for done in &page.forgotten {
            for part in [done.incarnation, done.operation, done.at.0, done.at.1] {
                bytes.put(part);
            }
        }
    }
    for row in snapshot.resources() {
        bytes.row(row);
        snapshot.eras(&row.resource).for_each(|(born, _)| bytes.position(born));
    }
    bytes.section();
    for (address, row) in snapshot.targets() {
        bytes.text(address.resource.as_str());
        bytes.text(address.target.as_ref().map_or("", |target| target.as_str()));
        bytes.0.extend_from_slice(&row.digest.as_bytes()[..8]);
        bytes.put(row.tag.incarnation.get());
        bytes.put(row.tag.commit.get());
    }
    bytes.section();
    snapshot.operations().for_each(|record| bytes.record(record));
    bytes.section();
    for record in snapshot.controls() {
        bytes.text(record.verb.word());
        bytes.text(record.key.as_str());
        bytes.0.extend_from_slice(&record.fingerprint.as_bytes()[..8]);
    }
    bytes.section();
    bytes.grants(snapshot, history, now);
    let digest = Sha256::digest(&bytes.0);
    digest[..16].try_into().unwrap()
}

struct Bytes(Vec<u8>);

impl Bytes {
    fn put(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_be_bytes());
    }

    fn text(&mut self, text: &str) {
        self.0.extend_from_slice(text.as_bytes());
        self.0.push(0);
    }

    fn position(&mut self, position: Position) {
        self.put(position.epoch.get());
        self.put(position.token.get());
    }

    /// No list runs into the next one.
    fn section(&mut self) {
        self.put(u64::MAX);
    }

    fn row(&mut self, row: &ResourceRow) {
        self.section();
        self.text(row.resource.as_str());
        self.text(row.life.word());
        for position in [row.born, row.issued, row.floor, row.revoked_through.unwrap_or_default()] {
            self.position(position);
        }
        self.put(row.incarnation.get());
        self.put(row.commit_no.get());
        for mark in [row.applied, row.pruned_through] {
            let (position, sequence) =
                mark.map(|mark| (mark.position, plain(mark.sequence))).unwrap_or_default();
            self.position(position);
            self.put(sequence);
        }
    }

    fn record(&mut self, record: &OperationRecord) {
        self.text(record.resource.as_str());
        self.text(record.operation_id.as_str());
        self.put(record.incarnation.get());
        self.0.extend_from_slice(&record.fingerprint.as_bytes()[..8]);
        self.position(record.position);
        self.put(plain(record.sequence));
        self.put(record.response.as_ref().map_or(0, |response| response.commit.map_or(0, CommitNo::get)));
    }

    fn grants(&mut self, snapshot: &Snapshot, history: &History, now: Timestamp) {
        let mut grants: Vec<_> = history.grants.iter().collect();
        grants.sort_by_key(|grant| (grant.page, grant.at));
        for grant in grants {
            let lease = snapshot.lease(&grant.id.hash()).unwrap();
            let live = lease.state == LeaseState::Held;
            let left = if live { now.until(lease.expires_at) } else { Millis::default() };
            self.put(u64::try_from(grant.page).unwrap());
            self.put(grant.request);
            self.put(grant.source.map_or(0, |source| u64::try_from(source).unwrap() + 1));
            self.text(lease.state.word());
            self.text(lease.cause.map_or("", EndCause::word));
            self.put(left.get());
            self.put(now.until(grant.until).get());
            self.put(u64::from(grant.released));
        }
    }
}
