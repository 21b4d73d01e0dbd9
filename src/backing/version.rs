//! What a store calls itself, learnt from its answers: one that names another version has to earn its class anew.
//!
//! A name costs each answer one look at a header and one comparison. Only what was never seen takes the way to a probe.

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use hyper::HeaderMap;
use hyper::header::HeaderName;
use tokio::sync::Notify;

use crate::limits::{PROBES_FOR_VERSIONS, STORE_VERSION_BYTES, STORE_VERSIONS};

/// What a store called itself, cut to what is kept of it.
type Name = Box<[u8]>;

/// The versions of a store that are known, and those that are not.
pub(super) struct Versions {
    header: Option<HeaderName>,
    book: RwLock<Book>,
    news: Notify,
}

#[derive(Default)]
struct Book {
    /// Those that the last passed probes met.
    known: Vec<Name>,
    /// Those that answers have named since then.
    strange: Vec<Name>,
    /// How many more probes a new name may cause until the daily one. A store whose every answer has a name of its own,
    /// or one behind a balancer whose second version no probe ever meets, is not probed for ever.
    left: u32,
}

/// What a store has called itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VersionsSeen {
    /// Those that the last passed probes met, as the store named them.
    pub probed: Vec<String>,
    /// Those that it has named since then.
    pub unprobed: Vec<String>,
}

impl Versions {
    /// Of the answers' header of this name.
    pub(super) fn named_by(header: &str) -> Self {
        let book = Book { left: PROBES_FOR_VERSIONS, ..Book::default() };
        Self {
            header: HeaderName::try_from(header.to_ascii_lowercase()).ok(),
            book: RwLock::new(book),
            news: Notify::new(),
        }
    }

    /// Takes note of an answer's head. Whatever stands in front of a store answers 5xx in its place and by its own name.
    pub(super) fn note(&self, status: u16, headers: &HeaderMap) {
        let named = self.header.as_ref().and_then(|header| headers.get(header));
        let Some(value) = named.filter(|_| status < 500) else { return };
        let name = value.as_bytes();
        let name = name.get(..STORE_VERSION_BYTES).unwrap_or(name);
        if self.read().is_settled(name) {
            return;
        }
        let mut book = self.write();
        if !book.is_settled(name) {
            book.strange.push(name.into());
        }
        drop(book);
        self.news.notify_one();
    }

    /// A probe was passed that met these. One that a new name has caused adds to what is known: behind a balancer two
    /// versions take turns. Any other one begins anew.
    pub(super) fn passed(&self, met: &Self, for_version: bool) {
        let met: Vec<Name> = met.read().strange.clone();
        let mut book = self.write();
        if for_version {
            book.left = book.left.saturating_sub(1);
        } else {
            book.known.clear();
            book.left = PROBES_FOR_VERSIONS;
        }
        for name in met {
            if !book.known.contains(&name) {
                book.known.push(name);
            }
        }
        // Not met by the probe it is as strange as before; the next answer that names it says so.
        book.strange.clear();
    }

    /// Waits for an answer that names a version which no probe has met.
    pub(super) async fn another(&self) {
        loop {
            let news = self.news.notified();
            if !self.read().strange.is_empty() {
                return;
            }
            news.await;
        }
    }

    /// For people.
    pub(super) fn seen(&self) -> VersionsSeen {
        let texts =
            |names: &[Name]| names.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect();
        let book = self.read();
        VersionsSeen { probed: texts(&book.known), unprobed: texts(&book.strange) }
    }

    fn read(&self) -> RwLockReadGuard<'_, Book> {
        self.book.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Book> {
        self.book.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Book {
    /// Whether a name is no news: it is known, or a probe is waited for already, or there were too many.
    fn is_settled(&self, name: &[u8]) -> bool {
        let among = |names: &[Name]| names.iter().any(|other| **other == *name);
        among(&self.known) || among(&self.strange) || self.left == 0 || self.strange.len() >= STORE_VERSIONS
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    fn named(versions: &Versions, status: u16, name: &str) {
        let mut headers = HeaderMap::new();
        headers.insert("server", HeaderValue::from_str(name).unwrap());
        versions.note(status, &headers);
    }

    fn unprobed(versions: &Versions) -> Vec<String> {
        versions.seen().unprobed
    }

    /// What a probe met that was answered by these.
    fn met(names: &[&str]) -> Versions {
        let met = Versions::named_by("Server");
        for name in names {
            named(&met, 200, name);
        }
        met
    }

    #[test]
    fn two_versions_that_take_turns_are_both_known_in_the_end() {
        let versions = met(&["a"]);
        versions.passed(&met(&["a"]), false);
        for probe in [["a", "a"], ["b", "b"]] {
            named(&versions, 200, "a");
            named(&versions, 404, "b");
            assert_eq!(
                unprobed(&versions),
                ["b"],
                "a probe that met only the other one proves nothing of it"
            );
            versions.passed(&met(&probe), true);
        }
        for name in ["a", "b", "a", "b"] {
            named(&versions, 200, name);
        }
        assert_eq!(versions.seen(), VersionsSeen { probed: vec!["a".into(), "b".into()], unprobed: vec![] });
        // The daily one begins anew: what is gone is strange when it comes back.
        versions.passed(&met(&["b"]), false);
        named(&versions, 200, "a");
        assert_eq!(unprobed(&versions), ["a"]);
    }

    #[test]
    fn a_version_that_no_probe_ever_meets_causes_so_many_and_no_more() {
        let versions = met(&[]);
        versions.passed(&met(&["a"]), false);
        for probe in 0..PROBES_FOR_VERSIONS {
            named(&versions, 200, &format!("b-{probe}"));
            assert_eq!(unprobed(&versions).len(), 1, "{probe}");
            versions.passed(&met(&["a"]), true);
        }
        named(&versions, 200, "b");
        assert_eq!(unprobed(&versions), Vec::<String>::new());
        versions.passed(&met(&["a"]), false);
        named(&versions, 200, "b");
        assert_eq!(unprobed(&versions), ["b"], "the next day");
    }

    #[test]
    fn who_answers_in_the_place_of_a_store_names_another_version_than_its() {
        let versions = met(&["a"]);
        versions.passed(&met(&["a"]), false);
        for status in [500, 502, 503, 504] {
            named(&versions, status, "the balancer");
        }
        versions.note(200, &HeaderMap::new());
        assert_eq!(unprobed(&versions), Vec::<String>::new());
    }

    #[test]
    fn names_are_kept_within_bounds() {
        let versions = met(&[]);
        for number in 0..100 {
            named(&versions, 200, &format!("{number}{}", "x".repeat(5_000)));
        }
        let names = unprobed(&versions);
        assert_eq!(names.len(), STORE_VERSIONS);
        assert!(names.iter().all(|name| name.len() == STORE_VERSION_BYTES));
    }
}
