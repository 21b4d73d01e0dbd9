//! The end of a resource: the gateway's books against all that was acknowledged, and against the store's own log.

use std::collections::{BTreeMap, HashMap};

use super::case::{Case, Effect, Operation};
use super::controls::End;
use crate::exam::events::{Booked, Class, Closed, Place, Policy};

/// What the books say of an operation, by its id and its life.
type Books<'a> = HashMap<(&'a str, u64), &'a Booked>;

fn is_applied(booked: &Booked) -> bool {
    ["applied", "resolved_applied"].contains(&booked.state.as_str())
}

impl Case {
    pub(super) fn close(&mut self, n: u64, closed: &Closed) {
        if let Some(why) = &closed.unknown {
            // Long after all faults had ended every doubt has to be over.
            return self.blame("I20", format!("it does not come to an end: {why}"), &[n]);
        }
        if self.rules.class == Class::Unfenced {
            return self.log_order(n, &HashMap::new());
        }
        let Some(registers) = &closed.registers else {
            if !self.grants.is_empty() || self.operations.values().any(|one| !one.outcomes.is_empty()) {
                self.blame("I3", "the resource is gone".to_owned(), &[n]);
            }
            return;
        };
        if let Some(told) = self.known.clone().fell(registers) {
            self.blame("I7", told, &[n]);
        }
        if self.known.granted > Some(registers.issued) {
            self.blame("I7", "fewer positions are issued at the end than were granted".to_owned(), &[n]);
        }
        self.give_lives(closed);
        let books: Books<'_> =
            closed.booked.iter().map(|one| ((one.operation.as_str(), one.incarnation), one)).collect();
        self.acknowledged(n, &books);
        self.none_means_never(n, closed);
        let last = self.commits(n, closed, registers.commit);
        self.timeline(n, closed);
        self.nothing_after_an_end(n, closed);
        self.one_at_a_time(n, closed);
        if self.rules.class != Class::Document {
            self.log_order(n, &books);
            self.log_agrees(n, &books);
        }
        self.content(n, closed, last);
    }

    /// I3 and I5: what was answered stands in the books, as it was answered.
    fn acknowledged(&mut self, n: u64, books: &Books<'_>) {
        let mut wrong = Vec::new();
        for (id, operation) in &self.operations {
            for (life, (outcome, _, _)) in &operation.outcomes {
                match books.get(&(id.as_str(), *life)) {
                    None => wrong.push(("I3", id.clone(), "acknowledged, and not in the books".to_owned())),
                    Some(booked) if !is_applied(booked) => {
                        let told = format!("acknowledged as applied, and {} in the books", booked.state);
                        wrong.push(("I3", id.clone(), told));
                    }
                    Some(booked) if outcome.commit.is_some() && booked.commit != outcome.commit => {
                        let told =
                            format!("commit {:?} answered, {:?} booked", outcome.commit, booked.commit);
                        wrong.push(("I5", id.clone(), told));
                    }
                    Some(booked) if booked.position != outcome.position => {
                        let told = format!("{} answered, {} booked", outcome.position, booked.position);
                        wrong.push(("I5", id.clone(), told));
                    }
                    Some(_) => {}
                }
            }
        }
        for (rule, id, told) in wrong {
            self.blame_operation(rule, &id, &told, &[n]);
        }
    }

    /// I4: an operation all of whose deliveries were answered, and answered `none`, has no effect anywhere.
    fn none_means_never(&mut self, n: u64, closed: &Closed) {
        let never = |one: &Operation| one.unknown == 0 && !one.repeated && one.outcomes.is_empty();
        let mut wrong = Vec::new();
        for (id, _) in self.operations.iter().filter(|(_, one)| never(one)) {
            if closed.booked.iter().any(|booked| booked.operation == *id && is_applied(booked)) {
                wrong.push((id.clone(), "every answer says none, and the books say applied"));
            }
            if self.effects.iter().any(|effect| effect.operation.as_ref() == Some(id)) {
                wrong.push((id.clone(), "every answer says none, and the store has it"));
            }
        }
        for (id, told) in wrong {
            self.blame_operation("I4", &id, told, &[n]);
        }
    }

    /// I1, I2, I7, I14, I16, I19: commit numbers are 1 to the last, each of one operation, and in their order positions,
    /// sequences and lives never fall. Gives the payload of the last one.
    fn commits(&mut self, n: u64, closed: &Closed, last: u64) -> Option<(String, u64)> {
        let mut order: BTreeMap<u64, &Booked> = BTreeMap::new();
        let mut wrong: Vec<(&'static str, String, String)> = Vec::new();
        for booked in closed.booked.iter().filter(|one| is_applied(one)) {
            let Some(commit) = booked.commit else {
                if self.was_passed(booked, closed) {
                    continue;
                }
                wrong.push(("I2", booked.operation.clone(), "applied without a commit number".to_owned()));
                continue;
            };
            if let Some(other) = order.insert(commit, booked) {
                let told = format!("has commit {commit}, and so has {}", other.operation);
                wrong.push(("I2", booked.operation.clone(), told));
            }
        }
        let count = u64::try_from(order.len()).unwrap_or(u64::MAX);
        if count != last || order.keys().next_back().copied().unwrap_or_default() != last {
            let told = format!("{count} effects are booked, and the last commit is {last}");
            self.blame("I19", told, &[n]);
        }
        let mut before: Option<&Booked> = None;
        for booked in order.values() {
            if let Some(before) = before.replace(booked)
                && let Some((rule, why)) = self.falls(before, booked)
            {
                let told = format!("{why}: after {} ({})", before.operation, before.position);
                wrong.push((rule, booked.operation.clone(), told));
            }
        }
        let end = before.map(|booked| (booked.operation.clone(), booked.incarnation));
        for (rule, id, told) in wrong {
            self.blame_operation(rule, &id, &told, &[n]);
        }
        self.seen(&order);
        end
    }

    /// A store that compares positions may take a newer write before the answer to an older one has come: the older effect was
    /// never the authoritative one, and has no commit number.
    fn was_passed(&self, booked: &Booked, closed: &Closed) -> bool {
        let above = |other: &Booked| is_applied(other) && other.position > booked.position;
        self.rules.class == Class::FenceAware && closed.booked.iter().any(above)
    }

    fn falls(&self, before: &Booked, after: &Booked) -> Option<(&'static str, &'static str)> {
        if after.position < before.position {
            return Some(("I1", "an older position became authoritative"));
        }
        if after.incarnation < before.incarnation {
            return Some(("I16", "an effect of an older life"));
        }
        if after.position > before.position {
            return None;
        }
        match self.rules.policy {
            Policy::Single => Some(("I14", "a second publication of one generation")),
            Policy::Ordered if after.sequence <= before.sequence => {
                Some(("I14", "a sequence that does not rise"))
            }
            Policy::Ordered | Policy::Session => None,
        }
    }

    /// I4: a reader saw nothing but what became authoritative.
    fn seen(&mut self, order: &BTreeMap<u64, &Booked>) {
        let mut wrong = Vec::new();
        for ((_, commit), (digest, line)) in &self.reads {
            let booked = order.get(commit);
            let operation = booked.and_then(|booked| self.operations.get(&booked.operation));
            let fits = operation.is_some_and(|one| one.payloads.contains(digest));
            if !fits {
                wrong.push((format!("a reader saw what is not commit {commit}"), *line));
            }
        }
        for (told, line) in wrong {
            self.blame("I4", told, &[line]);
        }
    }

    /// I8: the timeline has every acquisition once.
    fn timeline(&mut self, n: u64, closed: &Closed) {
        let mut told = Vec::new();
        let mut places = closed.acquired.clone();
        places.sort_unstable();
        if places.windows(2).any(|pair| matches!(pair, [one, other] if one == other)) {
            told.push("the timeline has a position twice".to_owned());
        }
        for position in self.grants.keys().filter(|position| places.binary_search(position).is_err()) {
            told.push(format!("{position} was granted, and is not in the timeline"));
        }
        for told in told {
            self.blame("I8", told, &[n]);
        }
    }

    /// A store that is told nothing of lives writes down an operation once for each of them in which it was applied: in their
    /// order.
    fn give_lives(&mut self, closed: &Closed) {
        if !matches!(self.rules.class, Class::Idempotent | Class::Serial) {
            return;
        }
        let mut lives: HashMap<&str, Vec<u64>> = HashMap::new();
        for booked in closed.booked.iter().filter(|one| is_applied(one)) {
            lives.entry(&booked.operation).or_default().push(booked.incarnation);
        }
        for list in lives.values_mut() {
            // From the end they are taken.
            list.sort_unstable_by(|one, other| other.cmp(one));
        }
        for effect in &mut self.effects {
            let Some(list) = effect.operation.as_deref().and_then(|id| lives.get_mut(id)) else { continue };
            effect.incarnation = list.last().copied();
            // One effect more than there are lives has the last of them, and is one too many there.
            if list.len() > 1 {
                list.pop();
            }
        }
    }

    /// The position of an effect: what came with it, or what the books say.
    fn position_of(effect: &Effect, books: &Books<'_>) -> Option<Place> {
        let booked = effect.operation.as_deref().and_then(|id| {
            let life = effect.incarnation.unwrap_or(1);
            books.get(&(id, life)).map(|booked| booked.position)
        });
        effect.position.or(booked)
    }

    /// I1, I2 and I10 in the store's own order.
    fn log_order(&mut self, n: u64, books: &Books<'_>) {
        let mut wrong = Vec::new();
        let mut highest: Option<(Place, u64)> = None;
        let mut owned = self.owned.iter().peekable();
        let mut fence: Option<(Place, u64)> = None;
        let mut seen: HashMap<(&str, u64), u64> = HashMap::new();
        for effect in &self.effects {
            let Some(position) = Self::position_of(effect, books) else { continue };
            while let Some((line, owner)) = owned.next_if(|(line, _)| *line < effect.line) {
                fence = fence.max(Some((*owner, *line)));
            }
            let told = effect.operation.as_deref().unwrap_or("a barrier");
            if let Some((above, line)) = highest.filter(|(above, _)| *above > position) {
                let told = format!("{told} took effect under {position} after {above} had");
                wrong.push(("I1", told, vec![line, effect.line, n]));
            }
            let unfenced = self.rules.class == Class::Unfenced;
            let id = effect.operation.as_deref();
            let ended = id.and_then(|id| {
                let refuses =
                    |end: &&End| end.line < effect.line && end.refuses(&self.resource, id, position);
                self.ends.iter().rfind(refuses)
            });
            if let Some(end) = ended.filter(|_| !unfenced) {
                let told =
                    format!("{told} took effect under {position} after all up to {} had ended", end.through);
                wrong.push(("I10", told, vec![end.line, effect.line, n]));
            }
            if let Some((above, line)) = fence.filter(|(above, _)| *above > position && !unfenced) {
                let told = format!("{told} took effect under {position} after {above} was owned");
                wrong.push(("I10", told, vec![line, effect.line, n]));
            }
            if let Some(id) = effect.operation.as_deref().filter(|_| !unfenced)
                && let Some(line) = seen.insert((id, effect.incarnation.unwrap_or(1)), effect.line)
            {
                wrong.push(("I2", format!("{id} took effect twice"), vec![line, effect.line, n]));
            }
            highest = highest.max(Some((position, effect.line)));
        }
        for (rule, told, lines) in wrong {
            self.blame(rule, told, &lines);
        }
    }

    /// I3 and I12: what is applied in the books is in the log, before it was acknowledged; and nothing else is in the log.
    fn log_agrees(&mut self, n: u64, books: &Books<'_>) {
        let mut wrong = Vec::new();
        let mut logged: HashMap<(&str, u64), u64> = HashMap::new();
        for effect in &self.effects {
            let life = effect.incarnation.unwrap_or(1);
            let Some(id) = effect.operation.as_deref() else {
                if !effect.stamp.as_deref().is_some_and(|letter| ["b", "e"].contains(&letter)) {
                    wrong.push(("I12", "an effect of nobody".to_owned(), vec![effect.line, n]));
                }
                continue;
            };
            logged.entry((id, life)).or_insert(effect.line);
            match books.get(&(id, life)) {
                Some(booked) if is_applied(booked) => {}
                Some(booked) => {
                    let told = format!("operation {id} is in the store, and {} in the books", booked.state);
                    wrong.push(("I4", told, vec![effect.line, n]));
                }
                None => {
                    let told = format!("operation {id} is in the store, and not in the books");
                    wrong.push(("I12", told, vec![effect.line, n]));
                }
            }
            let fits = self.operations.get(id).is_some_and(|one| one.payloads.contains(&effect.payload));
            if !fits {
                let told = format!("operation {id} is in the store with bytes that nobody sent");
                wrong.push(("I6", told, vec![effect.line, n]));
            }
        }
        for ((id, life), booked) in books.iter().filter(|(_, booked)| is_applied(booked)) {
            let answered = self.operations.get(*id).and_then(|one| one.outcomes.get(life));
            match (logged.get(&(*id, *life)), answered) {
                (None, _) => {
                    let told =
                        format!("operation {id} is {} in the books, and not in the store", booked.state);
                    wrong.push(("I3", told, vec![n]));
                }
                (Some(effect), Some((_, _, line))) if line < effect => {
                    let told = format!("operation {id} was acknowledged before it was in the store");
                    wrong.push(("I3", told, vec![*line, *effect, n]));
                }
                (Some(_), _) => {}
            }
        }
        for (rule, told, lines) in wrong {
            self.blame(rule, told, &lines);
        }
    }

    /// I3: what is there at the end is what became authoritative last.
    fn content(&mut self, n: u64, closed: &Closed, last: Option<(String, u64)>) {
        let Some((id, life)) = last else {
            if closed.content.is_some() {
                self.blame("I4", "there is content, and no operation was applied".to_owned(), &[n]);
            }
            return;
        };
        let Some(operation) = self.operations.get(&id) else { return };
        let payloads = match operation.outcomes.get(&life) {
            Some((_, payload, _)) => vec![payload.clone()],
            None => operation.payloads.clone(),
        };
        let there = closed.content.clone().unwrap_or_else(|| "removal".to_owned());
        if !payloads.contains(&there) {
            let told = format!("is the last effect, and the content at the end is not its: {there}");
            self.blame_operation("I3", &id, &told, &[n]);
        }
    }
}
