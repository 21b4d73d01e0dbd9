//! What an operator's call on a resource promises once it is answered: nothing at or below what was revoked takes effect,
//! nothing at all while the work is called off, a copy of a call does nothing, and what was revoked stays revoked.

use super::case::{Call, Case, Known};
use crate::exam::events::{Act, Answered, Booked, Class, Closed, Place, Registers};

/// One call, by its key.
#[derive(Debug)]
pub(super) struct Control {
    act: Act,
    /// Where it was first sent, and what was known then.
    line: u64,
    known: Known,
    /// The cancellation that it ends, where nothing else can have ended it.
    under: Option<Cancelled>,
    /// Deliveries of which nobody knows what became.
    unknown: u64,
    /// Whether the network delivered it once more.
    repeated: bool,
    /// The line and the bytes of the first answer that says that it was carried out.
    done: Option<(u64, Option<String>)>,
}

impl Control {
    /// Whether it may still be carried out, or may have been.
    fn is_open(&self) -> bool {
        self.done.is_none() && (self.unknown > 0 || self.repeated)
    }
}

/// What a resource was when it was called off.
#[derive(Debug, Clone)]
pub(super) struct Cancelled {
    line: u64,
    issued: Place,
    commit: u64,
    /// How many operations were under way, each of which may still count.
    left: u64,
}

/// From this line on nothing takes effect under these positions.
#[derive(Debug)]
pub(super) struct End {
    pub(super) line: u64,
    /// This one and all below.
    pub(super) through: Place,
    /// The commit number at that moment, where the answer showed it.
    pub(super) commit: Option<u64>,
    /// But for these: a resource and an operation.
    pub(super) left: Vec<String>,
}

impl End {
    /// Whether this operation of a resource is refused.
    pub(super) fn refuses(&self, resource: &str, operation: &str, position: Place) -> bool {
        position <= self.through && !self.left.contains(&format!("{resource} {operation}"))
    }
}

impl Case {
    /// Whether a call of one of these kinds may be carried out at any moment, or may have been.
    pub(super) fn awaits(&self, is_one: fn(Act) -> bool) -> bool {
        self.controls.values().any(|control| is_one(control.act) && control.is_open())
    }

    /// A call begins.
    pub(super) fn ordered(&mut self, n: u64, call: &Call) {
        let Some(key) = call.sent.operation.clone() else { return };
        let act = call.sent.act;
        let alone = !self.awaits(|act| act == Act::Reopen);
        let mut under = None;
        if act == Act::Reopen {
            self.known.cancelled = None;
            under = self.cancelled.take().filter(|_| alone);
        } else {
            self.all_end(n);
        }
        let known = self.known.clone();
        let control = self.controls.entry(key).or_insert_with(|| Control {
            act,
            line: n,
            known,
            under,
            unknown: 0,
            repeated: false,
            done: None,
        });
        control.unknown = control.unknown.saturating_add(1);
    }

    /// The network delivers it once more.
    pub(super) fn ordered_again(&mut self, key: &str) {
        if let Some(control) = self.controls.get_mut(key) {
            control.repeated = true;
        }
    }

    /// A call is answered.
    pub(super) fn carried_out(&mut self, n: u64, call: &Call, answered: &Answered) {
        let Some((key, control)) =
            call.sent.operation.as_ref().and_then(|key| Some((key.clone(), self.controls.get_mut(key)?)))
        else {
            return;
        };
        if !matches!(answered.status, 200..=299) {
            if answered.effect.as_deref() == Some("none") {
                control.unknown = control.unknown.saturating_sub(1);
            }
            return;
        }
        control.unknown = control.unknown.saturating_sub(1);
        if let Some((line, before)) = &control.done {
            if *before != answered.digest {
                let (line, told) = (*line, format!("the call {key} was answered in two ways"));
                self.blame("I5", told, &[line, call.n, n]);
            }
            return;
        }
        control.done = Some((n, answered.digest.clone()));
        let (act, line, known, under) =
            (control.act, control.line, control.known.clone(), control.under.clone());
        let Some(shown) = answered.registers.clone() else {
            return self.blame("I5", format!("the answer to {key} shows no resource"), &[call.n, n]);
        };
        if let Some(told) = known.fell(&shown) {
            self.blame("I7", told, &[line, n]);
        }
        if act == Act::Reopen {
            self.reopened(n, &known, under.as_ref(), &shown);
            return;
        }
        self.revoked(n, line, &known, &shown, &answered.left);
        let untouched =
            !self.awaits(|act| act == Act::Reopen) && !self.controls.values().any(|one| one.came_after(line));
        if act == Act::Cancel && untouched {
            let left = u64::try_from(answered.left.len()).unwrap_or(u64::MAX);
            self.known.cancelled = Some(n);
            self.cancelled = Some(Cancelled { line: n, issued: shown.issued, commit: shown.commit, left });
        }
    }

    /// All that was issued is revoked, and above all what somebody had been granted.
    fn revoked(&mut self, n: u64, line: u64, known: &Known, shown: &Registers, left: &[String]) {
        let Some(through) = shown.revoked else {
            if known.granted.is_some() {
                self.blame("I10", "a call that revokes has revoked nothing".to_owned(), &[line, n]);
            }
            return;
        };
        if through < shown.issued || Some(through) < known.granted {
            let told = format!(
                "a call revoked up to {through}, and {} was issued, {:?} granted",
                shown.issued, known.granted
            );
            self.blame("I10", told, &[line, n]);
        }
        self.known.revoked = self.known.revoked.max(Some(through));
        for (_, grant) in self.grants.range_mut(..=through) {
            grant.ended.get_or_insert(n);
        }
        self.ends.push(End { line: n, through, commit: Some(shown.commit), left: left.to_vec() });
    }

    /// Nothing was issued, and nothing but what had been under way took effect, while it was called off.
    fn reopened(&mut self, n: u64, known: &Known, under: Option<&Cancelled>, shown: &Registers) {
        if shown.revoked < known.revoked {
            let told =
                format!("{:?} was revoked, and is not after a reopen: {:?}", known.revoked, shown.revoked);
            self.blame("I7", told, &[n]);
        }
        let Some(before) = under else { return };
        if shown.issued != before.issued {
            let told = format!("{} was issued while it was called off at {}", shown.issued, before.issued);
            self.blame("cancel", told, &[before.line, n]);
        }
        if shown.commit > before.commit.saturating_add(before.left) {
            let told =
                format!("commit {} was reached while it was called off at {}", shown.commit, before.commit);
            self.blame("cancel", told, &[before.line, n]);
        }
    }

    /// The same cancellation was in force when something was asked for, and when it was answered.
    pub(super) fn forbidden(&mut self, what: &str, known: &Known, lines: &[u64]) {
        if let Some(line) = known.cancelled.filter(|line| self.known.cancelled == Some(*line)) {
            let mut lines = lines.to_vec();
            lines.push(line);
            self.blame("cancel", format!("{what} while the work was called off"), &lines);
        }
    }

    /// I10: after a call that revokes no commit number is given to what it revoked; and in a database of the gateway's own,
    /// where the effect has its number in the moment in which it happens, none to what was fenced when somebody looked.
    pub(super) fn nothing_after_an_end(&mut self, n: u64, closed: &Closed) {
        let mut wrong = Vec::new();
        let numbered = |one: &&Booked| one.state.ends_with("applied") && one.commit.is_some();
        for booked in closed.booked.iter().filter(numbered) {
            let (id, position) = (&booked.operation, booked.position);
            let after = |end: &&End| {
                end.commit.is_some_and(|commit| booked.commit > Some(commit))
                    && end.refuses(&self.resource, id, position)
            };
            if let Some(end) = self.ends.iter().find(after) {
                let told = format!("became authoritative under {position} after {} was revoked", end.through);
                wrong.push((id.clone(), told, end.line));
            }
            let seen = self.looks.iter().find(|look| {
                booked.commit > Some(look.commit)
                    && (Some(position) < look.fence || Some(position) <= look.revoked)
            });
            if let Some(look) = seen.filter(|_| self.rules.class == Class::Document) {
                let told = format!("became authoritative under {position} after it had been fenced");
                wrong.push((id.clone(), told, look.line));
            }
        }
        for (id, told, line) in wrong {
            self.blame_operation("I10", &id, &told, &[line, n]);
        }
    }
}

impl Control {
    /// Whether it is a reopen that began after this line.
    fn came_after(&self, line: u64) -> bool {
        self.act == Act::Reopen && self.line > line
    }
}
