//! The resource that some workers fight for, and the operations that their owners left undone.
//!
//! After a while a fresh resource takes its place, and nobody uses the old one any more: then it can be closed and judged,
//! and the exam and its judge need no more memory after an hour than after a minute.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::events::Rules;
use super::payload::Operation;
use crate::limits::{EXAM_ORPHANS, EXAM_RESOURCE_OPERATIONS, EXAM_RESOURCE_TIME};

struct Now {
    resource: Arc<str>,
    number: u64,
    operations: u64,
    since: Duration,
    orphans: VecDeque<Operation>,
}

/// See above.
pub(super) struct Slot {
    pub(super) rules: Rules,
    index: usize,
    now: Mutex<Now>,
}

fn name(rules: &Rules, index: usize, number: u64) -> Arc<str> {
    format!("{}/s{index}-{number}", rules.name).into()
}

/// The two resources of a pair.
pub(super) fn halves(resource: &str) -> [String; 2] {
    [format!("{resource}/a"), format!("{resource}/b")]
}

impl Slot {
    pub(super) fn new(rules: Rules, index: usize) -> Self {
        let resource = name(&rules, index, 0);
        let orphans = VecDeque::new();
        let now = Now { resource, number: 0, operations: 0, since: Duration::ZERO, orphans };
        Self { rules, index, now: Mutex::new(now) }
    }

    /// The resource of now; and the one of before, where this was its end.
    pub(super) fn resource(&self, at: Duration) -> (Arc<str>, Option<Arc<str>>) {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        let old = at.saturating_sub(now.since) > EXAM_RESOURCE_TIME;
        if !old && now.operations < EXAM_RESOURCE_OPERATIONS {
            return (now.resource.clone(), None);
        }
        now.number = now.number.saturating_add(1);
        let fresh = name(&self.rules, self.index, now.number);
        let retired = std::mem::replace(&mut now.resource, fresh.clone());
        (now.operations, now.since) = (0, at);
        now.orphans.clear();
        (fresh, Some(retired))
    }

    /// The resource that is in use when all is over.
    pub(super) fn last(&self) -> Arc<str> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner).resource.clone()
    }

    /// An operation id that was never used of this resource.
    pub(super) fn fresh_id(&self, resource: &str) -> String {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        now.operations = now.operations.saturating_add(1);
        format!("{}-{}", resource.rsplit('/').next().unwrap_or_default(), now.operations)
    }

    /// Leaves an operation for whoever comes next.
    pub(super) fn leave(&self, resource: &str, operation: Operation) {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        if *now.resource == *resource && now.orphans.len() < EXAM_ORPHANS {
            now.orphans.push_back(operation);
        }
    }

    /// Takes up what somebody left.
    pub(super) fn take_up(&self, resource: &str) -> Option<Operation> {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        if *now.resource == *resource { now.orphans.pop_front() } else { None }
    }
}
