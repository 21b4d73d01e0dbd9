//! The report: what was measured under which conditions, as JSON and as a table for people.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;
use serde_json::{Value, json};

use super::cells::{Results, Sample, Spread};
use super::gates::{Verdict, short};

/// What holds for the whole run.
#[derive(Debug, Default, Serialize)]
pub(super) struct Conditions {
    /// This version.
    pub(super) version: String,
    /// Whether the program was built with optimisation; without it no figure means anything.
    pub(super) optimised: bool,
    /// Cores that the run may use.
    pub(super) cores: usize,
    /// Rounds, seconds and the like.
    pub(super) plan: BTreeMap<String, String>,
    /// Settings read back from the servers.
    pub(super) settings: BTreeMap<String, BTreeMap<String, String>>,
    /// What was not measured, and why.
    pub(super) left_out: Vec<String>,
}

/// A finished run.
pub struct Report {
    pub(super) conditions: Conditions,
    pub(super) results: Results,
    pub(super) verdicts: Vec<Verdict>,
}

impl Report {
    /// Whether a goal that binds was measured and missed.
    #[must_use]
    pub fn misses_a_gate(&self) -> bool {
        self.verdicts.iter().any(|verdict| verdict.binding && verdict.met == Some(false))
    }

    /// For programs.
    #[must_use]
    pub fn json(&self) -> Value {
        let cells = self.results.cells.iter().map(|(key, samples)| {
            let valid = || samples.iter().filter(|sample| sample.fault.is_none());
            json!({
                "way": key.way.word(), "kind": key.kind.word(), "at": key.at,
                "rate": Spread::of(valid().map(|sample| sample.rate)),
                "p50_ms": Spread::of(valid().filter_map(|sample| sample.p50_ms)),
                "p99_ms": Spread::of(valid().filter_map(|sample| sample.p99_ms)),
                "rounds": samples,
            })
        });
        let figures = self.results.figures.iter().map(|(name, figures)| {
            let figures: Vec<f64> = figures.iter().map(|(_, figure)| *figure).collect();
            json!({ "name": name, "rounds": figures })
        });
        json!({
            "conditions": self.conditions,
            "durability": self.results.durability,
            "cells": cells.collect::<Vec<_>>(),
            "figures": figures.collect::<Vec<_>>(),
            "goals": self.verdicts,
        })
    }

    /// For people.
    #[must_use]
    pub fn told(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        self.tell(&mut text).unwrap_or_default();
        text
    }

    fn tell(&self, text: &mut String) -> std::fmt::Result {
        let Conditions { version, optimised, cores, plan, settings, left_out } = &self.conditions;
        let built = if *optimised { "" } else { ", built WITHOUT optimisation: the figures mean nothing" };
        writeln!(text, "fencegate {version}, {cores} cores{built}")?;
        writeln!(text, "{}", named(plan))?;
        for (server, settings) in settings {
            writeln!(text, "{server}: {}", named(settings))?;
        }
        for (way, durability) in &self.results.durability {
            writeln!(text, "{way}: {durability}")?;
        }
        for what in left_out {
            writeln!(text, "left out: {what}")?;
        }
        if !self.results.cells.is_empty() {
            self.tell_cells(text)?;
        }
        if !self.results.figures.is_empty() {
            writeln!(text)?;
        }
        for (name, figures) in &self.results.figures {
            let spread = Spread::of(figures.iter().map(|(_, figure)| *figure));
            writeln!(text, "{name}: {}", shown(spread))?;
        }
        self.tell_goals(text)
    }

    fn tell_cells(&self, text: &mut String) -> std::fmt::Result {
        writeln!(
            text,
            "\n{:<34} {:>26} {:>8} {:>8} {:>8} {:>8} {:>7} {:>8} {:>5}",
            "cell", "writes/s (range)", "p50 ms", "p90", "p99", "max", "cpu us", "bytes", "load"
        )?;
        for (key, samples) in &self.results.cells {
            let valid: Vec<&Sample> = samples.iter().filter(|sample| sample.fault.is_none()).collect();
            let middle = |of: fn(&Sample) -> Option<f64>| {
                let spread = Spread::of(valid.iter().filter_map(|sample| of(sample)));
                spread.map_or_else(|| "-".to_owned(), |spread| short(spread.median))
            };
            let rate = Spread::of(valid.iter().map(|sample| sample.rate)).map_or_else(
                || "none valid".to_owned(),
                |rate| format!("{:.0} ({:.0}..{:.0})", rate.median, rate.min, rate.max),
            );
            writeln!(
                text,
                "{:<34} {rate:>26} {:>8} {:>8} {:>8} {:>8} {:>7} {:>8} {:>5}",
                key.to_string(),
                middle(|sample| sample.p50_ms),
                middle(|sample| sample.p90_ms),
                middle(|sample| sample.p99_ms),
                middle(|sample| sample.max_ms),
                middle(|sample| sample.cpu_us),
                middle(|sample| sample.written_bytes),
                middle(|sample| sample.load_average),
            )?;
            for sample in samples {
                if let Some(fault) = &sample.fault {
                    writeln!(text, "  round {} is invalid: {fault}", sample.round)?;
                }
            }
        }
        Ok(())
    }

    fn tell_goals(&self, text: &mut String) -> std::fmt::Result {
        writeln!(text, "\n{:<5} {:<46} {:>10} {:>26}  verdict", "goal", "ratio", "goal", "reached (range)")?;
        for verdict in self.verdicts.iter().filter(|verdict| verdict.reached.is_some()) {
            let said = match (verdict.met, verdict.binding) {
                (None, _) => "not measured",
                (Some(true), true) => "PASS",
                (Some(false), true) => "FAIL",
                (Some(true), false) => "met (reported)",
                (Some(false), false) => "missed (reported)",
            };
            let Verdict { id, what, goal, reached, .. } = verdict;
            writeln!(text, "{id:<5} {what:<46} {goal:>10} {:>26}  {said}", shown(*reached))?;
        }
        let others = self.verdicts.iter().filter(|verdict| verdict.reached.is_none());
        let others: Vec<String> =
            others.map(|verdict| format!("{} ({})", verdict.id, verdict.what)).collect();
        if !others.is_empty() {
            writeln!(text, "not measured: {}", others.join("; "))?;
        }
        Ok(())
    }
}

fn shown(spread: Option<Spread>) -> String {
    spread.map_or_else(
        || "-".to_owned(),
        |Spread { median, min, max }| format!("{} ({}..{})", short(median), short(min), short(max)),
    )
}

fn named(values: &BTreeMap<String, String>) -> String {
    let shown = |(name, value): (&String, &String)| {
        let value = if value.is_empty() { "none" } else { value };
        format!("{name} {value}")
    };
    values.iter().map(shown).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::cells::{Key, Kind, Way};
    use crate::bench::gates::verdicts;

    fn report() -> Report {
        let mut results = Results::default();
        for (way, rate) in [(Way::GatewaySqlite, 20_000.0), (Way::PoolSqlite, 2_500.0)] {
            let sample = Sample { rate, p99_ms: Some(3.0), ..Sample::default() };
            results.keep(Key::new(way, Kind::Distinct, 64), sample);
        }
        let fault = Some("connection 3: 503: {}".to_owned());
        results.keep(Key::new(Way::Hello, Kind::Distinct, 1), Sample { fault, ..Sample::default() });
        let verdicts = verdicts(&results);
        Report { conditions: Conditions::default(), results, verdicts }
    }

    #[test]
    fn a_missed_gate_is_said_and_an_invalid_cell_shows_why() {
        let report = report();
        assert!(report.misses_a_gate());
        let told = report.told();
        assert!(told.contains("8.00 (8.00..8.00)  FAIL"), "{told}");
        assert!(told.contains("none valid"), "{told}");
        assert!(told.contains("round 0 is invalid: connection 3: 503"), "{told}");
    }

    #[test]
    fn the_same_for_programs() {
        let json = report().json();
        let cell = |way: &str| {
            json["cells"].as_array().unwrap().iter().find(|cell| cell["way"] == way).cloned().unwrap()
        };
        assert_eq!(cell("gateway-sqlite")["rate"]["median"], 20_000.0);
        assert_eq!(cell("hello")["rate"], Value::Null);
        assert_eq!(json["goals"][0]["met"], false);
    }
}
