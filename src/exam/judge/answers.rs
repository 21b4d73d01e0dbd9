//! Calls of workers and what they were answered: writes, reads and looks.

use super::case::{Call, Case, Known, Looked, Operation, Outcome};
use crate::exam::events::{Act, Answered, Class, Registers, Sent};

/// Codes that say that the gateway found itself contradicted, or failed. In an exam nothing is ever restored, and every
/// store is honest; and nobody asks for what makes no sense.
const NEVER: [&str; 11] = [
    "internal",
    "issuer_behind",
    "quarantined",
    "epoch_ahead",
    "token_not_yours",
    "definition_differs",
    "operation_expired",
    "invalid_request",
    "invalid_body",
    "invalid_field",
    "request_mismatch",
];

/// Statuses under which an effect may be unknown.
const OPEN: [u16; 4] = [409, 500, 503, 504];

/// What one payload under one id is compared by.
pub(super) fn payload_of(sent: &Sent) -> String {
    let digest = sent.digest.as_deref().unwrap_or_default();
    if sent.act == Act::Remove { "removal".to_owned() } else { digest.to_owned() }
}

impl Case {
    pub(super) fn sent(&mut self, n: u64, at: u64, sent: Sent) -> Call {
        let call = Call { sent, n, at, known: self.known.clone() };
        let sent = &call.sent;
        if let (Act::Write | Act::Remove, Some(id)) = (sent.act, &sent.operation) {
            let known = self.known.clone();
            let operation = self
                .operations
                .entry(id.clone())
                .or_insert_with(|| Operation { known, ..Operation::default() });
            operation.lines.push(n);
            operation.unknown = operation.unknown.saturating_add(1);
            let payload = payload_of(sent);
            if !operation.payloads.contains(&payload) {
                operation.payloads.push(payload);
            }
        }
        if sent.act.is_control() {
            self.ordered(n, &call);
        }
        if let (Act::Resolve, Some(id)) = (sent.act, &sent.request) {
            self.lanes.resolved(n, id);
        }
        self.asked(&call);
        call
    }

    pub(super) fn lost(&mut self, n: u64, call: &Call) {
        if let Some(operation) = call.sent.operation.as_ref().and_then(|id| self.operations.get_mut(id)) {
            operation.lines.push(n);
        }
    }

    pub(super) fn again(&mut self, n: u64, operation: &str) {
        if let Some(operation) = self.operations.get_mut(operation) {
            operation.repeated = true;
            operation.lines.push(n);
        }
        self.ordered_again(operation);
    }

    pub(super) fn answered(&mut self, n: u64, at: u64, call: &Call, answered: &Answered) {
        if let Some(code) = answered.code.as_deref().filter(|code| NEVER.contains(code)) {
            self.blame("I20", format!("an answer has the code {code}"), &[call.n, n]);
        }
        match call.sent.act {
            Act::Write | Act::Remove => self.written(n, call, answered),
            Act::Read => self.read(n, call, answered),
            Act::Look => self.looked(n, call, answered),
            Act::Acquire | Act::Transfer => self.acquired(n, at, call, answered),
            Act::Renew => self.renewed(n, call, answered),
            Act::Revoke | Act::Cancel | Act::Reopen => self.carried_out(n, call, answered),
            // Its end was noted when it was asked for; an epoch is none of one resource; the books show a resolution.
            Act::Release | Act::Epoch | Act::Resolve => {}
        }
    }

    fn written(&mut self, n: u64, call: &Call, answered: &Answered) {
        let Some(id) = call.sent.operation.clone() else { return };
        if let Some(operation) = self.operations.get_mut(&id) {
            operation.lines.push(n);
        }
        let unfenced = self.rules.class == Class::Unfenced;
        let success = matches!(answered.status, 200..=299);
        let effect = match answered.effect.as_deref() {
            None if unfenced && success => "applied",
            None => "unknown",
            Some(effect) => effect,
        };
        self.lanes.told(call.n, &id, answered);
        match effect {
            "applied" => self.applied(n, call, answered, &id),
            "none" => {
                if success && answered.code.is_none() {
                    self.blame_operation("I3", &id, "a success says that it has no effect", &[]);
                }
                if let Some(operation) = self.operations.get_mut(&id) {
                    operation.unknown = operation.unknown.saturating_sub(1);
                }
            }
            _ if OPEN.contains(&answered.status) => {}
            _ => self.blame_operation("I5", &id, "its effect is unknown though its outcome is not", &[]),
        }
    }

    fn applied(&mut self, n: u64, call: &Call, answered: &Answered, id: &str) {
        let Some(position) = answered.position.or(call.sent.position) else {
            return self.blame_operation("I5", id, "applied under no position", &[]);
        };
        let (status, commit, etag) = (answered.status, answered.commit, answered.etag.clone());
        let outcome = Outcome { status, position, commit, etag, body: answered.digest.clone() };
        let payload = payload_of(&call.sent);
        let life = answered.incarnation.unwrap_or(1);
        let Some(operation) = self.operations.get_mut(id) else { return };
        operation.unknown = operation.unknown.saturating_sub(1);
        let alone = operation.unknown == 0 && !operation.repeated && !answered.replayed;
        let first = operation.outcomes.get(&life).cloned();
        // A delivery that is the only one there is was admitted after it was sent.
        let known = if alone && first.is_none() { call.known.clone() } else { operation.known.clone() };
        if first.is_none() {
            operation.outcomes.insert(life, (outcome.clone(), payload.clone(), n));
        }
        if self.rules.class == Class::Unfenced {
            return;
        }
        match first {
            Some((_, before, earlier)) if before != payload => {
                self.blame_operation("I6", id, "applied with two payloads", &[earlier]);
            }
            Some((before, _, earlier)) if before != outcome => {
                let told = format!("two answers differ: {before:?} and {outcome:?}");
                self.blame_operation("I5", id, &told, &[earlier]);
            }
            _ => {}
        }
        if known.fence > Some(position) {
            let told =
                format!("applied under {position}, and sent after {:?} had been acknowledged", known.fence);
            self.blame_operation("I9", id, &told, &[]);
        }
        if known.revoked >= Some(position) {
            let told = format!("applied under {position}, and sent after {:?} was revoked", known.revoked);
            self.blame_operation("I9", id, &told, &[]);
        }
        self.forbidden(&format!("{id} was applied"), &known, &[call.n, n]);
        self.known.fenced(position);
        self.known.commit = self.known.commit.max(commit.unwrap_or_default());
    }

    fn looked(&mut self, n: u64, call: &Call, answered: &Answered) {
        let Some(shown) = answered.registers.clone() else { return };
        if let Some(told) = call.known.fell(&shown) {
            self.blame("I7", told, &[call.n, n]);
        }
        if shown.commit < call.known.commit {
            let told =
                format!("commit {} is shown, and {} was acknowledged", shown.commit, call.known.commit);
            self.blame("I7", told, &[call.n, n]);
        }
        if Some(shown.issued) < call.known.granted {
            let told = format!("{} is shown as issued, and {:?} was", shown.issued, call.known.granted);
            self.blame("I7", told, &[call.n, n]);
        }
        if shown.epoch < call.known.epoch || shown.revoked < call.known.revoked {
            let (epoch, revoked) = (call.known.epoch, call.known.revoked);
            let told = format!("epoch {epoch} had begun, {revoked:?} was revoked, and {shown:?} is shown");
            self.blame("I7", told, &[call.n, n]);
        }
        let (fence, revoked) = (call.known.fence, call.known.revoked);
        self.looks.push(Looked { line: n, fence, revoked, commit: shown.commit });
        self.known.shown(&shown);
    }
}

impl Known {
    /// What is lower in these registers than it was.
    pub(super) fn fell(&self, now: &Registers) -> Option<String> {
        let before = self.registers.as_ref()?;
        let fell = now.issued < before.issued
            || now.floor < before.floor
            || now.commit < before.commit
            || now.incarnation < before.incarnation
            || now.revoked < before.revoked
            || now.epoch < before.epoch;
        fell.then(|| format!("registers fell from {before:?} to {now:?}"))
    }

    fn shown(&mut self, now: &Registers) {
        let Some(before) = &mut self.registers else {
            self.registers = Some(now.clone());
            return;
        };
        before.issued = before.issued.max(now.issued);
        before.floor = before.floor.max(now.floor);
        before.commit = before.commit.max(now.commit);
        before.incarnation = before.incarnation.max(now.incarnation);
        before.revoked = before.revoked.max(now.revoked);
        before.epoch = before.epoch.max(now.epoch);
    }
}
