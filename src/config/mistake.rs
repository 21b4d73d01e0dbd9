//! What is wrong in a configuration, and where. It must never hold a secret: a mistake is printed and logged.

use std::fmt;

use serde::Serialize;

use crate::limits::MISTAKES_SHOWN;

/// Where a value stands.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(untagged)]
pub enum Place {
    /// In the configuration file.
    File {
        /// The file as it was named.
        file: String,
        /// Counted from 1.
        line: usize,
        /// Counted in characters from 1.
        column: usize,
    },
    /// In an environment variable.
    Variable {
        /// Its name.
        variable: String,
    },
    /// In a flag of the command line.
    Flag {
        /// With its dashes.
        flag: String,
    },
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { file, line, column } => write!(f, "{file}:{line}:{column}"),
            Self::Variable { variable } => write!(f, "variable {variable}"),
            Self::Flag { flag } => write!(f, "flag {flag}"),
        }
    }
}

/// One mistake.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Mistake {
    /// Where it stands.
    #[serde(flatten)]
    pub place: Place,
    /// The whole key, such as `namespaces.statements.policy`; empty where the text is no TOML.
    pub key: String,
    /// What is wrong, what is allowed, and what was probably meant.
    pub problem: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.key.is_empty() {
            write!(f, "{}: {}", self.place, self.problem)
        } else {
            write!(f, "{}: {}: {}", self.place, self.key, self.problem)
        }
    }
}

/// All mistakes of a configuration, each once, in the order of their places.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mistakes(Vec<Mistake>);

impl Mistakes {
    /// Notes one. The same mistake at the same place is noted once.
    pub(super) fn note(&mut self, place: &Place, key: &str, problem: impl Into<String>) {
        let mistake = Mistake { place: place.clone(), key: key.to_owned(), problem: problem.into() };
        if let Err(at) = self.0.binary_search(&mistake) {
            self.0.insert(at, mistake);
        }
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// In the order of their places.
    pub fn iter(&self) -> impl Iterator<Item = &Mistake> {
        self.0.iter()
    }
}

/// One a line.
impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, mistake) in self.0.iter().take(MISTAKES_SHOWN).enumerate() {
            let end = if index == 0 { "" } else { "\n" };
            write!(f, "{end}{mistake}")?;
        }
        match self.0.len().checked_sub(MISTAKES_SHOWN) {
            Some(more) if more > 0 => write!(f, "\nand {more} more"),
            Some(_) | None => Ok(()),
        }
    }
}

impl std::error::Error for Mistakes {}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(line: usize) -> Place {
        Place::File { file: "f.toml".to_owned(), line, column: 3 }
    }

    #[test]
    fn mistakes_are_told_once_and_by_line() {
        let mut mistakes = Mistakes::default();
        mistakes.note(&place(10), "b", "second");
        mistakes.note(&place(9), "a", "first");
        mistakes.note(&place(10), "b", "second");
        assert_eq!(mistakes.to_string(), "f.toml:9:3: a: first\nf.toml:10:3: b: second");
    }

    #[test]
    fn a_flood_of_mistakes_is_cut_and_counted() {
        let mut mistakes = Mistakes::default();
        for line in 1..=MISTAKES_SHOWN + 2 {
            mistakes.note(&place(line), "k", "p");
        }
        assert_eq!(mistakes.to_string().lines().count(), MISTAKES_SHOWN + 1);
        assert!(mistakes.to_string().ends_with("and 2 more"));
    }

    #[test]
    fn a_program_reads_the_place_as_fields() {
        let mistake = Mistake { place: place(2), key: "a.b".to_owned(), problem: "p".to_owned() };
        assert_eq!(
            serde_json::to_value(mistake).unwrap(),
            serde_json::json!({"file": "f.toml", "line": 2, "column": 3, "key": "a.b", "problem": "p"})
        );
    }
}
