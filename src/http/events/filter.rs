//! Which events a listener wants.

use crate::domain::permission::{Permission, Rules};
use crate::domain::resource::Namespace;
use crate::domain::subject::Subject;
use crate::ledger::events::Happening;

use super::super::problem::{Code, Problem};
use super::super::{Asked, names};

/// Of one namespace, of names that begin alike, or of everything. What is done to a whole namespace concerns every name in
/// it, and what is done to all of them concerns everybody; by whom and why is for those who look after the whole.
#[derive(Debug, Clone, Default)]
pub(super) struct Filter {
    namespace: Option<Namespace>,
    prefix: Option<String>,
    /// What the listener may read: nothing else is told, whatever it asks for.
    rules: Rules,
}

impl Filter {
    pub(super) fn of(asked: &Asked<'_>) -> Result<Self, Problem> {
        let namespace = asked.query.value("namespace").map(|text| named(asked, text)).transpose()?;
        let prefix = asked.query.value("prefix").filter(|prefix| !prefix.is_empty()).map(str::to_owned);
        Ok(Self { namespace, prefix, rules: asked.caller.rules().clone() })
    }

    /// What the listener may do.
    pub(super) const fn rules(&self) -> &Rules {
        &self.rules
    }

    pub(super) fn admits(&self, what: &Happening) -> bool {
        match what {
            Happening::Act(entry) => self.admits_subject(&entry.row.subject),
            Happening::Operation(entry) => {
                self.admits_name(entry.record.resource.namespace().as_str(), entry.record.resource.as_str())
            }
        }
    }

    fn admits_subject(&self, subject: &Subject) -> bool {
        match subject {
            Subject::Everywhere => true,
            Subject::Resource(name) => self.admits_name(name.namespace().as_str(), name.as_str()),
            Subject::Namespace(name) => {
                if !self.rules.allow(name.as_str(), Permission::Read) {
                    return false;
                }
                let named = self.namespace.as_ref().is_none_or(|one| one == name);
                named && self.prefix.as_deref().is_none_or(|prefix| lie_together(name.as_str(), prefix))
            }
        }
    }

    fn admits_name(&self, namespace: &str, name: &str) -> bool {
        self.rules.allow(name, Permission::Read)
            && self.namespace.as_ref().is_none_or(|one| one.as_str() == namespace)
            && self.prefix.as_deref().is_none_or(|prefix| name.starts_with(prefix))
    }
}

/// Whether names that begin so can lie in a namespace.
fn lie_together(namespace: &str, prefix: &str) -> bool {
    match prefix.split_once('/') {
        Some((first, _)) => first == namespace,
        None => namespace.starts_with(prefix),
    }
}

fn named(asked: &Asked<'_>, text: &str) -> Result<Namespace, Problem> {
    let name = Namespace::parse(text)
        .map_err(|error| Problem::new(Code::InvalidResource, format!("namespace {text:?}: {error}")))?;
    if !asked.knows(&name) {
        asked.require(Permission::Read, name.as_str())?;
    }
    names::rules_of(&name, asked.hall.namespaces())?;
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::resource::ResourceName;

    fn admits(filter: (Option<&str>, Option<&str>), subject: &str) -> bool {
        let namespace = filter.0.map(|name| Namespace::parse(name).unwrap());
        let filter = Filter { namespace, prefix: filter.1.map(str::to_owned), rules: Rules::unlimited() };
        filter.admits_subject(&Subject::parse(subject).unwrap())
    }

    #[test]
    fn what_concerns_a_whole_namespace_is_told_to_whoever_listens_in_it() {
        assert!(ResourceName::parse("jobs/a").is_ok());
        for subject in ["jobs/a", "jobs", "*"] {
            assert!(admits((Some("jobs"), None), subject), "{subject}");
            assert!(admits((None, Some("jobs/a")), subject), "{subject}");
            assert!(admits((None, Some("jo")), subject), "{subject}");
            assert!(admits((None, None), subject), "{subject}");
        }
        for subject in ["jobs2/a", "jobs2"] {
            assert!(!admits((Some("jobs"), None), subject), "{subject}");
            assert!(!admits((None, Some("jobs/a")), subject), "{subject}");
        }
        assert!(!admits((None, Some("jobs/b")), "jobs/a"));
    }
}
