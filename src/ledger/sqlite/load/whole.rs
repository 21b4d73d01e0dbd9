//! What an act on a whole namespace, or on all of them, is decided against; and the records of such calls.

use crate::domain::resource::{Namespace, ResourceName};
use crate::domain::subject::Subject;
use crate::limits::OPEN_OPERATIONS_SHOWN;
use crate::protocol::Wanted;
use crate::protocol::snapshot::ControlKey;

use super::super::super::cells::{ReadCells, WriteCells};
use super::super::super::range::Range;
use super::super::super::read::ResourceFilter;
use super::super::fault::Fault;
use super::super::reader;
use super::super::rows::{self, control_columns, intent_columns};
use super::super::values::{each, first};
use super::Loading;

const CONTROL: &str = concat!(
    "SELECT ",
    control_columns!(),
    " FROM controls AS c WHERE c.bucket = ?1 AND c.resource = ?2 AND c.verb = ?3 AND c.key = ?4"
);

/// The oldest of the few rows that there are. It walks all of them, once for each of these rare acts.
const OPEN: &str = concat!(
    "SELECT a.resource, ",
    intent_columns!(),
    " FROM intents AS a WHERE ?1 = '*' OR substr(a.resource, 1, length(?1) + 1) = ?1 || '/' \
     ORDER BY a.created_ms LIMIT ?2"
);

/// Whether a namespace has resources: `?1` the first name that one could have, `?2` the first one that none has.
const POPULATED: &str = "SELECT r.resource FROM resources AS r WHERE r.resource >= ?1 AND r.resource < ?2 ORDER BY r.resource LIMIT 1";

impl Loading<'_> {
    /// The namespaces that are acted on as a whole, with some of their undecided operations; and what holds for those
    /// that were never used, where one of the wanted ones was not.
    pub(super) fn whole(&mut self, wanted: &Wanted) -> Result<(), Fault> {
        for subject in &wanted.whole {
            match subject {
                Subject::Everywhere => self.all_namespaces()?,
                // It is among the wanted ones.
                Subject::Namespace(name) => self.populated(name)?,
                Subject::Resource(_) => {}
            }
            self.open_operations(subject)?;
        }
        let names = wanted.resources.iter().map(ResourceName::namespace);
        let mut names = wanted.namespaces.iter().cloned().chain(names);
        let unused = names.any(|name| self.snapshot.namespace(&name).is_none());
        if unused || wanted.whole.contains(&Subject::Everywhere) {
            self.snapshot.set_everywhere(reader::everywhere(self.connection)?);
        }
        Ok(())
    }

    fn populated(&mut self, namespace: &Namespace) -> Result<(), Fault> {
        let filter = ResourceFilter { namespace: Some(namespace.clone()), ..ResourceFilter::default() };
        let Range { from, before } = Range::of(&filter);
        let found = first(
            self.connection,
            POPULATED,
            |values| {
                values.text(&from);
                values.text(before.as_deref().unwrap_or_default());
            },
            |_| Ok(()),
        )?;
        if found.is_some() {
            self.snapshot.set_populated(namespace.clone());
        }
        Ok(())
    }

    fn all_namespaces(&mut self) -> Result<(), Fault> {
        for row in reader::namespaces(self.connection)? {
            self.snapshot.insert_namespace(row);
        }
        Ok(())
    }

    fn open_operations(&mut self, subject: &Subject) -> Result<(), Fault> {
        let mut found = Vec::new();
        each(
            self.connection,
            OPEN,
            |values| {
                values.text(subject.as_str());
                values.whole(u64::from(OPEN_OPERATIONS_SHOWN));
            },
            |columns| {
                let resource = columns.parsed(ResourceName::parse)?;
                found.push(rows::intent(resource, columns)?);
                Ok(())
            },
        )?;
        for row in found {
            self.snapshot.insert_intent(row);
        }
        Ok(())
    }

    pub(super) fn control(&mut self, key: &ControlKey) -> Result<(), Fault> {
        let (subject, verb, name) = key;
        let found = first(
            self.connection,
            CONTROL,
            |values| {
                values.subject(subject);
                values.text(verb.word());
                values.text(name.as_str());
            },
            |columns| rows::control(key.clone(), columns),
        )?;
        if let Some(row) = found {
            self.snapshot.insert_control(row);
        }
        Ok(())
    }
}

#[cfg(test)]
pub(super) fn texts() -> Vec<&'static str> {
    vec![CONTROL, POPULATED]
}
