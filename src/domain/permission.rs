//! Who may do what: rules from prefixes to permissions. The most specific prefix decides alone, and what no rule names
//! is denied (`ecosystem.md`, authorisation).
//!
//! A prefix ends where a segment ends: `jobs/a` speaks of `jobs/a` and of all below it, and never of `jobs/ab`.

use std::fmt;

use super::resource::NameError;
use super::subject::Subject;

/// One kind of act.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Permission {
    /// See content, leases, operations and timelines.
    Read,
    /// Acquire, renew, hand over and release.
    Lease,
    /// Write under a fencing token, and act as the owner that the token proves.
    Write,
    /// Raise the floor without a lease of the gateway.
    Advance,
    /// Revoke, cancel, reopen and resolve as an operator.
    Operate,
    /// Begin epochs and change definitions.
    Admin,
}

impl Permission {
    /// All of them, in the order in which they are told.
    pub const ALL: [Self; 6] =
        [Self::Read, Self::Lease, Self::Write, Self::Advance, Self::Operate, Self::Admin];

    /// The word in the configuration and in answers.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Lease => "lease",
            Self::Write => "write",
            Self::Advance => "advance",
            Self::Operate => "operate",
            Self::Admin => "admin",
        }
    }

    /// The permission that a word names.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|permission| permission.word() == word)
    }

    const fn bit(self) -> u8 {
        match self {
            Self::Read => 1,
            Self::Lease => 2,
            Self::Write => 4,
            Self::Advance => 8,
            Self::Operate => 16,
            Self::Admin => 32,
        }
    }
}

/// A set of permissions. None of them implies another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Permissions(u8);

impl Permissions {
    /// No permission.
    pub const NONE: Self = Self(0);

    /// Every permission.
    #[must_use]
    pub fn all() -> Self {
        Permission::ALL.into_iter().collect()
    }

    /// Whether one of them is in the set.
    #[must_use]
    pub const fn has(self, permission: Permission) -> bool {
        self.0 & permission.bit() != 0
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Their words, in the order of [`Permission::ALL`].
    #[must_use]
    pub fn words(self) -> Vec<&'static str> {
        Permission::ALL.into_iter().filter(|one| self.has(*one)).map(Permission::word).collect()
    }
}

impl FromIterator<Permission> for Permissions {
    fn from_iter<I: IntoIterator<Item = Permission>>(permissions: I) -> Self {
        Self(permissions.into_iter().fold(0, |bits, permission| bits | permission.bit()))
    }
}

/// What a rule speaks of: everything, a namespace, or a name and all below it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix(Subject);

impl Prefix {
    /// Reads `*`, a namespace, or the beginning of a name that ends with a segment; a slash at its end says the same.
    ///
    /// # Errors
    /// [`NameError`] names the character and the reason.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        Subject::parse(text.strip_suffix('/').unwrap_or(text)).map(Self)
    }

    /// As it is told.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    fn matches(&self, name: &str) -> bool {
        match &self.0 {
            Subject::Everywhere => true,
            Subject::Namespace(_) | Subject::Resource(_) => {
                name.strip_prefix(self.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            }
        }
    }

    /// How much of a name it fixes: of two that match one name the longer is the more specific.
    fn weight(&self) -> usize {
        match &self.0 {
            Subject::Everywhere => 0,
            Subject::Namespace(_) | Subject::Resource(_) => self.as_str().len(),
        }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What may be done below a prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Where.
    pub prefix: Prefix,
    /// What; none denies.
    pub permissions: Permissions,
}

/// The rules of one principal.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rules {
    /// The most specific first.
    rules: Vec<Rule>,
}

impl Rules {
    /// Of two rules with one prefix the later one is gone.
    #[must_use]
    pub fn new(rules: impl IntoIterator<Item = Rule>) -> Self {
        let mut kept: Vec<Rule> = Vec::new();
        for rule in rules {
            kept.retain(|other| other.prefix != rule.prefix);
            kept.push(rule);
        }
        kept.sort_by(|one, other| {
            other.prefix.weight().cmp(&one.prefix.weight()).then_with(|| one.prefix.cmp(&other.prefix))
        });
        Self { rules: kept }
    }

    /// Everything everywhere.
    #[must_use]
    pub fn unlimited() -> Self {
        let prefix = Prefix(Subject::Everywhere);
        Self { rules: vec![Rule { prefix, permissions: Permissions::all() }] }
    }

    /// All of them, the most specific first.
    #[must_use]
    pub fn all(&self) -> &[Rule] {
        &self.rules
    }

    /// The rule that decides on a name; none: it is denied.
    #[must_use]
    pub fn deciding(&self, name: &str) -> Option<&Rule> {
        self.rules.iter().find(|rule| rule.prefix.matches(name))
    }

    /// Whether this may be done to the resource of this name. The empty name is everything at once, and only a rule for
    /// `*` speaks of it.
    #[must_use]
    pub fn allow(&self, name: &str, permission: Permission) -> bool {
        self.deciding(name).is_some_and(|rule| rule.permissions.has(permission))
    }

    /// Whether this may be done to every name that begins with a text, whatever follows in it. The empty text is every
    /// name.
    #[must_use]
    pub fn cover(&self, beginning: &str, permission: Permission) -> bool {
        // Names that go on within the last segment are decided on by what stands before it.
        let whole = beginning.rsplit_once('/').map_or("", |(before, _)| before);
        let within = self.rules.iter().filter(|rule| rule.prefix.as_str().starts_with(beginning));
        self.allow(whole, permission)
            && within.into_iter().all(|rule| rule.permissions.has(permission) || rule.prefix.weight() == 0)
    }

    /// Whether there is any name to which this may be done, as far as the rules tell.
    #[must_use]
    pub fn mention(&self, permission: Permission) -> bool {
        self.rules.iter().any(|rule| rule.permissions.has(permission))
    }

    /// Whether anything at all may be done in a namespace.
    #[must_use]
    pub fn know(&self, namespace: &str) -> bool {
        let below = |rule: &&Rule| {
            rule.prefix.as_str().strip_prefix(namespace).is_some_and(|rest| rest.starts_with('/'))
        };
        self.deciding(namespace)
            .into_iter()
            .chain(self.rules.iter().filter(below))
            .any(|rule| !rule.permissions.is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::Permission::{Admin, Lease, Operate, Read, Write};
    use super::*;

    fn rules(list: &[(&str, &[Permission])]) -> Rules {
        Rules::new(list.iter().map(|(prefix, permissions)| Rule {
            prefix: Prefix::parse(prefix).unwrap(),
            permissions: permissions.iter().copied().collect(),
        }))
    }

    #[test]
    fn what_no_rule_names_is_denied() {
        let rules = rules(&[("jobs", &[Read])]);
        assert!(rules.allow("jobs/a", Read) && rules.allow("jobs/a/b", Read));
        for (name, permission) in [("jobs/a", Write), ("jobsx/a", Read), ("job/a", Read), ("", Read)] {
            assert!(!rules.allow(name, permission), "{name}");
        }
        assert!(!Rules::default().allow("jobs/a", Read));
        assert!(Rules::unlimited().allow("jobs/a", Admin) && Rules::unlimited().cover("", Admin));
    }

    #[test]
    fn the_most_specific_rule_decides_alone() {
        let rules = rules(&[("*", &[Read, Admin]), ("jobs/a/", &[Lease, Write]), ("jobs/a/b", &[])]);
        assert!(rules.allow("jobs/x", Read) && rules.allow("jobs/ab", Read));
        assert!(rules.allow("jobs/a", Write) && !rules.allow("jobs/a", Read));
        assert!(!rules.allow("jobs/a/b", Write) && !rules.allow("jobs/a/b/c", Write));
        assert!(rules.allow("jobs/a/bc", Write));
        assert_eq!(rules.deciding("jobs/a/b/c").map(|rule| rule.prefix.as_str()), Some("jobs/a/b"));
    }

    #[test]
    fn a_range_is_covered_only_when_no_rule_within_denies() {
        let some = rules(&[("jobs", &[Read, Operate]), ("jobs/secret", &[Operate])]);
        assert!(!some.cover("jobs/", Read) && some.cover("jobs/", Operate));
        assert!(!some.cover("", Operate) && !some.cover("jobs", Operate));
        assert!(!some.cover("jobs/sec", Read) && some.cover("jobs/open", Read));
        assert!(!some.cover("jobs/secret/", Read) && some.cover("jobs/secret/", Operate));
        let one = rules(&[("jobs/a", &[Read])]);
        assert!(one.cover("jobs/a/", Read) && !one.cover("jobs/a", Read) && !one.cover("jobs/", Read));
        let root = rules(&[("*", &[Read]), ("jobs/secret", &[])]);
        assert!(!root.cover("", Read) && !root.cover("jobs/", Read) && root.cover("mail/", Read));
    }

    #[test]
    fn a_namespace_is_known_where_anything_may_be_done_in_it() {
        let rules = rules(&[("jobs/a/b", &[Read]), ("mail", &[])]);
        assert!(rules.know("jobs") && !rules.know("mail") && !rules.know("job"));
        assert!(Rules::unlimited().know("anything"));
    }

    #[test]
    fn a_permission_is_mentioned_where_any_rule_gives_it() {
        let rules = rules(&[("jobs", &[Read]), ("mail", &[Write])]);
        assert!(rules.mention(Read) && rules.mention(Write) && !rules.mention(Lease));
        assert!(!Rules::default().mention(Read));
    }

    #[test]
    fn a_permission_that_is_given_twice_is_given() {
        let twice: Permissions = [Read, Write, Read].into_iter().collect();
        assert!(twice.has(Read) && twice.has(Write) && !twice.has(Lease) && !twice.is_none());
        assert!(Permissions::NONE.is_none());
    }

    #[test]
    fn of_two_rules_with_one_prefix_the_later_one_holds() {
        let rules = rules(&[("jobs", &[Read]), ("jobs/", &[Write])]);
        assert_eq!(rules.all().len(), 1);
        assert!(rules.allow("jobs/a", Write) && !rules.allow("jobs/a", Read));
    }
}
