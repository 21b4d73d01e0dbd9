//! A small world around the pure core: one snapshot, one fixed keyring and database, and a clock moved by hand.
//!
//! Every change that is applied is held against what an engine checks: the row that the decision saw is the row that
//! stands, what is new is new, and no register goes back.

use std::collections::BTreeMap;

use fencegate::domain::counter::{Epoch, Token};
use fencegate::domain::lease::{AcquisitionHash, AcquisitionId, Holder, LeaseState, Ttl, TtlBounds};
use fencegate::domain::namespaces::{NamespaceRules, Namespaces};
use fencegate::domain::policy::Definition;
use fencegate::domain::position::{Position, PresentedToken};
use fencegate::domain::principal::PrincipalName;
use fencegate::domain::resource::{Address, Namespace, Path, ResourceName};
use fencegate::domain::seal::{Keyring, SealKey};
use fencegate::domain::time::{Millis, Timestamp};
use fencegate::protocol::command::{Acquire, Advance, Claim, Member, Release, Renew, Write};
use fencegate::protocol::outcome::{ControlView, Grant, LeaseView, Receipt, WholeView, Written};
use fencegate::protocol::rows::{EverywhereRow, LeaseRow, NamespaceRow, ResourceRow, TargetRow};
use fencegate::protocol::{
    Change, Command, Context, Decision, Outcome, Snapshot, Wanted, decide, invariants,
};
use uuid::Uuid;
use zeroize::Zeroizing;

use super::draft::Draft;
use super::wanted::only;

/// The namespace that every story plays in.
pub(crate) const NAMESPACE: &str = "w";

/// The database that seals are made for.
pub(crate) const DATABASE: Uuid = Uuid::from_u128(0x0000_fe7c_e6a7_e000_0000_0000_0000_0001);

/// Ttl of a lease in these worlds, in milliseconds.
pub(crate) const TTL_MS: u64 = 10_000;

/// One namespace, its rows, and the time.
#[derive(Clone)]
pub(crate) struct World {
    definition: Definition,
    namespaces: Namespaces,
    keyring: Keyring,
    pub(crate) snapshot: Snapshot,
    pub(crate) now: Timestamp,
    /// An epoch that is known to have been begun, also where the rows have forgotten it.
    pub(crate) begun: Epoch,
}

/// A position of epoch 0.
pub(crate) fn token(token: u64) -> Position {
    at(0, token)
}

/// A position.
pub(crate) fn at(epoch: u64, token: u64) -> Position {
    Position::new(Epoch::new(epoch).unwrap(), Token::new(token).unwrap())
}

/// A resource's name.
pub(crate) fn name(text: &str) -> ResourceName {
    ResourceName::parse(text).unwrap()
}

/// What a control call answers, in a form that is easy to compare.
pub(crate) fn render_control(view: &ControlView<'_>) -> Vec<u8> {
    format!("{:?} {:?}", view.resource.life, view.resource.revoked_through).into_bytes()
}

/// What an act on a whole namespace answers.
pub(crate) fn render_whole(view: &WholeView<'_>) -> Vec<u8> {
    format!("{} {} {:?}", view.subject, view.epoch, view.open).into_bytes()
}

/// The receipt of these worlds leaves the time out, so that a history that ran slower gives the same bytes.
pub(crate) fn render(receipt: &Receipt) -> Vec<u8> {
    format!("{} {} {}", receipt.operation_id, receipt.position, receipt.commit).into_bytes()
}

/// A key whose bytes are all the same.
pub(crate) fn key(byte: u8) -> SealKey {
    SealKey::new([byte; 4], Zeroizing::new([byte; 32]))
}

impl World {
    /// A world in which nothing was ever heard of.
    pub(crate) fn new(definition: Definition) -> Self {
        assert_eq!(definition.check(), Ok(()), "{definition}");
        let ttl = TtlBounds { default: Ttl::from_ms(TTL_MS), ..TtlBounds::default() };
        let rules = NamespaceRules { definition, ttl, ..NamespaceRules::default() };
        let namespace = Namespace::parse(NAMESPACE).unwrap();
        Self {
            definition,
            namespaces: Namespaces::new(BTreeMap::from([(namespace, rules)]), None),
            keyring: Keyring::of(key(7)),
            snapshot: Snapshot::default(),
            now: Timestamp::from_ms(1_000_000),
            begun: Epoch::ZERO,
        }
    }

    /// The same world in a later epoch, as an operator's advance leaves it.
    pub(crate) fn set_epoch(&mut self, epoch: u64) {
        let namespace = Namespace::parse(NAMESPACE).unwrap();
        let mut row = self.snapshot.namespace(&namespace).cloned();
        let mut row = row.take().unwrap_or_else(|| {
            NamespaceRow::first_use(namespace, self.definition, &EverywhereRow::default())
        });
        row.epoch = Epoch::new(epoch).unwrap();
        self.snapshot.insert_namespace(row);
    }

    /// What the configuration says of the namespace of these stories, but for its definition.
    pub(crate) fn rule(&mut self, change: impl FnOnce(&mut NamespaceRules)) {
        self.rule_of(NAMESPACE, change);
    }

    /// The same of any namespace; one that is new here starts with the rules of the first.
    pub(crate) fn rule_of(&mut self, namespace: &str, change: impl FnOnce(&mut NamespaceRules)) {
        let first = Namespace::parse(NAMESPACE).unwrap();
        let namespace = Namespace::parse(namespace).unwrap();
        let known = |name| self.namespaces.rules(name).copied();
        let mut rules = known(&namespace).or(known(&first)).unwrap();
        change(&mut rules);
        let mut named: BTreeMap<_, _> =
            self.namespaces.named().map(|(name, old)| (name.clone(), *old)).collect();
        named.insert(namespace, rules);
        self.namespaces = Namespaces::new(named, None);
    }

    /// Seals and acquisition ids come from these keys from now on.
    pub(crate) fn set_keyring(&mut self, keyring: Keyring) {
        self.keyring = keyring;
    }

    pub(crate) const fn definition(&self) -> &Definition {
        &self.definition
    }

    pub(crate) fn context(&self) -> Context<'_> {
        Context {
            namespaces: &self.namespaces,
            keyring: &self.keyring,
            database: DATABASE,
            render,
            render_control,
            render_whole,
            begun: self.begun,
        }
    }

    /// Time goes on.
    pub(crate) fn wait_ms(&mut self, ms: u64) {
        self.now = self.now.plus(Millis::new(ms));
    }

    /// The resource's row, which must be there.
    pub(crate) fn row(&self, resource: &str) -> &ResourceRow {
        self.snapshot.resource(&name(resource)).unwrap()
    }

    /// The target that a path addresses.
    pub(crate) fn target(&self, path: &str) -> Option<&TargetRow> {
        self.snapshot.target(&self.address(path))
    }

    pub(crate) fn address(&self, path: &str) -> Address {
        Path::parse(path).unwrap().split(self.definition.scope).unwrap()
    }

    /// The lease's row as it is written down.
    pub(crate) fn lease(&self, acquisition: &AcquisitionId) -> &LeaseRow {
        self.snapshot.lease(&acquisition.hash()).unwrap()
    }

    /// A token of our own keys for any position, whether it was ever issued or not.
    pub(crate) fn sealed(&self, resource: &str, position: Position) -> String {
        let stranger = AcquisitionHash::from_bytes([0xA5; 32]);
        self.keyring.seal(DATABASE, &name(resource), position, &stranger).unwrap()
    }

    /// What the door makes of a token.
    pub(crate) fn claim(&self, resource: &ResourceName, token: &str) -> Claim {
        let presented = PresentedToken::parse(token).unwrap();
        let seal = presented.seal.as_deref();
        Claim {
            position: presented.position,
            bare: presented.bare,
            seal: self.keyring.judge(DATABASE, resource, presented.position, seal),
        }
    }

    /// Decides without making anything durable. What a command does not want must not matter: with the rows that an
    /// engine would load for it, the decision is the same.
    pub(crate) fn decide(&self, command: &Command) -> Decision {
        let decision = decide(&self.context(), &self.snapshot, command, self.now).unwrap();
        let loaded = only(&self.snapshot, &Wanted::by(command));
        let again = decide(&self.context(), &loaded, command, self.now).unwrap();
        assert!(decision == again, "{command:?} wants too little: {again:?}");
        decision
    }

    /// Decides, and makes the changes durable.
    pub(crate) fn tell(&mut self, command: &Command) -> Outcome {
        let decision = self.decide(command);
        self.apply(&decision.changes);
        decision.outcome.apart().0
    }

    /// Applies changes as an engine does.
    pub(crate) fn apply(&mut self, changes: &[Change]) {
        for change in changes {
            check(&self.snapshot, change);
            self.snapshot.apply(change);
        }
    }

    /// The first acquire of a new request; it must be granted.
    pub(crate) fn acquire(&mut self, resource: &str) -> Grant {
        let request = u128::try_from(self.snapshot.leases().count()).unwrap() + 1;
        granted(self.tell(&acquire(resource, request)))
    }

    pub(crate) fn renew(&mut self, acquisition: &AcquisitionId) -> Outcome {
        self.tell(&renew(acquisition))
    }

    pub(crate) fn release(&mut self, acquisition: &AcquisitionId) -> Outcome {
        self.tell(&release(acquisition))
    }

    /// The lease of any request; it must be granted.
    pub(crate) fn grant(&mut self, command: &Command) -> Grant {
        granted(self.tell(command))
    }

    pub(crate) fn advance(&mut self, resource: &str, token: &str) -> Outcome {
        let claim = self.claim(&name(resource), token);
        self.tell(&Command::Advance(Advance { resource: name(resource), claim, reason: "test".to_owned() }))
    }

    pub(crate) fn write(&mut self, draft: &Draft) -> Outcome {
        self.batch(std::slice::from_ref(draft))
    }

    /// A write that must be in the store afterwards, now or from before.
    pub(crate) fn written(&mut self, draft: &Draft) -> Written {
        match self.write(draft) {
            Outcome::Written(members) => members.into_iter().next().unwrap(),
            other => panic!("{draft:?}: {other:?}"),
        }
    }

    pub(crate) fn batch(&mut self, drafts: &[Draft]) -> Outcome {
        self.tell(&self.command(drafts, false))
    }

    /// What a dry run says.
    pub(crate) fn explain(&self, drafts: &[Draft]) -> Decision {
        self.decide(&self.command(drafts, true))
    }

    pub(crate) fn command(&self, drafts: &[Draft], dry_run: bool) -> Command {
        Command::Write(Write::new(self.members(drafts), dry_run).unwrap())
    }

    pub(crate) fn members(&self, drafts: &[Draft]) -> Vec<Member> {
        drafts.iter().map(|draft| draft.member(self)).collect()
    }
}

/// An acquire by a holder without a name; the nonce follows from the request.
pub(crate) fn acquire(resource: &str, request: u128) -> Command {
    acquire_by(resource, request, "", None)
}

/// An acquire by somebody, for some time.
pub(crate) fn acquire_by(resource: &str, request: u128, holder: &str, ttl_ms: Option<u64>) -> Command {
    Command::Acquire(Acquire {
        resources: vec![name(resource)],
        wait: None,
        holder: (!holder.is_empty()).then(|| Holder::parse(holder).unwrap()),
        ttl_ms,
        request_id: Uuid::from_u128(request),
        principal: PrincipalName::anonymous(),
        nonce: request.to_be_bytes(),
    })
}

pub(crate) fn renew(acquisition: &AcquisitionId) -> Command {
    let (bucket, acquisition) = (acquisition.bucket(), acquisition.hash());
    Command::Renew(Renew { bucket, acquisition, ttl_ms: None })
}

pub(crate) fn release(acquisition: &AcquisitionId) -> Command {
    Command::Release(Release { bucket: acquisition.bucket(), acquisition: acquisition.hash() })
}

/// The grant, which there must be.
pub(crate) fn granted(outcome: Outcome) -> Grant {
    match outcome {
        Outcome::Granted(grant) => *grant,
        other => panic!("{other:?}"),
    }
}

/// The lease of a renewal or a release.
pub(crate) fn view(outcome: Outcome) -> LeaseView {
    match outcome {
        Outcome::Renewed(view) | Outcome::Released(view) => *view,
        other => panic!("{other:?}"),
    }
}

/// The state that a release or a refused renewal names.
pub(crate) fn ended(outcome: &Outcome) -> LeaseState {
    match outcome {
        Outcome::Released(view) => view.state,
        Outcome::Refused(fencegate::protocol::Refusal::LeaseEnded { state, .. }) => *state,
        other => panic!("{other:?}"),
    }
}

/// What an engine's own predicates would see: a change fits the rows that stand.
pub(crate) fn check(snapshot: &Snapshot, change: &Change) {
    match change {
        Change::NamespaceRecorded(row) => assert_eq!(snapshot.namespace(&row.namespace), None),
        Change::Resource { before, after } => {
            assert_eq!(snapshot.resource(&after.resource), before.as_deref(), "another row stands");
            assert_ne!(before.as_ref(), Some(after), "a change that changes nothing");
            assert_eq!(invariants::check(before.as_deref(), after), Ok(()));
        }
        Change::NamespaceChanged { before, after } => {
            assert_eq!(snapshot.namespace(&before.namespace), Some(before.as_ref()), "another row stands");
            assert!(before.namespace == after.namespace && before.epoch <= after.epoch);
            assert!(!after.base.is_below(before.base) && before.base_incarnation <= after.base_incarnation);
        }
        Change::EverywhereChanged { before, after } => {
            assert_eq!(snapshot.everywhere(), before.as_ref(), "another row stands");
            assert!(before.epoch <= after.epoch);
        }
        Change::EraEnded(era) => {
            assert!(
                snapshot
                    .eras(&era.resource)
                    .all(|(born, number)| born < era.born && number < era.incarnation)
            );
        }
        Change::TargetStored { .. }
        | Change::AllTargetsRemoved(_)
        | Change::Audited(_)
        | Change::AuditForgotten { .. } => {}
        Change::OperationPruned(_)
        | Change::EraForgotten(_)
        | Change::ControlForgotten(_)
        | Change::ResourceFolded(_) => super::forgotten::check(snapshot, change),
        // What is there, a store behind HTTP knows alone: its removals are told of whatever the rows hold.
        Change::TargetRemoved(address) => {
            let rules = snapshot.namespace(&address.resource.namespace());
            let elsewhere = rules.is_some_and(|row| row.definition.store.class().is_some());
            assert!(elsewhere || snapshot.target(address).is_some(), "{address:?}");
        }
        Change::OperationRecorded(record) => {
            assert_eq!(snapshot.operation(&record.key()), None, "an operation is recorded once");
        }
        Change::IntentAnnounced { row, payload } => {
            assert_eq!(snapshot.intent(&row.key()), None, "an operation is announced once");
            assert_eq!((payload.length, payload.digest), (row.request.length, row.request.digest));
        }
        Change::IntentChanged { before, after } => {
            assert_eq!(snapshot.intent(&before.key()), Some(before.as_ref()), "another intent stands");
            assert_eq!(before.key(), after.key());
        }
        Change::IntentClosed(before) => {
            assert_eq!(snapshot.intent(&before.key()), Some(before.as_ref()), "another intent stands");
        }
        Change::ControlRecorded(record) => {
            let key = (record.subject.clone(), record.verb, record.key.clone());
            assert_eq!(snapshot.control(&key), None, "a control call is recorded once");
        }
        Change::LeaseGranted(lease) => assert_eq!(snapshot.lease(&lease.acquisition), None),
        Change::LeaseForgotten(lease) => {
            assert_eq!(snapshot.lease(&lease.acquisition), Some(lease.as_ref()), "another lease stands");
        }
        Change::LeaseChanged { before, after } => {
            assert_eq!(snapshot.lease(&before.acquisition), Some(before.as_ref()), "another lease stands");
            assert_eq!(before.acquisition, after.acquisition);
        }
    }
}
