//! A failing schedule, made short: parts are left out as long as it still breaks the same rule.

use super::events::Schedule;
use super::run::{Ran, run};

/// Runs that one reduction may take.
const MOST: usize = 1_500;

/// The shortest schedule found that breaks the rule that this one breaks, and what came of it.
pub(super) fn reduce(schedule: &Schedule) -> (Schedule, Ran) {
    let mut best = schedule.clone();
    let mut ran = run(&best);
    let rule = ran.failure.as_ref().map(|violation| violation.rule);
    let (mut part, mut runs) = (best.events.len().div_ceil(2), 0);
    while part > 0 && runs < MOST {
        let mut from = 0;
        while from < best.events.len() && runs < MOST {
            let mut shorter = best.clone();
            shorter.events.drain(from..(from + part).min(best.events.len()));
            let again = run(&shorter);
            runs += 1;
            if again.failure.as_ref().map(|violation| violation.rule) == rule {
                (best, ran) = (shorter, again);
            } else {
                from += part;
            }
        }
        part = if part == 1 { 0 } else { part.div_ceil(2) };
    }
    (best, ran)
}

/// A failure as a story: the world, the events that it takes, and what was answered.
pub(super) fn story(schedule: &Schedule) -> String {
    let (shortest, ran) = reduce(schedule);
    format!(
        "seed {} in {:?}: {} of {} events are enough ({})\n{}",
        schedule.seed,
        schedule.setup,
        shortest.events.len(),
        schedule.events.len(),
        ran.hash(),
        ran.trace
    )
}
