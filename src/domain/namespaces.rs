//! The namespaces that this process was configured with.

use std::collections::BTreeMap;

use super::lease::{Ttl, TtlBounds, WaitOrder};
use super::policy::Definition;
use super::quota::Quota;
use super::resource::Namespace;
use super::store::StoreRules;
use super::time::Millis;

/// Body limit where none is configured: 1 MiB (`api.md` section 4).
pub const DEFAULT_MAX_BODY_BYTES: u64 = 1_048_576;

/// Everything that the configuration says of one namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamespaceRules {
    /// What is recorded at first use and compared ever after.
    pub definition: Definition,
    /// How long its leases may live.
    pub ttl: TtlBounds,
    /// How long nobody may acquire after a lease has expired (not after a release): time for an owner that lost its
    /// lease to notice. Zero for none.
    pub lock_delay: Millis,
    /// The longest that one acquisition may be held, renewals included; none for no bound.
    pub max_hold: Option<Millis>,
    /// Who of several waiting callers is next.
    pub order: WaitOrder,
    /// Largest body, in bytes.
    pub max_body_bytes: u64,
    /// How much it may have; each namespace of `"*"` for itself.
    pub quota: Quota,
    /// Of a store behind HTTP, and only of one: what the rules need to know of it.
    pub upstream: Option<StoreRules>,
}

impl NamespaceRules {
    /// The bounds of a ttl; none may be longer than an acquisition may be held.
    #[must_use]
    pub fn ttl_in_force(&self) -> TtlBounds {
        match self.max_hold {
            None => self.ttl,
            Some(longest) => TtlBounds {
                greatest: Ttl::from_ms(self.ttl.greatest.millis().min(longest).get()),
                ..self.ttl
            },
        }
    }
}

impl Default for NamespaceRules {
    fn default() -> Self {
        Self {
            definition: Definition::default(),
            ttl: TtlBounds::default(),
            lock_delay: Millis::default(),
            max_hold: None,
            order: WaitOrder::Race,
            max_body_bytes: DEFAULT_MAX_BODY_BYTES,
            quota: Quota::default(),
            upstream: None,
        }
    }
}

/// The configured namespaces, and the rules of all others where others are allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Namespaces {
    named: BTreeMap<Namespace, NamespaceRules>,
    any: Option<NamespaceRules>,
    bases: BTreeMap<Namespace, String>,
}

impl Default for Namespaces {
    /// Without a configuration every name is a namespace with the default rules.
    fn default() -> Self {
        Self { named: BTreeMap::new(), any: Some(NamespaceRules::default()), bases: BTreeMap::new() }
    }
}

impl Namespaces {
    /// Named namespaces, and the rules of `"*"` where it is configured.
    #[must_use]
    pub const fn new(named: BTreeMap<Namespace, NamespaceRules>, any: Option<NamespaceRules>) -> Self {
        Self { named, any, bases: BTreeMap::new() }
    }

    /// With the base addresses of those whose effects go to an upstream; they hold no secret.
    #[must_use]
    pub fn with_bases(self, bases: BTreeMap<Namespace, String>) -> Self {
        Self { bases, ..self }
    }

    /// The base address of a namespace whose effects go to an upstream, to be shown.
    #[must_use]
    pub fn base(&self, namespace: &Namespace) -> Option<&str> {
        self.bases.get(namespace).map(String::as_str)
    }

    /// The rules of a namespace; `None` when it is unknown here.
    #[must_use]
    pub fn rules(&self, namespace: &Namespace) -> Option<&NamespaceRules> {
        self.named.get(namespace).or(self.any.as_ref())
    }

    /// The namespaces that are configured by name, in order.
    pub fn named(&self) -> impl Iterator<Item = (&Namespace, &NamespaceRules)> {
        self.named.iter()
    }

    /// Whether any namespace has a quota.
    #[must_use]
    pub fn have_quotas(&self) -> bool {
        self.named.values().chain(&self.any).any(|rules| rules.quota != Quota::default())
    }

    /// Whether names that are not configured are namespaces too.
    #[must_use]
    pub const fn allows_any(&self) -> bool {
        self.any.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_configured_of_a_namespace_is_found_under_its_name() {
        // Broken: a namespace gets the rules, the address or the quota of another one. Must hold: its own, else those of all
        // others where there are such, else none.
        let name = |text| Namespace::parse(text).unwrap();
        let some = NamespaceRules { max_body_bytes: 7, ..NamespaceRules::default() };
        let metered = NamespaceRules { quota: Quota { bytes: Some(1), ..Quota::default() }, ..some };
        let only = Namespaces::new(BTreeMap::from([(name("jobs"), some)]), None);
        assert_eq!((only.rules(&name("jobs")), only.rules(&name("mail"))), (Some(&some), None));
        assert!(!only.allows_any() && !only.have_quotas() && only.base(&name("jobs")).is_none());
        let addresses = BTreeMap::from([(name("jobs"), "http://store/".to_owned())]);
        let based = only.with_bases(addresses);
        assert_eq!((based.base(&name("jobs")), based.base(&name("mail"))), (Some("http://store/"), None));
        assert_eq!(based.rules(&name("jobs")), Some(&some));
        let open = Namespaces::new(BTreeMap::from([(name("jobs"), some)]), Some(metered));
        assert_eq!((open.rules(&name("jobs")), open.rules(&name("mail"))), (Some(&some), Some(&metered)));
        assert!(open.allows_any() && open.have_quotas());
        assert!(Namespaces::new(BTreeMap::from([(name("jobs"), metered)]), None).have_quotas());
        assert!(Namespaces::default().allows_any() && !Namespaces::default().have_quotas());
    }
}
