//! Where values come from: a file with lines, one variable, or one flag.

use std::path::Path;

use toml_edit::{Item, Key, TableLike};

use super::given::Given;
use super::mistake::Place;

/// A file's text, and what it is called.
#[derive(Debug, Clone, Copy)]
pub struct FileText<'a> {
    /// As mistakes name it; relative paths in it are relative to its folder.
    pub path: &'a Path,
    /// What stands in it.
    pub text: &'a str,
}

impl FileText<'_> {
    /// The byte at which each line begins.
    pub(super) fn lines(&self) -> Vec<usize> {
        let later = self.text.match_indices('\n').map(|(at, _)| at.saturating_add(1));
        std::iter::once(0).chain(later).collect()
    }
}

/// One source of values.
#[derive(Clone, Copy)]
pub(super) enum Origin<'a> {
    /// The configuration file.
    File {
        /// Its text.
        file: FileText<'a>,
        /// The byte at which each line begins.
        lines: &'a [usize],
    },
    /// A variable or a flag: one place for all that it says.
    Spot(&'a Place),
}

impl<'a> Origin<'a> {
    /// The keys of a table with their values and places.
    pub(super) fn entries<'t>(self, table: &'t dyn TableLike, prefix: &str) -> Vec<(&'t str, Given<'t>)>
    where
        'a: 't,
    {
        table
            .iter()
            .filter_map(|(name, _)| table.get_key_value(name))
            .map(|(key, item)| (key.get(), self.given(key, item, prefix)))
            .collect()
    }

    fn given<'t>(self, key: &'t Key, item: &'t Item, prefix: &str) -> Given<'t>
    where
        'a: 't,
    {
        let key_start = key.span().or_else(|| item.span()).map_or(0, |span| span.start);
        let start =
            if item.is_value() { item.span().map_or(key_start, |span| span.start) } else { key_start };
        Given {
            key: format!("{prefix}{}", key.display_repr()),
            item,
            key_place: self.place(key_start),
            place: self.place(start),
            origin: self,
        }
    }

    /// The place of a byte.
    pub(super) fn place(self, at: usize) -> Place {
        match self {
            Self::Spot(place) => place.clone(),
            Self::File { file: FileText { path, text }, lines } => {
                let line = lines.partition_point(|start| *start <= at);
                let start =
                    line.checked_sub(1).and_then(|index| lines.get(index)).copied().unwrap_or_default();
                let column = text.get(start..at).map_or(0, |before| before.chars().count()).saturating_add(1);
                Place::File { file: path.display().to_string(), line: line.max(1), column }
            }
        }
    }

    /// What relative paths are relative to: the file's folder, or the working directory.
    pub(super) fn base(self) -> &'a Path {
        let here = Path::new("");
        match self {
            Self::File { file, .. } => file.path.parent().unwrap_or(here),
            Self::Spot(_) => here,
        }
    }
}
