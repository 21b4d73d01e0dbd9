//! The goals, and whether they are reached.
//!
//! A ratio is computed inside each round, because the machine changes between rounds. A goal is reached if the median
//! of the rounds' ratios meets it and no round misses it by more than a fifth.

use std::collections::BTreeSet;

use serde::Serialize;

use super::cells::{Key, Kind, Results, Spread, Way};

/// What a round's figure is made of.
enum Part {
    /// The rate of one cell.
    Rate(Key),
    /// The best rate of a way in a round.
    Best(Way, Kind),
    /// 99 % of a cell's requests took no longer.
    P99(Key),
    /// Half of a cell's requests took no longer.
    P50(Key),
    /// What the first one adds to the median time of a request to the second one.
    Added(Key, Key),
    /// A figure beside the cells.
    Figure(&'static str),
    /// Nothing to divide by.
    One,
}

impl Part {
    fn of(&self, results: &Results, round: u32) -> Option<f64> {
        let sample = |key: Key| results.valid(key).find(|sample| sample.round == round);
        match self {
            Self::Rate(key) => results.rate(*key, round),
            Self::Best(way, kind) => {
                let cells = results.cells.keys().filter(|key| key.way == *way && key.kind == *kind);
                cells.filter_map(|key| results.rate(*key, round)).max_by(f64::total_cmp)
            }
            Self::P99(key) => sample(*key)?.p99_ms,
            Self::P50(key) => sample(*key)?.p50_ms,
            Self::Added(through, direct) => Some(sample(*through)?.p50_ms? - sample(*direct)?.p50_ms?),
            Self::Figure(name) => {
                results.figures.get(*name)?.iter().find(|(of, _)| *of == round).map(|(_, figure)| *figure)
            }
            Self::One => Some(1.0),
        }
    }
}

/// On which side of the goal it is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    AtLeast,
    AtMost,
}

struct Goal {
    id: &'static str,
    what: &'static str,
    /// Whether this version must reach it; the others are told.
    binding: bool,
    above: Part,
    below: Part,
    side: Side,
    figure: f64,
}

/// A goal and what was reached.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Verdict {
    /// Its name, as in `docs/PERFORMANCE.md`.
    pub(super) id: &'static str,
    /// What is divided by what.
    pub(super) what: &'static str,
    /// Whether this version must reach it.
    pub(super) binding: bool,
    /// `>= 10`.
    pub(super) goal: String,
    /// The ratios of the rounds; `None`: it was not measured.
    pub(super) reached: Option<Spread>,
    /// Whether it is reached.
    pub(super) met: Option<bool>,
}

/// How much of a goal a single round may miss.
const SLACK: f64 = 0.8;

/// Of which cell the flushes per write are counted.
pub(super) const FLUSHES_MANY: &str = "gateway-sqlite flushes per write at 64";

/// The flushes of a write that comes alone.
pub(super) const FLUSHES_ONE: &str = "gateway-sqlite flushes of a single write";

/// The same of the server's log, counted by the server.
pub(super) const FLUSHES_SERVER: &str = "gateway-postgres flushes per write at 64";

/// Memory before the first request.
pub(super) const IDLE_MB: &str = "gateway-sqlite MB idle";

/// The most memory under load.
pub(super) const LOADED_MB: &str = "gateway-sqlite MB loaded";

/// Holds the results against all goals.
pub(super) fn verdicts(results: &Results) -> Vec<Verdict> {
    [sqlite(), postgres(), upstreams(), counts()]
        .into_iter()
        .flatten()
        .map(|goal| verdict(&goal, results))
        .collect()
}

fn sqlite() -> Vec<Goal> {
    use Kind::{Batch, Distinct, Hot};
    use Way::{GatewaySqlite, Hello, PgbenchCte, PgbenchNaive, PoolSqlite};
    let rate = |way, kind, at| Part::Rate(Key::new(way, kind, at));
    let own = || rate(GatewaySqlite, Distinct, 64);
    let hot = || rate(GatewaySqlite, Hot, 64);
    let key = Key::new(GatewaySqlite, Distinct, 64);
    let pool = Key::new(PoolSqlite, Distinct, 64);
    vec![
        gate("P1", "SQLite, 64 / pool of 16", own(), rate(PoolSqlite, Distinct, 64), 10.0),
        gate("P2", "SQLite, 64 / best pgbench naive", own(), Part::Best(PgbenchNaive, Distinct), 4.0),
        gate("P2", "SQLite, 64 / best pgbench CTE", own(), Part::Best(PgbenchCte, Distinct), 2.5),
        told("P3", "SQLite, 64 / hello", own(), rate(Hello, Distinct, 64), 0.60),
        told(
            "P3",
            "SQLite, 256 / hello",
            rate(GatewaySqlite, Distinct, 256),
            rate(Hello, Distinct, 256),
            0.65,
        ),
        told("P7", "SQLite, hot, 64 / pgbench naive hot", hot(), rate(PgbenchNaive, Hot, 64), 25.0),
        told("P7", "SQLite, hot, 64 / its own distinct", hot(), own(), 1.0),
        told("P13", "SQLite, batches of 64 / single", Part::Best(GatewaySqlite, Batch), own(), 2.5),
        gate(
            "P14",
            "SQLite, 1 / pgbench CTE, 1",
            rate(GatewaySqlite, Distinct, 1),
            rate(PgbenchCte, Distinct, 1),
            1.0,
        ),
        gate("P15", "SQLite, 64: p99 / own p50", Part::P99(key), Part::P50(key), 8.0).at_most(),
        gate("P15", "SQLite, 64: p99 / pool's p99", Part::P99(key), Part::P99(pool), 1.0 / 40.0).at_most(),
    ]
}

fn postgres() -> Vec<Goal> {
    use Kind::{Batch, Distinct, Hot};
    use Way::{GatewayPostgres, PgbenchBatch, PgbenchCte, PgbenchNaive, PoolPostgres};
    let rate = |way, kind, at| Part::Rate(Key::new(way, kind, at));
    let best = || Part::Best(GatewayPostgres, Distinct);
    let hot = || rate(GatewayPostgres, Hot, 64);
    let against = |at| (rate(GatewayPostgres, Distinct, at), rate(PoolPostgres, Distinct, at));
    let ((own_64, pool_64), (own_256, pool_256)) = (against(64), against(256));
    vec![
        gate("P8", "PostgreSQL, 64 / pool of 16", own_64, pool_64, 4.5),
        gate("P8", "PostgreSQL, 256 / pool of 16", own_256, pool_256, 6.0),
        told("P9", "PostgreSQL, best / best pgbench naive", best(), Part::Best(PgbenchNaive, Distinct), 4.0),
        told("P9", "PostgreSQL, best / best pgbench CTE", best(), Part::Best(PgbenchCte, Distinct), 2.5),
        gate("P10", "PostgreSQL, hot, 64 / pgbench naive hot", hot(), rate(PgbenchNaive, Hot, 64), 25.0),
        gate("P10", "PostgreSQL, hot, 64 / pool hot", hot(), rate(PoolPostgres, Hot, 64), 15.0),
        told(
            "P11",
            "PostgreSQL, best / raw batched statement",
            best(),
            Part::Best(PgbenchBatch, Batch),
            0.45,
        ),
    ]
}

fn upstreams() -> Vec<Goal> {
    use Kind::{Forward, Read};
    use Way::{GatewayUpstream, Nginx, Upstream};
    let rate = |way, kind, at| Part::Rate(Key::new(way, kind, at));
    let against = |kind, at| (rate(GatewayUpstream, kind, at), rate(Nginx, kind, at));
    let added = |way| Part::Added(Key::new(way, Read, 1), Key::new(Upstream, Read, 1));
    let p99 = |way, at| Part::P99(Key::new(way, Read, at));
    let ((own_64, its_64), (own_256, its_256)) = (against(Read, 64), against(Read, 256));
    let (forwards, passed_on) = against(Forward, 64);
    vec![
        gate("P16", "reads through, 64 / nginx", own_64, its_64, 0.85),
        gate("P16", "reads through, 256 / nginx", own_256, its_256, 0.85),
        gate("P16", "reads through, 1: added p50 / nginx's", added(GatewayUpstream), added(Nginx), 1.1)
            .at_most(),
        told("P16", "reads through, 64: p99 / nginx's", p99(GatewayUpstream, 64), p99(Nginx, 64), 1.2)
            .at_most(),
        gate("P17", "durable forwards, 64 / nginx", forwards, passed_on, 0.40),
    ]
}

fn counts() -> Vec<Goal> {
    let figure = |name| Part::Figure(name);
    vec![
        told("P21", "SQLite: MB idle", figure(IDLE_MB), Part::One, 16.0).at_most(),
        told("P21", "SQLite: MB loaded", figure(LOADED_MB), Part::One, 96.0).at_most(),
        gate("P23", "SQLite, 64: flushes / write", figure(FLUSHES_MANY), Part::One, 1.0 / 20.0).at_most(),
        told("P23", "PostgreSQL, 64: flushes / write", figure(FLUSHES_SERVER), Part::One, 1.0 / 20.0)
            .at_most(),
        gate("P23", "SQLite: flushes of a single write", figure(FLUSHES_ONE), Part::One, 1.0).at_most(),
    ]
}

const fn gate(id: &'static str, what: &'static str, above: Part, below: Part, figure: f64) -> Goal {
    Goal { id, what, binding: true, above, below, side: Side::AtLeast, figure }
}

const fn told(id: &'static str, what: &'static str, above: Part, below: Part, figure: f64) -> Goal {
    Goal { id, what, binding: false, above, below, side: Side::AtLeast, figure }
}

impl Goal {
    fn at_most(self) -> Self {
        Self { side: Side::AtMost, ..self }
    }
}

fn verdict(goal: &Goal, results: &Results) -> Verdict {
    let of_cells = results.cells.values().flatten().map(|sample| sample.round);
    let of_figures = results.figures.values().flatten().map(|(round, _)| *round);
    let rounds: BTreeSet<u32> = of_cells.chain(of_figures).collect();
    let ratios: Vec<f64> = rounds
        .into_iter()
        .filter_map(|round| {
            let (above, below) = (goal.above.of(results, round)?, goal.below.of(results, round)?);
            (below > 0.0).then(|| above / below)
        })
        .collect();
    let reached = Spread::of(ratios);
    let (sign, met) = match goal.side {
        Side::AtLeast => {
            (">=", reached.map(|spread| spread.median >= goal.figure && spread.min >= goal.figure * SLACK))
        }
        Side::AtMost => {
            ("<=", reached.map(|spread| spread.median <= goal.figure && spread.max <= goal.figure / SLACK))
        }
    };
    let Goal { id, what, binding, .. } = *goal;
    Verdict { id, what, binding, goal: format!("{sign} {}", short(goal.figure)), reached, met }
}

/// A figure as people write it.
pub(super) fn short(figure: f64) -> String {
    match figure.abs() {
        large if large >= 100.0 => format!("{figure:.0}"),
        medium if medium >= 10.0 => format!("{figure:.1}"),
        small if small >= 0.1 || small == 0.0 => format!("{figure:.2}"),
        _ => format!("{figure:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::cells::Sample;

    fn results(own: &[f64], pool: &[f64]) -> Results {
        let mut results = Results::default();
        for (way, rates) in [(Way::GatewaySqlite, own), (Way::PoolSqlite, pool)] {
            for (round, rate) in (0..).zip(rates) {
                let sample = Sample { round, rate: *rate, ..Sample::default() };
                results.keep(Key::new(way, Kind::Distinct, 64), sample);
            }
        }
        results
    }

    fn first(results: &Results) -> Verdict {
        verdicts(results).into_iter().find(|verdict| verdict.id == "P1").unwrap()
    }

    #[test]
    fn a_ratio_is_made_inside_each_round() {
        // Rates that double from round to round on both sides: the ratio stays.
        let verdict = first(&results(&[1_000.0, 2_000.0, 4_000.0], &[100.0, 200.0, 400.0]));
        assert_eq!(verdict.reached, Some(Spread { median: 10.0, min: 10.0, max: 10.0 }));
        assert_eq!((verdict.met, verdict.goal.as_str(), verdict.binding), (Some(true), ">= 10.0", true));
    }

    #[test]
    fn one_round_far_below_the_goal_spoils_it() {
        assert_eq!(first(&results(&[1_100.0, 1_100.0, 810.0], &[100.0, 100.0, 100.0])).met, Some(true));
        assert_eq!(first(&results(&[1_100.0, 1_100.0, 790.0], &[100.0, 100.0, 100.0])).met, Some(false));
        assert_eq!(first(&results(&[990.0, 990.0, 2_000.0], &[100.0, 100.0, 100.0])).met, Some(false));
    }

    #[test]
    fn a_round_without_both_sides_has_no_ratio() {
        let verdict = first(&results(&[1_000.0, 2_000.0], &[100.0]));
        assert_eq!(verdict.reached, Some(Spread { median: 10.0, min: 10.0, max: 10.0 }));
        assert_eq!(first(&results(&[1_000.0], &[])).met, None);
        assert_eq!(first(&results(&[1_000.0], &[0.0])).met, None);
    }

    #[test]
    fn the_best_of_a_way_is_that_of_the_round() {
        let mut results = results(&[100.0, 100.0], &[]);
        for (at, round, rate) in [(1, 0, 10.0), (16, 0, 20.0), (1, 1, 25.0), (16, 1, 5.0)] {
            let key = Key::new(Way::PgbenchCte, Kind::Distinct, at);
            results.keep(key, Sample { round, rate, ..Sample::default() });
        }
        let verdict =
            verdicts(&results).into_iter().find(|verdict| verdict.what.contains("best pgbench CTE"));
        assert_eq!(verdict.unwrap().reached, Some(Spread { median: 4.5, min: 4.0, max: 5.0 }));
    }

    #[test]
    fn a_count_must_not_be_above_its_goal() {
        let met = |flushes| {
            let mut results = Results::default();
            results.note(FLUSHES_MANY, 0, flushes);
            let all = verdicts(&results);
            all.into_iter().find(|verdict| verdict.what.contains("flushes / write")).unwrap().met
        };
        assert_eq!((met(0.04), met(0.06)), (Some(true), Some(false)));
    }
}
