//! One value as it was given, from whatever source, and the few kinds of value that there are.

use std::ops::RangeInclusive;

use toml_edit::{Item, TableLike, Value};

use super::keys::{self, LATER};
use super::mistake::{Mistakes, Place};
use super::origin::Origin;
use crate::domain::time::Millis;

/// A value with the place that a mistake in it is told with.
#[derive(Clone)]
pub(super) struct Given<'a> {
    /// The whole key.
    pub(super) key: String,
    /// The value; one from a variable or a flag was made into an item too.
    pub(super) item: &'a Item,
    /// Where the key stands.
    pub(super) key_place: Place,
    /// Where the value stands.
    pub(super) place: Place,
    /// The source that it came from.
    pub(super) origin: Origin<'a>,
}

/// A value that was read, and where.
#[derive(Debug, Clone)]
pub(super) struct Found<T> {
    /// The value.
    pub(super) value: T,
    /// Where it stands.
    pub(super) place: Place,
}

/// What is known of one setting. A later source overwrites an earlier one.
#[derive(Debug, Clone, Default)]
pub(super) enum Slot<T> {
    /// Nobody said anything.
    #[default]
    Absent,
    /// Somebody said something wrong, which was noted; nothing may be concluded from the default then.
    Mistaken,
    /// What was said last.
    Given(Found<T>),
}

impl<T> Slot<T> {
    /// What a reader made of a given value.
    pub(super) fn of(given: &Given<'_>, value: Option<T>) -> Self {
        match value {
            Some(value) => Self::Given(Found { value, place: given.place.clone() }),
            None => Self::Mistaken,
        }
    }

    /// What was found, where it was right.
    pub(super) const fn found(&self) -> Option<&Found<T>> {
        match self {
            Self::Given(found) => Some(found),
            Self::Absent | Self::Mistaken => None,
        }
    }

    /// Whether a wrong value stands here.
    pub(super) const fn is_mistaken(&self) -> bool {
        match self {
            Self::Mistaken => true,
            Self::Absent | Self::Given(_) => false,
        }
    }
}

impl<T: Copy> Slot<T> {
    /// The value, or `default`.
    pub(super) fn or(&self, default: T) -> T {
        self.found().map_or(default, |found| found.value)
    }
}

/// One item of a list.
pub(super) struct ListItem<'a> {
    key: String,
    item: Item,
    place: Place,
    origin: Origin<'a>,
}

impl ListItem<'_> {
    /// The item as a value of its own, with the key of its list.
    pub(super) fn given(&self) -> Given<'_> {
        Given {
            key: self.key.clone(),
            item: &self.item,
            key_place: self.place.clone(),
            place: self.place.clone(),
            origin: self.origin,
        }
    }
}

impl<'a> Given<'a> {
    /// Notes that this value is wrong.
    pub(super) fn wrong(&self, mistakes: &mut Mistakes, problem: impl Into<String>) {
        mistakes.note(&self.place, &self.key, problem);
    }

    /// The keys of a table that stands in this value.
    pub(super) fn entries<'t>(&self, table: &'t dyn TableLike) -> Vec<(&'t str, Given<'t>)>
    where
        'a: 't,
    {
        self.origin.entries(table, &format!("{}.", self.key))
    }

    fn expected(&self, mistakes: &mut Mistakes, what: &str) {
        self.wrong(mistakes, format!("wants {what}, not {}", kind_of(self.item)));
    }

    /// A text that is not empty.
    pub(super) fn text(&self, mistakes: &mut Mistakes) -> Option<&'a str> {
        let Some(text) = self.item.as_str() else {
            self.expected(mistakes, "text in quotes");
            return None;
        };
        if text.is_empty() {
            self.wrong(mistakes, "is empty; leave it out, or give a value");
            return None;
        }
        if let Some(found) = text.chars().find(|found| found.is_control()) {
            self.wrong(
                mistakes,
                format!("holds the control character U+{:04X}; remove it", u32::from(found)),
            );
            return None;
        }
        Some(text)
    }

    /// A whole number in a range.
    pub(super) fn whole(&self, range: &RangeInclusive<u64>, mistakes: &mut Mistakes) -> Option<u64> {
        let (least, greatest) = (range.start(), range.end());
        let Some(number) = self.item.as_integer() else {
            self.expected(mistakes, &format!("a whole number from {least} to {greatest}"));
            return None;
        };
        match u64::try_from(number) {
            Ok(number) if range.contains(&number) => Some(number),
            Ok(_) | Err(_) => {
                self.wrong(mistakes, format!("is {number}; allowed is {least} to {greatest}"));
                None
            }
        }
    }

    /// A span of time within a range, which `allowed` tells.
    pub(super) fn span(
        &self,
        range: &RangeInclusive<u64>,
        allowed: &str,
        mistakes: &mut Mistakes,
    ) -> Option<Millis> {
        let text = self.text(mistakes)?;
        let Ok(span) = humantime::parse_duration(text) else {
            let problem = format!("{text:?} is not a span of time; write one such as \"24h\" or \"7d\"");
            self.wrong(mistakes, problem);
            return None;
        };
        match u64::try_from(span.as_millis()) {
            Ok(ms) if range.contains(&ms) => Some(Millis::new(ms)),
            Ok(_) | Err(_) => {
                self.wrong(mistakes, format!("is {text:?}; allowed is {allowed}"));
                None
            }
        }
    }

    /// True or false.
    pub(super) fn truth(&self, mistakes: &mut Mistakes) -> Option<bool> {
        let truth = self.item.as_bool();
        if truth.is_none() {
            self.expected(mistakes, "true or false");
        }
        truth
    }

    /// One of a few words; those of later versions are refused by name.
    pub(super) fn word<T: Copy>(
        &self,
        words: &[(&'static str, T)],
        later: &[&str],
        mistakes: &mut Mistakes,
    ) -> Option<T> {
        let text = self.text(mistakes)?;
        if let Some((_, value)) = words.iter().find(|(word, _)| *word == text) {
            return Some(*value);
        }
        if later.contains(&text) {
            self.wrong(mistakes, format!("{text:?} {LATER}"));
            return None;
        }
        let names: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        let near = keys::nearest(text, names.iter().copied())
            .map(|word| format!("; the nearest is `{word}`"))
            .unwrap_or_default();
        self.wrong(mistakes, format!("{text:?} is not known{near}. Allowed: {}", keys::list(&names)));
        None
    }

    /// A list, its items one by one.
    pub(super) fn list(&self, what: &str, most: usize, mistakes: &mut Mistakes) -> Option<Vec<ListItem<'a>>> {
        let Some(list) = self.item.as_array() else {
            self.expected(mistakes, &format!("a list of {what}"));
            return None;
        };
        if list.len() > most {
            self.wrong(mistakes, format!("has {} items; at most {most} are allowed", list.len()));
            return None;
        }
        let item = |value: &Value| ListItem {
            key: self.key.clone(),
            place: value.span().map_or_else(|| self.place.clone(), |span| self.origin.place(span.start)),
            item: Item::Value(value.clone()),
            origin: self.origin,
        };
        Some(list.iter().map(item).collect())
    }

    /// A table, inline or not.
    pub(super) fn table(&self, example: &str, mistakes: &mut Mistakes) -> Option<&'a dyn TableLike> {
        let table = self.item.as_table_like();
        if table.is_none() {
            self.expected(mistakes, &format!("a table such as {example}"));
        }
        table
    }
}

fn kind_of(item: &Item) -> String {
    match item.type_name() {
        "integer" => "a whole number".to_owned(),
        "string" => item.as_str().map_or_else(|| "text".to_owned(), |text| format!("the text {text:?}")),
        "boolean" => "true or false".to_owned(),
        "float" => "a number with a fraction".to_owned(),
        "array" => "a list".to_owned(),
        "array of tables" => "a list of tables ([[…]])".to_owned(),
        "inline table" | "table" => "a table".to_owned(),
        other => format!("a {other}"),
    }
}
