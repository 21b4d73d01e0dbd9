//! What a batch changes in announced operations, and their bodies, piece by piece.

use bytes::Bytes;

use crate::domain::upstream::{Bulk, Payload};
use crate::protocol::rows::IntentRow;
use crate::protocol::snapshot::OperationKey;

use super::super::super::cells::WriteCells;
use super::super::super::changeset::{ChangeSet, IntentChange};
use super::super::super::pieces;
use super::super::super::rows;
use super::super::connect::Live;
use super::super::fault::Fault;
use super::super::tuples::Shape;
use super::Work;
use super::parts::{Expects, Part};

pub(super) const INTENTS_INSERT: Part = Part {
    table: "intents",
    shape: Shape::NewIntent,
    text: "INSERT INTO intents (bucket, resource, incarnation, operation_id, target, method, fingerprint, \
           position_epoch, position_token, sequence, acquisition, state, attempt, created_ms, named_incarnation, \
           if_match, if_none_match, query, headers, content_type, length, digest, base, doubt, due_ms, claim, body) \
           SELECT v.* FROM unnest({}) AS v RETURNING 1",
    expects: Expects::Each,
};

/// Rows of one table by the keys of what is sent, each looked up by itself: the table is nearly empty most of the time, and
/// what looks cheap then is a walk over all that has gone and is not cleared away yet.
macro_rules! looked_up {
    ($table:literal) => {
        concat!(
            "unnest({}) AS v CROSS JOIN LATERAL (SELECT i.ctid AS place FROM ",
            $table,
            " AS i WHERE i.bucket = v.bucket AND i.resource = v.resource AND i.incarnation = v.incarnation \
             AND i.operation_id = v.operation_id OFFSET 0) AS i WHERE a.ctid = i.place"
        )
    };
}

/// What the decision saw. The last comparison is no work for the index of what is due, where many have one time.
macro_rules! as_seen {
    () => {
        " AND a.state = v.seen_state AND a.attempt = v.seen_attempt \
         AND a.due_ms IS NOT DISTINCT FROM v.seen_due_ms RETURNING 1"
    };
}

/// Only those that are where the decision saw them: two who judge the same attempt cannot both be right.
pub(super) const INTENTS_UPDATE: Part = Part {
    table: "intents",
    shape: Shape::ChangedIntent,
    text: concat!(
        "UPDATE intents AS a SET state = v.state, attempt = v.attempt, base = v.base, doubt = v.doubt, \
         due_ms = v.due_ms FROM ",
        looked_up!("intents"),
        as_seen!()
    ),
    expects: Expects::Each,
};

pub(super) const INTENTS_CLOSE: Part = Part {
    table: "intents",
    shape: Shape::ClosedIntent,
    text: concat!("DELETE FROM intents AS a USING ", looked_up!("intents"), as_seen!()),
    expects: Expects::Each,
};

/// Of those that are closed, where their bodies have several pieces.
pub(super) const PIECES_CLOSE: Part = Part {
    table: "intent_pieces",
    shape: Shape::ClosedIntent,
    text: concat!("DELETE FROM intent_pieces AS a USING ", looked_up!("intent_pieces"), " RETURNING 1"),
    expects: Expects::Any,
};

const PIECES_INSERT: Part = Part {
    table: "intent_pieces",
    shape: Shape::NewPiece,
    text: "INSERT INTO intent_pieces (bucket, resource, incarnation, operation_id, piece, bytes) \
           SELECT v.* FROM unnest({}) AS v RETURNING 1",
    expects: Expects::Each,
};

/// New announcements, each with the first piece of its body.
pub(in super::super) type Announced<'c> = Vec<(&'c IntentRow, Bytes)>;

/// What a body has beyond its first piece.
pub(in super::super) struct Rest {
    key: OperationKey,
    payload: Payload,
}

/// The new announcements of a batch, and what their bodies have beyond the first piece.
pub(in super::super) async fn announced(changes: &ChangeSet) -> Result<(Announced<'_>, Vec<Rest>), Fault> {
    let (mut firsts, mut rests) = (Vec::new(), Vec::new());
    for (row, payload) in changes.announced_intents() {
        firsts.push((row, read(payload, 0).await?));
        if pieces::further(payload.length) > 0 {
            rests.push(Rest { key: row.key(), payload: payload.clone() });
        }
    }
    Ok((firsts, rests))
}

/// Announcements that go before others of the same ids come, and those that simply go.
pub(super) fn closed(changes: &ChangeSet) -> (Vec<&IntentRow>, Vec<&IntentRow>) {
    let is_replaced = |row: &&IntentRow| {
        changes.intents.get(&row.key()).is_some_and(|change: &IntentChange| change.after.is_some())
    };
    changes.closed_intents().partition(is_replaced)
}

/// Whether a body has pieces of its own to delete.
pub(super) fn has_pieces(row: &IntentRow) -> bool {
    pieces::further(row.request.length) > 0
}

impl Rest {
    /// Writes it, one piece in one statement: no more than that of the body is in memory at once.
    pub(super) async fn write(&self, live: &mut Live) -> Result<(), Fault> {
        for number in 1..=pieces::further(self.payload.length) {
            let bytes = read(&self.payload, number).await?;
            let mut work = Work::default();
            work.add(&PIECES_INSERT, [bytes], |cells, bytes| {
                rows::write_intent_key(cells, &self.key);
                cells.whole(number);
                cells.blob(&bytes);
            });
            work.run(live).await?;
        }
        Ok(())
    }
}

/// A piece of a body. What waits for a disk does so on a thread that may wait.
async fn read(payload: &Payload, number: u64) -> Result<Bytes, Fault> {
    let found = match &payload.bulk {
        Bulk::Memory(_) => pieces::piece(payload, number),
        Bulk::Disk(_) => {
            let payload = payload.clone();
            let reading = tokio::task::spawn_blocking(move || pieces::piece(&payload, number));
            reading.await.unwrap_or_else(|error| Err(error.to_string()))
        }
    };
    found.map_err(Fault::unreadable)
}

#[cfg(test)]
pub(super) const PARTS: [Part; 5] =
    [INTENTS_INSERT, INTENTS_UPDATE, INTENTS_CLOSE, PIECES_CLOSE, PIECES_INSERT];
