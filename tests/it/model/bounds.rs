//! How large a small world is: its resources, its requests, and the writes that may come at any time.

use fencegate::domain::policy::{Definition, Issuer, Policy};
use fencegate::protocol::command::Member;

use super::wrong::Bug;
use crate::support::draft::{Draft, delete, put};
use crate::support::world::World;

/// What may happen in a world. Everything in it may come at any time and any number of times: that is what delays,
/// duplicates and late deliveries are.
#[expect(clippy::struct_excessive_bools, reason = "each turns one thing of a world on")]
pub(super) struct Bounds {
    pub(super) world: World,
    /// The resources; each is a page with up to three targets.
    pub(super) pages: Vec<&'static str>,
    /// Generations: acquires per page under a gateway issuer, positions per epoch under an external one.
    pub(super) generations: u64,
    /// Epoch advances.
    pub(super) epochs: u64,
    /// Whether the breaker may trip at any time.
    pub(super) trips: bool,
    pub(super) templates: Vec<Template>,
    /// Pairs of templates that also come as one write.
    pub(super) batches: Vec<(usize, usize)>,
    /// Whether records are forgotten, at any time and as soon as they may be.
    pub(super) prunes: bool,
    /// Whether records of control calls are forgotten, at any time.
    pub(super) forgets_calls: bool,
    /// Whether leases are handed over, and resources revoked, cancelled and reopened.
    pub(super) calls: bool,
    /// What is done wrongly.
    pub(super) bug: Option<Bug>,
}

/// One write, but for its token. Zero stands for "not given" in sequence and incarnation.
pub(super) struct Template {
    pub(super) page: usize,
    /// 0 is the page as a whole.
    pub(super) target: usize,
    /// Number of the operation id.
    pub(super) operation: u64,
    /// Number of the payload: equal exactly where method, target, content and preconditions are.
    pub(super) payload: usize,
    pub(super) delete: bool,
    pub(super) sequence: u64,
    pub(super) incarnation: u64,
    pub(super) if_match: Option<(u64, u64)>,
    pub(super) if_absent: bool,
    pub(super) member: Member,
}

impl Bounds {
    /// One page under a definition: two publications of two payloads each, a conditional one and a removal.
    pub(super) fn one_page(definition: Definition, generations: u64) -> Self {
        let mut bounds = Self::empty(definition, vec!["w/a"], generations);
        let page = |operation| put("w/a", operation, "1");
        let payloads = [page("1"), page("1").body("other"), page("2").if_none_match("*")];
        let (guarded, end) = (page("2").incarnation(1), delete("w/a", "3", "1"));
        match definition.policy {
            Policy::Single => payloads.into_iter().for_each(|draft| bounds.add(&draft)),
            Policy::Ordered { .. } => {
                bounds.add(&page("1").sequence(1));
                bounds.add(&page("1").sequence(2));
                bounds.add(&page("1").body("other").sequence(2));
                bounds.add(&page("2").sequence(1));
                bounds.add(&page("2").sequence(3));
            }
            Policy::Session => {
                payloads.into_iter().take(2).for_each(|draft| bounds.add(&draft));
                bounds.add(&page("2").if_match("\"1.1\""));
                bounds.add(&page("2").if_match("\"2.3\""));
                bounds.add(&page("4"));
            }
        }
        match definition.policy {
            Policy::Single => bounds.add(&guarded),
            Policy::Ordered { .. } => bounds.add(&guarded.sequence(2)),
            Policy::Session => bounds.add(&guarded.if_match("\"1.1\"")),
        }
        match definition.policy {
            Policy::Single => bounds.add(&end),
            Policy::Ordered { .. } => [1, 2].into_iter().for_each(|n| bounds.add(&end.clone().sequence(n))),
            Policy::Session => {
                bounds.add(&end.clone());
                bounds.add(&end.if_match("\"1.1\""));
            }
        }
        if let Issuer::Trusted { .. } = definition.issuer {
            // The first publication by somebody who may not raise the floor.
            let first = page("1");
            bounds.add(&if let Policy::Ordered { .. } = definition.policy {
                first.sequence(1)
            } else {
                first
            });
            bounds.templates.last_mut().unwrap().member.may_raise = false;
        }
        bounds
    }

    /// Two pages, or two targets of one page, that are also written together.
    pub(super) fn batches(definition: Definition, pages: Vec<&'static str>, generations: u64) -> Self {
        let mut bounds = Self::empty(definition, pages, generations);
        let sequence = |draft: Draft, number| match definition.policy {
            Policy::Single | Policy::Session => draft,
            Policy::Ordered { .. } => draft.sequence(number),
        };
        let [first, second] = match bounds.pages.as_slice() {
            [one] => [format!("{one}/1"), format!("{one}/2")],
            more => [more[0].to_owned(), more[1].to_owned()],
        };
        bounds.add(&sequence(put(&first, "1", "1"), 1));
        bounds.add(&sequence(put(&second, "2", "1"), 1));
        bounds.add(&sequence(put(&second, "2", "1").body("other"), 1));
        bounds.add(&sequence(put(&second, "1", "1"), 2));
        bounds.add(&sequence(delete(&first, "3", "1"), 1));
        bounds.batches = vec![(0, 1), (4, 1), (0, 2)];
        if bounds.pages.len() == 1 {
            bounds.add(&sequence(delete(bounds.pages[0], "4", "1"), 2));
        }
        bounds
    }

    /// One page with few writes, and everything that is done to leases and resources from outside.
    pub(super) fn calls(definition: Definition, generations: u64) -> Self {
        let mut bounds = Self::empty(definition, vec!["w/a"], generations);
        bounds.calls = true;
        bounds.add(&put("w/a", "1", "1"));
        bounds.add(&delete("w/a", "2", "1"));
        bounds
    }

    fn empty(definition: Definition, pages: Vec<&'static str>, generations: u64) -> Self {
        Self {
            world: World::new(definition),
            pages,
            generations,
            epochs: 1,
            trips: false,
            templates: Vec::new(),
            batches: Vec::new(),
            calls: false,
            bug: None,
            prunes: false,
            forgets_calls: false,
        }
    }

    fn add(&mut self, draft: &Draft) {
        let member = draft.member(&self.world);
        let same = |other: &Template| {
            let (a, b) = (&other.member, &member);
            a.address == b.address
                && a.method == b.method
                && a.document == b.document
                && a.preconditions == b.preconditions
        };
        let known = self.templates.iter().find(|other| same(other)).map(|other| other.payload);
        let page = self.pages.iter().position(|page| *page == member.address.resource.as_str()).unwrap();
        let target = member.address.target.as_ref().map_or(0, |target| target.as_str().parse().unwrap());
        self.templates.push(Template {
            page,
            target,
            operation: draft.operation.parse().unwrap(),
            payload: known.unwrap_or(self.templates.len()),
            delete: draft.body.is_empty(),
            sequence: draft.sequence.unwrap_or(0),
            incarnation: draft.incarnation.unwrap_or(0),
            if_match: draft.if_match.as_deref().map(tag),
            if_absent: draft.if_none_match.is_some(),
            member,
        });
    }
}

fn tag(text: &str) -> (u64, u64) {
    let (incarnation, commit) = text.trim_matches('"').split_once('.').unwrap();
    (incarnation.parse().unwrap(), commit.parse().unwrap())
}
