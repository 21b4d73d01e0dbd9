//! What readers are shown: of a document a commit, of a store behind HTTP what is in it.

use super::case::{Call, Case, Effect};
use crate::exam::events::{Answered, Class};

impl Case {
    pub(super) fn read(&mut self, n: u64, call: &Call, answered: &Answered) {
        let Some(digest) = answered.digest.as_deref().filter(|_| answered.status == 200) else { return };
        match self.rules.class {
            Class::Document => self.read_document(n, call, answered, digest),
            Class::Conditional | Class::FenceAware | Class::Idempotent | Class::Serial => {
                self.read_store(n, call, digest);
            }
            Class::Unfenced => {}
        }
    }

    /// A reader never sees less than what was acknowledged before it asked.
    fn read_document(&mut self, n: u64, call: &Call, answered: &Answered, digest: &str) {
        let Some(commit) = answered.commit else { return };
        if commit < call.known.commit {
            let told = format!("a read shows commit {commit} after {} was acknowledged", call.known.commit);
            self.blame("I3", told, &[call.n, n]);
        }
        let life = answered.etag.as_deref().and_then(life_of).unwrap_or(1);
        match self.reads.get(&(life, commit)) {
            None => {
                self.reads.insert((life, commit), (digest.to_owned(), n));
            }
            Some((before, _)) if before == digest => {}
            Some((_, earlier)) => {
                let earlier = *earlier;
                self.blame("I5", format!("two reads of commit {commit} show two contents"), &[earlier, n]);
            }
        }
    }

    /// A read reaches the store between its beginning and its end, and the store writes down every effect in the moment in
    /// which it happens: so what is shown is what was there when it began, or one of the effects until its end.
    fn read_store(&mut self, n: u64, call: &Call, digest: &str) {
        let shows = |effect: &&Effect| {
            // The barrier of a cell in which there is nothing has bytes, and they are shown to nobody.
            effect.payload == digest && effect.stamp.as_deref() != Some("e")
        };
        let since = self.effects.iter().rposition(|effect| effect.line < call.n).unwrap_or(0);
        let (before, current) = self.effects.split_at_checked(since).unwrap_or_default();
        if current.iter().any(|effect| shows(&effect)) {
            return;
        }
        let earlier = before.iter().rfind(shows).map(|effect| effect.line);
        match earlier {
            Some(line) => {
                let told = "a read shows what was no longer there when it was asked for".to_owned();
                self.blame("I3", told, &[line, call.n, n]);
            }
            None => {
                self.blame("I4", "a read shows what was never in the store".to_owned(), &[call.n, n]);
            }
        }
    }
}

/// The first number of an entity tag.
fn life_of(etag: &str) -> Option<u64> {
    etag.trim_matches('"').split('.').next()?.parse().ok()
}
