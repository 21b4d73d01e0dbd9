//! Acquisitions: positions are unique and rise, one belongs to one acquisition, and two do not live at once.

use super::case::{Call, Case, Grant};
use crate::exam::events::{Act, Answered, Granted, Place};
use crate::limits::EXAM_CLOCK_SLACK_US;

impl Case {
    /// A call that is about to change a lease begins.
    pub(super) fn asked(&mut self, call: &Call) {
        let sent = &call.sent;
        if let (Act::Acquire, Some(request)) = (sent.act, &sent.request) {
            self.requests.entry(request.clone()).or_insert((self.known.granted, call.at));
        }
        if sent.act == Act::Remove {
            self.removals = self.removals.saturating_add(1);
            self.all_end(call.n);
        }
        if sent.act == Act::Release
            && let Some(grant) = self.grant_of(sent.acquisition.as_deref())
        {
            grant.ended.get_or_insert(call.n);
        }
    }

    /// A removal ends every lease of the resource.
    fn all_end(&mut self, n: u64) {
        for grant in self.grants.values_mut() {
            grant.ended.get_or_insert(n);
        }
    }

    /// It is known what became of a removal.
    pub(super) fn removal_decided(&mut self, n: u64) {
        self.removals = self.removals.saturating_sub(1);
        self.all_end(n);
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
        let asked = call.sent.request.as_ref().and_then(|request| self.requests.get(request).copied());
        let (before, since) = asked.unwrap_or((None, call.at));
        if let Some(before) = before.filter(|before| *before >= position) {
            let told = format!("{position} was granted to who asked after {before} had been");
            self.blame("I8", told, &[call.n, n]);
        }
        let until = since.saturating_add(call.sent.ttl_ms.unwrap_or_default().saturating_mul(1_000));
        if let Some((other, line)) = self.alive(position, call.n, at) {
            let told = format!("{position} was granted while {other} was certainly alive");
            self.blame("I17", told, &[line, call.n, n]);
        }
        let acquisition = granted.acquisition.clone();
        self.grants.insert(position, Grant { acquisition, line: n, until, ended: None });
    }

    /// An acquisition whose owner had its answer before this one was asked for, that nobody has been about to end, and that
    /// lives on after this one was answered.
    fn alive(&self, position: Place, asked: u64, answered_at: u64) -> Option<(Place, u64)> {
        let alive = |grant: &Grant| {
            self.removals == 0
                && grant.line < asked
                && grant.ended.is_none()
                && answered_at.saturating_add(EXAM_CLOCK_SLACK_US) < grant.until
        };
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
    }
}
