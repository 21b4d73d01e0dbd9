//! What an exam found, as a table for people and as JSON.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};

use super::events::Line;
use super::judge::{self, Verdict};

/// A verdict, with the lines of the history that belong to what it found.
pub(super) struct Report {
    pub(super) verdict: Verdict,
    story: BTreeMap<u64, Line>,
    /// What went wrong beside the judged.
    pub(super) remarks: Vec<String>,
    /// What could not be done here.
    absent: Vec<String>,
}

impl Report {
    /// Judges a folder.
    ///
    /// # Errors
    /// When there is no history in it.
    pub(super) fn of(folder: &Path, remarks: Vec<String>, absent: Vec<String>) -> anyhow::Result<Self> {
        let verdict = judge::judge(folder)?;
        let story = if verdict.violations.is_empty() {
            BTreeMap::new()
        } else {
            judge::story(folder, &verdict.violations)?
        };
        Ok(Self { verdict, story, remarks, absent })
    }

    /// Whether the gateways were in force in this history.
    pub(super) fn is_fenced(&self) -> bool {
        self.verdict.planned.as_ref().is_none_or(|planned| planned.fenced)
    }

    /// Stale writes that took effect.
    pub(super) fn stale(&self) -> u64 {
        self.verdict.counts.get("I1").copied().unwrap_or_default()
    }

    /// Whether it is as it must be: without a violation; and past the gateway with stale writes, or the judge is blind.
    pub(super) fn passed(&self) -> bool {
        let verdict = &self.verdict;
        let whole = verdict.ended_ms.is_some() && self.remarks.is_empty();
        let found_as_wanted = if self.is_fenced() {
            verdict.total() == 0 && verdict.acknowledged > 0
        } else {
            self.stale() > 0
        };
        whole && found_as_wanted
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
        json!({
            "planned": verdict.planned,
            "passed": self.passed(),
            "ms": verdict.ended_ms,
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
            "answers": verdict.answers,
            "faults": faults,
            "violations": {"total": verdict.total(), "by_invariant": verdict.counts, "first": violations},
            "remarks": self.remarks,
            "absent": self.absent,
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
        for absent in &self.absent {
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
        ] {
            writeln!(text, "{name:<46}{count:>10}")?;
        }
        for remark in &self.remarks {
            writeln!(text, "remark: {remark}")?;
        }
        self.violations(&mut text)?;
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
