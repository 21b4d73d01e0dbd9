//! What an operator's act is about: one resource, one namespace, or everything.

use std::fmt;

use super::resource::{Bucket, NameError, Namespace, ResourceName};

/// How "every namespace" is written. No namespace can be called so.
const EVERYWHERE: &str = "*";

/// What an act, its record and its audit line are about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// Every namespace, those included that were never used yet.
    Everywhere,
    /// One namespace.
    Namespace(Namespace),
    /// One resource.
    Resource(ResourceName),
}

impl Subject {
    /// Reads a name: one without a slash is a namespace, and `*` is all of them.
    ///
    /// # Errors
    /// [`NameError`] names the character and the reason.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        if text == EVERYWHERE {
            Ok(Self::Everywhere)
        } else if text.contains('/') {
            ResourceName::parse(text).map(Self::Resource)
        } else {
            Namespace::parse(text).map(Self::Namespace)
        }
    }

    /// What is told of a resource is told of it, of its namespace, or of all of them.
    #[must_use]
    pub fn touching(resource: &ResourceName) -> [Self; 3] {
        [Self::Resource(resource.clone()), Self::Namespace(resource.namespace()), Self::Everywhere]
    }

    /// The name in rows and answers.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Everywhere => EVERYWHERE,
            Self::Namespace(name) => name.as_str(),
            Self::Resource(name) => name.as_str(),
        }
    }

    /// Where its rows lie. What is about more than one resource lies in the first bucket.
    #[must_use]
    pub fn bucket(&self) -> Bucket {
        match self {
            Self::Everywhere | Self::Namespace(_) => Bucket(0),
            Self::Resource(name) => name.bucket(),
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<ResourceName> for Subject {
    fn from(name: ResourceName) -> Self {
        Self::Resource(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slash_tells_a_resource_from_a_namespace() {
        assert_eq!(Subject::parse("*"), Ok(Subject::Everywhere));
        assert!(matches!(Subject::parse("jobs"), Ok(Subject::Namespace(_))));
        assert!(matches!(Subject::parse("jobs/a"), Ok(Subject::Resource(_))));
        assert!(Subject::parse("").is_err());
        let page = ResourceName::parse("jobs/a").unwrap();
        let told = Subject::touching(&page).map(|subject| subject.to_string());
        assert_eq!(told, ["jobs/a", "jobs", "*"]);
        assert_eq!(Subject::from(page.clone()).bucket(), page.bucket());
        assert_ne!(page.bucket(), Bucket(0));
        assert_eq!(
            (Subject::parse("jobs").unwrap().bucket(), Subject::Everywhere.bucket()),
            (Bucket(0), Bucket(0))
        );
        assert_eq!(Subject::parse("jobs/a").map(|subject| subject.to_string()), Ok("jobs/a".to_owned()));
    }
}
