//! What an exam found, as a table for people and as JSON.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};

use super::events::Line;
use super::judge::{self, Verdict};

/// A verdict, with the lines of the history that belong to what it found.
pub(super) struct Report {
    verdict: Verdict,
    story: BTreeMap<u64, Line>,
}

/// How an exam ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ending {
    /// It is as it must be: without a violation; and past the gateway with stale writes, or the judge is blind.
    Passed,
    Failed,
    /// Too little was seen, for these reasons.
    Undecided(Vec<String>),
}

impl Report {
    /// Judges a folder.
    ///
    /// # Errors
    /// When there is no history in it.
    pub(super) fn of(folder: &Path) -> anyhow::Result<Self> {
        let mut report = Self { verdict: judge::judge(folder)?, story: BTreeMap::new() };
        if !report.is_fenced() {
            // They are wanted there, and all alike.
            report.verdict.violations.truncate(1);
        }
        if !report.verdict.violations.is_empty() {
            report.story = judge::story(folder, &report.verdict.violations)?;
        }
        Ok(report)
    }

    /// Whether the gateways were in force in this history.
    fn is_fenced(&self) -> bool {
        self.verdict.planned.as_ref().is_none_or(|planned| planned.fenced)
    }

    /// Stale writes that took effect.
    fn stale(&self) -> u64 {
        self.verdict.counts.get("I1").copied().unwrap_or_default()
    }

    /// A history that shows too little passes nobody, however little is wrong with it. What was found is found.
    pub(super) fn ending(&self) -> Ending {
        let gaps = self.gaps();
        if self.is_fenced() && self.verdict.total() > 0 {
            Ending::Failed
        } else if !gaps.is_empty() {
            Ending::Undecided(gaps)
        } else if self.is_fenced() || self.stale() > 0 {
            Ending::Passed
        } else {
            Ending::Failed
        }
    }

    /// Why no violation would mean nothing.
    fn gaps(&self) -> Vec<String> {
        let verdict = &self.verdict;
        let ended = verdict.ended.as_ref();
        let mut gaps = ended.map(|ended| ended.remarks.clone()).unwrap_or_default();
        for (is_so, why) in [
            (verdict.planned.is_none(), "the history has no beginning"),
            (ended.is_none(), "the history has no end: the exam was cut off"),
            (verdict.acknowledged == 0, "nothing was acknowledged"),
            (verdict.resources == 0, "no resource was judged"),
        ] {
            if is_so {
                gaps.push(why.to_owned());
            }
        }
        if verdict.open > 0 {
            gaps.push(format!("resources left open: {}", verdict.open));
        }
        gaps
    }

    /// The ending in one line.
    fn sentence(&self) -> String {
        match self.ending() {
            Ending::Passed if self.is_fenced() => "passed".to_owned(),
            Ending::Passed => {
                let stale = self.stale();
                format!("passed: {stale} stale overwrites, as there must be without the fence")
            }
            Ending::Failed if self.is_fenced() => {
                let total = self.verdict.total();
                format!("FAILED: {total} {}", if total == 1 { "violation" } else { "violations" })
            }
            Ending::Failed => {
                "FAILED: no stale overwrite was found, and without the fence there must be some".to_owned()
            }
            Ending::Undecided(why) => format!("undecided: {}", why.join("; ")),
        }
    }

    /// All of it.
    pub(super) fn json(&self) -> Value {
        let verdict = &self.verdict;
        let violations: Vec<Value> = verdict
            .violations
            .iter()
            .map(|one| {
                let lines: Vec<&Line> = one.lines.iter().filter_map(|n| self.story.get(n)).collect();
                json!({"invariant": one.rule, "resource": one.resource, "told": one.told, "story": lines})
            })
            .collect();
        let faults: BTreeMap<&String, Value> = verdict
            .faults
            .iter()
            .map(|(kind, [delivered, mattered, calls])| {
                (kind, json!({"delivered": delivered, "mattered": mattered, "calls_met": calls}))
            })
            .collect();
        let ended = verdict.ended.as_ref();
        json!({
            "planned": verdict.planned,
            "passed": self.ending() == Ending::Passed,
            "verdict": self.sentence(),
            "ms": ended.map(|ended| ended.ms),
            "calls": verdict.calls,
            "lost_answers": verdict.lost,
            "operations": verdict.operations,
            "acknowledged": verdict.acknowledged,
            "replayed": verdict.replayed,
            "granted": verdict.granted,
            "transferred": verdict.transferred,
            "acts_of_operators": verdict.controlled,
            "epochs": verdict.epochs,
            "repeated_by_the_network": verdict.repeated,
            "arrivals_at_stores": verdict.arrivals,
            "effects_in_stores": verdict.effects,
            "resources": verdict.resources,
            "open": verdict.open,
            "after_the_end_of_a_resource": {"lines": verdict.late, "effects": verdict.late_effects},
            "answers": verdict.answers,
            "faults": faults,
            "violations": {"total": verdict.total(), "by_invariant": verdict.counts, "first": violations},
            "remarks": ended.map(|ended| &ended.remarks),
            "absent": ended.map(|ended| &ended.absent),
        })
    }

    /// The table.
    pub(super) fn told(&self) -> String {
        // Writing to a text cannot fail.
        self.table().unwrap_or_default()
    }

    fn table(&self) -> Result<String, std::fmt::Error> {
        let (verdict, mut text) = (&self.verdict, String::new());
        if let Some(planned) = &verdict.planned {
            let fence = if planned.fenced { "through the gateway" } else { "past the gateway" };
            writeln!(
                text,
                "seed {}, {} x{}, writes {fence}",
                planned.seed, planned.engine, planned.replicas
            )?;
        }
        writeln!(text, "\n{:<28}{:>10}{:>10}{:>12}", "fault", "delivered", "mattered", "calls met")?;
        for (kind, [delivered, mattered, calls]) in &verdict.faults {
            writeln!(text, "{kind:<28}{delivered:>10}{mattered:>10}{calls:>12}")?;
        }
        for absent in verdict.ended.iter().flat_map(|ended| &ended.absent) {
            writeln!(text, "{absent}")?;
        }
        writeln!(text, "\n{:<46}{:>10}", "answer", "times")?;
        for (answer, times) in &verdict.answers {
            writeln!(text, "{answer:<46}{times:>10}")?;
        }
        writeln!(text)?;
        for (name, count) in [
            ("calls", verdict.calls),
            ("without an answer", verdict.lost),
            ("delivered once more by the network", verdict.repeated),
            ("operations", verdict.operations),
            ("acknowledged writes", verdict.acknowledged),
            ("replayed answers", verdict.replayed),
            ("leases granted", verdict.granted),
            ("leases handed over", verdict.transferred),
            ("acts of operators", verdict.controlled),
            ("epochs begun", verdict.epochs),
            ("requests at the stores", verdict.arrivals),
            ("effects in the stores", verdict.effects),
            ("resources judged", verdict.resources),
            ("resources left open", verdict.open),
            ("lines about a resource after its end", verdict.late),
            ("effects among these", verdict.late_effects),
        ] {
            writeln!(text, "{name:<46}{count:>10}")?;
        }
        for remark in verdict.ended.iter().flat_map(|ended| &ended.remarks) {
            writeln!(text, "remark: {remark}")?;
        }
        self.violations(&mut text)?;
        write!(text, "\n{}", self.sentence())?;
        Ok(text)
    }

    fn violations(&self, text: &mut String) -> std::fmt::Result {
        writeln!(text, "\nviolations: {}", self.verdict.total())?;
        for (rule, count) in &self.verdict.counts {
            writeln!(text, "  {rule:<6}{count:>10}")?;
        }
        for one in &self.verdict.violations {
            writeln!(text, "\n{} {}: {}", one.rule, one.resource, one.told)?;
            for line in one.lines.iter().filter_map(|n| self.story.get(n)) {
                let shown = serde_json::to_string(&line.is).unwrap_or_default();
                writeln!(text, "  {:>9} {:>12} us  {shown}", line.n, line.at)?;
            }
        }
        Ok(())
    }
}
