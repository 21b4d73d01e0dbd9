//! Acquisitions: positions are unique and rise, one belongs to one acquisition, and two do not live at once.

use super::case::{Asked, Call, Case, Grant, Known};
use crate::exam::events::{Act, Answered, Granted, Place};
use crate::limits::EXAM_CLOCK_SLACK_US;

impl Case {
    /// A call that is about to change a lease begins.
    pub(super) fn asked(&mut self, call: &Call) {
        let sent = &call.sent;
        if let (Act::Acquire | Act::Transfer, Some(request)) = (sent.act, &sent.request) {
            let known = self.known.clone();
            self.requests.entry(request.clone()).or_insert(Asked { known, at: call.at });
        }
        // A removal ends the lease of its own position, and no other one.
        if sent.act == Act::Remove
            && let Some(grant) = sent.position.and_then(|position| self.grants.get_mut(&position))
        {
            grant.ended.get_or_insert(call.n);
        }
        if matches!(sent.act, Act::Release | Act::Transfer)
            && let Some(grant) = self.grant_of(sent.acquisition.as_deref())
        {
            grant.ended.get_or_insert(call.n);
        }
    }

    /// Each of them may have ended.
    pub(super) fn all_end(&mut self, n: u64) {
        for grant in self.grants.values_mut() {
            grant.ended.get_or_insert(n);
        }
    }

    fn grant_of(&mut self, acquisition: Option<&str>) -> Option<&mut Grant> {
        self.grants.values_mut().find(|grant| Some(grant.acquisition.as_str()) == acquisition)
    }

    pub(super) fn acquired(&mut self, n: u64, at: u64, call: &Call, answered: &Answered) {
        let Some(granted) = &answered.granted else { return };
        self.belongs(n, call, granted);
        if granted.state != "held" {
            return;
        }
        self.may_be_held(n, call, granted.position);
        if !self.grants.contains_key(&granted.position) {
            self.is_new(n, at, call, granted);
        }
        self.known.granted = self.known.granted.max(Some(granted.position));
        if self.is_immediate() {
            self.known.fenced(granted.position);
            self.owned.push((n, granted.position));
        }
    }

    /// I8: one position, one acquisition.
    fn belongs(&mut self, n: u64, call: &Call, granted: &Granted) {
        if let Some(grant) = self.grants.get(&granted.position)
            && grant.acquisition != granted.acquisition
        {
            let (line, told) = (grant.line, format!("{} was granted to two acquisitions", granted.position));
            self.blame("I8", told, &[line, call.n, n]);
        }
        let position = granted.position;
        let other = self
            .grants
            .iter()
            .find(|(at, grant)| **at != position && grant.acquisition == granted.acquisition);
        if let Some((at, grant)) = other {
            let told = format!("one acquisition has the positions {at} and {position}");
            let line = grant.line;
            self.blame("I8", told, &[line, call.n, n]);
        }
    }

    fn is_new(&mut self, n: u64, at: u64, call: &Call, granted: &Granted) {
        let position = granted.position;
        // It may have been decided as soon as its first delivery was sent.
        let asked = call.sent.request.as_ref().and_then(|request| self.requests.get(request).cloned());
        let Asked { known, at: since } =
            asked.unwrap_or_else(|| Asked { known: Known::default(), at: call.at });
        if let Some(before) = known.granted.filter(|before| *before >= position) {
            let told = format!("{position} was granted to who asked after {before} had been");
            self.blame("I8", told, &[call.n, n]);
        }
        if known.epoch > position.epoch {
            let told = format!("{position} was granted to who asked after epoch {} had begun", known.epoch);
            self.blame("I8", told, &[call.n, n]);
        }
        self.forbidden(&format!("{position} was granted"), &known, &[call.n, n]);
        if call.sent.act == Act::Transfer {
            self.handed_over(n, call, &known, position);
        }
        let until = since.saturating_add(call.sent.ttl_ms.unwrap_or_default().saturating_mul(1_000));
        if let Some((other, line)) = self.alive(position, call.n, at) {
            let told = format!("{position} was granted while {other} was certainly alive");
            self.blame("I17", told, &[line, call.n, n]);
        }
        let acquisition = granted.acquisition.clone();
        // Another one's answer may have come first, which says that it has ended already.
        let ended = self.known.over(position).is_some() || call.n < self.shadow;
        let ended = ended.then_some(n);
        self.grants.insert(position, Grant { acquisition, line: n, until, ended });
    }

    /// A transfer: whoever hands over is the owner, and nobody comes between the two.
    fn handed_over(&mut self, n: u64, call: &Call, known: &Known, position: Place) {
        let acquisition = call.sent.acquisition.as_deref();
        let before = self.grants.iter().find(|(_, grant)| Some(grant.acquisition.as_str()) == acquisition);
        let Some((before, line)) = before.map(|(before, grant)| (*before, grant.line)) else { return };
        let next = Place { token: before.token.saturating_add(1), ..before };
        if position != next {
            let told = format!("{before} was handed over as {position}: somebody came between");
            self.blame("I17", told, &[line, call.n, n]);
        }
        if let Some(why) = known.over(before) {
            let told = format!("{before} was handed over, and it had ended: {why}");
            self.blame("I17", told, &[line, call.n, n]);
        }
    }

    /// An answer that says that a lease is held speaks of one that can be.
    fn may_be_held(&mut self, n: u64, call: &Call, position: Place) {
        if let Some(why) = call.known.over(position) {
            self.blame("I17", format!("{position} is held, and it had ended: {why}"), &[call.n, n]);
        }
    }

    /// An acquisition whose owner had its answer before this one was asked for, that nobody has been about to end, and that
    /// lives on after this one was answered.
    fn alive(&self, position: Place, asked: u64, answered_at: u64) -> Option<(Place, u64)> {
        let alive = |grant: &Grant| {
            self.threats == 0
                && !self.shadowed
                && grant.line < asked
                && grant.ended.is_none()
                && answered_at.saturating_add(EXAM_CLOCK_SLACK_US) < grant.until
        };
        if self.awaits(|act| act != Act::Reopen) {
            return None;
        }
        let found = self.grants.range(..position).find(|(_, grant)| alive(grant));
        found.map(|(other, grant)| (*other, grant.line))
    }

    pub(super) fn renewed(&mut self, n: u64, call: &Call, answered: &Answered) {
        if answered.status != 200 {
            return;
        }
        let until = call.at.saturating_add(call.sent.ttl_ms.unwrap_or_default().saturating_mul(1_000));
        let Some(grant) = self.grant_of(call.sent.acquisition.as_deref()) else { return };
        // It may only have been made longer: the end that it had stands.
        grant.until = grant.until.max(until);
        let Some(granted) = &answered.granted else { return };
        self.belongs(n, call, granted);
        if granted.state == "held" {
            self.may_be_held(n, call, granted.position);
        }
    }
}

impl Known {
    /// Why a lease of this position had ended by then.
    fn over(&self, position: Place) -> Option<String> {
        if self.granted > Some(position) {
            return Some(format!("{:?} had been granted", self.granted));
        }
        if self.revoked >= Some(position) {
            return Some(format!("{:?} had been revoked", self.revoked));
        }
        (self.epoch > position.epoch).then(|| format!("epoch {} had begun", self.epoch))
    }
}
