//! The namespaces that this process was configured with.

use std::collections::BTreeMap;

use super::lease::TtlBounds;
use super::policy::Definition;
use super::resource::Namespace;

/// Body limit where none is configured: 1 MiB (`api.md` section 4).
pub const DEFAULT_MAX_BODY_BYTES: u64 = 1_048_576;

/// Everything that the configuration says of one namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamespaceRules {
    /// What is recorded at first use and compared ever after.
    pub definition: Definition,
    /// How long its leases may live.
    pub ttl: TtlBounds,
    /// Largest body, in bytes.
    pub max_body_bytes: u64,
}

impl Default for NamespaceRules {
    fn default() -> Self {
        Self {
            definition: Definition::default(),
            ttl: TtlBounds::default(),
            max_body_bytes: DEFAULT_MAX_BODY_BYTES,
        }
    }
}

/// The configured namespaces, and the rules of all others where others are allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Namespaces {
    named: BTreeMap<Namespace, NamespaceRules>,
    any: Option<NamespaceRules>,
}

impl Default for Namespaces {
    /// Without a configuration every name is a namespace with the default rules.
    fn default() -> Self {
        Self { named: BTreeMap::new(), any: Some(NamespaceRules::default()) }
    }
}

impl Namespaces {
    /// Named namespaces, and the rules of `"*"` where it is configured.
    #[must_use]
    pub const fn new(named: BTreeMap<Namespace, NamespaceRules>, any: Option<NamespaceRules>) -> Self {
        Self { named, any }
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

    /// Whether names that are not configured are namespaces too.
    #[must_use]
    pub const fn allows_any(&self) -> bool {
        self.any.is_some()
    }
}
