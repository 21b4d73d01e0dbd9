//! What a namespace fixes for all its resources: policy, contract, issuer, store, scope.

use std::fmt;
use std::str::FromStr;

use super::counter::parse_decimal;
use super::upstream::Class;

/// What one generation means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Policy {
    /// One generation is one publication.
    Single,
    /// One generation is several ordered mutations.
    Ordered {
        /// Whether each sequence must be exactly one above the last, and the first 1.
        gapless: bool,
    },
    /// One generation is many edits; every one after the first carries `If-Match`.
    Session,
}

/// What ownership promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Contract {
    /// Once a position was admitted or advanced to, nothing below it is admitted.
    Observed,
    /// When an acquire is answered, nothing older is admitted or becomes authoritative.
    Immediate,
    /// `Immediate`, and no admission after expiry even without a successor.
    LeaseBound,
}

/// Where positions come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Issuer {
    /// The gateway's own leases, with sealed tokens.
    Gateway,
    /// A counter outside; a write may raise the floor.
    Trusted {
        /// The furthest that one write may raise it, where bounded.
        max_jump: Option<u64>,
    },
    /// A counter outside; only `advance` raises the floor.
    Registered,
}

/// Kind of backing store. Each has its own guarantee.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Store {
    /// Bytes kept in the gateway's own database.
    Document,
    /// A store behind HTTP that the gateway does not own.
    Http(Class),
}

impl Store {
    /// The word in the configuration and on the wire.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Document => "document",
            Self::Http(_) => "http",
        }
    }

    /// The guarantee class of `protocol.md` section 7.
    #[must_use]
    pub const fn guarantee(self) -> &'static str {
        match self {
            Self::Document => "G4",
            Self::Http(class) => class.guarantee(),
        }
    }

    /// The class, of a store behind HTTP.
    #[must_use]
    pub const fn class(self) -> Option<Class> {
        match self {
            Self::Document => None,
            Self::Http(class) => Some(class),
        }
    }
}

/// The definition of a namespace; it is recorded at first use and then compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Definition {
    /// What one generation means.
    pub policy: Policy,
    /// What ownership promises.
    pub contract: Contract,
    /// Where positions come from.
    pub issuer: Issuer,
    /// Where the effect goes.
    pub store: Store,
    /// How many segments after the namespace name the resource; 0 means all.
    pub scope: u16,
}

impl Default for Definition {
    /// What a gateway without a configuration file gives every namespace.
    fn default() -> Self {
        Self {
            policy: Policy::Single,
            contract: Contract::Immediate,
            issuer: Issuer::Gateway,
            store: Store::Document,
            scope: 0,
        }
    }
}

/// Why a definition promises what cannot be kept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DefinitionError {
    /// Nobody can act as the barrier when any write raises the floor.
    #[error(
        "contract \"immediate\" with an external issuer needs issuer {{ external = \"registered\" }}; use that or contract \"observed\""
    )]
    ImmediateNeedsRegistered,
    /// The gateway does not see the lease.
    #[error(
        "contract \"lease_bound\" needs issuer \"gateway\": the gateway does not see the leases of an external issuer"
    )]
    LeaseBoundNeedsGateway,
    /// Without a stamp nothing could be read back after a doubt.
    #[error(
        "class \"conditional\" needs a stamp; write stamp = {{ header = \"x-fencing-stamp\" }}, stamp = {{ json = \"/_fencegate\" }} or stamp = \"pointer\""
    )]
    StampMissing,
    /// Only cells have stamps.
    #[error("stamp belongs to class \"conditional\"; leave it out")]
    StampWithoutCells,
    /// One cell, one resource.
    #[error("scope with class \"conditional\" is not possible: one cell is one resource; leave scope out")]
    ScopeWithCells,
}

impl Definition {
    /// Refuses combinations that `protocol.md` section 4 (issuers) calls configuration errors.
    ///
    /// # Errors
    /// [`DefinitionError`] says which and what to write instead.
    pub const fn check(&self) -> Result<(), DefinitionError> {
        match (self.issuer, self.contract) {
            (Issuer::Trusted { .. }, Contract::Immediate) => Err(DefinitionError::ImmediateNeedsRegistered),
            (Issuer::Trusted { .. } | Issuer::Registered, Contract::LeaseBound) => {
                Err(DefinitionError::LeaseBoundNeedsGateway)
            }
            (Issuer::Gateway | Issuer::Registered | Issuer::Trusted { .. }, _) => Ok(()),
        }
    }

    /// Whether acquiring or advancing raises the floor in the same transaction.
    #[must_use]
    pub const fn raises_floor_on_acquire(&self) -> bool {
        match self.contract {
            Contract::Observed => false,
            Contract::Immediate | Contract::LeaseBound => true,
        }
    }
}

impl Policy {
    /// The word on the wire.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Single => "single",
            Self::Ordered { .. } => "ordered",
            Self::Session => "session",
        }
    }
}

impl Contract {
    /// What holds where nothing is configured. `immediate` costs an atomic store of the gateway's own nothing; an external
    /// issuer may be unable to keep it, and an upstream has to be asked at each acquire, so both are asked for by name.
    #[must_use]
    pub const fn default_of(issuer: Issuer, store: Store) -> Self {
        match (issuer, store) {
            (Issuer::Gateway, Store::Document) => Self::Immediate,
            (Issuer::Gateway, Store::Http(_)) | (Issuer::Trusted { .. } | Issuer::Registered, _) => {
                Self::Observed
            }
        }
    }

    /// The word on the wire.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Observed => "observed",
            Self::Immediate => "immediate",
            Self::LeaseBound => "lease_bound",
        }
    }
}

impl Issuer {
    /// Whether positions come from outside.
    #[must_use]
    pub const fn is_external(self) -> bool {
        match self {
            Self::Gateway => false,
            Self::Trusted { .. } | Self::Registered => true,
        }
    }

    /// The word on the wire and in rows.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Gateway => "gateway",
            Self::Trusted { .. } => "trusted",
            Self::Registered => "registered",
        }
    }
}

/// The text that a row holds, and that a difference is shown with.
impl fmt::Display for Definition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gapless = match self.policy {
            Policy::Ordered { gapless: true } => "+gapless",
            Policy::Ordered { gapless: false } | Policy::Single | Policy::Session => "",
        };
        let jump = match self.issuer {
            Issuer::Trusted { max_jump: Some(max) } => format!("+{max}"),
            Issuer::Trusted { max_jump: None } | Issuer::Gateway | Issuer::Registered => String::new(),
        };
        let (plus, class) = match self.store {
            Store::Document => ("", ""),
            Store::Http(class) => ("+", class.word()),
        };
        write!(
            f,
            "store={}{plus}{class} policy={}{gapless} contract={} issuer={}{jump} scope={}",
            self.store.word(),
            self.policy.word(),
            self.contract.word(),
            self.issuer.word(),
            self.scope
        )
    }
}

/// A recorded definition that this version cannot read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the recorded definition {0:?} is not one that this version knows")]
pub struct UnknownDefinition(pub String);

impl FromStr for Definition {
    type Err = UnknownDefinition;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        read_definition(text).ok_or_else(|| UnknownDefinition(text.to_owned()))
    }
}

fn read_definition(text: &str) -> Option<Definition> {
    let mut words = text.split(' ');
    let mut value = |key: &str| words.next()?.strip_prefix(key)?.strip_prefix('=');
    let store = match value("store")? {
        "document" => Store::Document,
        other => Store::Http(Class::from_word(other.strip_prefix("http+")?)?),
    };
    let policy = match value("policy")? {
        "single" => Policy::Single,
        "ordered" => Policy::Ordered { gapless: false },
        "ordered+gapless" => Policy::Ordered { gapless: true },
        "session" => Policy::Session,
        _ => return None,
    };
    let contract = match value("contract")? {
        "observed" => Contract::Observed,
        "immediate" => Contract::Immediate,
        "lease_bound" => Contract::LeaseBound,
        _ => return None,
    };
    let issuer = match value("issuer")? {
        "gateway" => Issuer::Gateway,
        "registered" => Issuer::Registered,
        "trusted" => Issuer::Trusted { max_jump: None },
        other => Issuer::Trusted { max_jump: Some(parse_decimal(other.strip_prefix("trusted+")?).ok()?) },
    };
    let scope = value("scope")?.parse().ok()?;
    if words.next().is_some() {
        return None;
    }
    Some(Definition { policy, contract, issuer, store, scope })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_promises_only_what_can_be_kept() {
        // Broken: a contract that nobody can keep is accepted. Must hold: an external issuer is `observed`, a registered one
        // may be `immediate`; only the gateway's own leases bind, and only a contract that asks for it raises at an acquire.
        use Contract::{Immediate, LeaseBound, Observed};
        let trusted = Issuer::Trusted { max_jump: None };
        let check = |issuer, contract| Definition { contract, issuer, ..Definition::default() }.check();
        for contract in [Observed, Immediate, LeaseBound] {
            assert_eq!(check(Issuer::Gateway, contract), Ok(()));
            assert_eq!(check(trusted, contract).is_ok(), contract == Observed);
            assert_eq!(check(Issuer::Registered, contract).is_ok(), contract != LeaseBound);
            let definition = Definition { contract, ..Definition::default() };
            assert_eq!(definition.raises_floor_on_acquire(), contract != Observed);
        }
        assert_eq!(check(trusted, Immediate), Err(DefinitionError::ImmediateNeedsRegistered));
        assert_eq!(check(trusted, LeaseBound), Err(DefinitionError::LeaseBoundNeedsGateway));
        let http = Store::Http(Class::Serial);
        assert_eq!(Contract::default_of(Issuer::Gateway, Store::Document), Immediate);
        for (issuer, store) in
            [(Issuer::Gateway, http), (trusted, Store::Document), (Issuer::Registered, http)]
        {
            assert_eq!(Contract::default_of(issuer, store), Observed);
        }
        assert_eq!((Store::Document.class(), http.class()), (None, Some(Class::Serial)));
        assert!(!Issuer::Gateway.is_external() && trusted.is_external() && Issuer::Registered.is_external());
    }

    #[test]
    fn a_recorded_definition_reads_back_as_itself() {
        let policies = [
            Policy::Single,
            Policy::Ordered { gapless: false },
            Policy::Ordered { gapless: true },
            Policy::Session,
        ];
        let issuers = [
            Issuer::Gateway,
            Issuer::Registered,
            Issuer::Trusted { max_jump: None },
            Issuer::Trusted { max_jump: Some(7) },
        ];
        let classes = Class::ALL.into_iter().map(Store::Http);
        for store in std::iter::once(Store::Document).chain(classes) {
            for policy in policies {
                for contract in [Contract::Observed, Contract::Immediate, Contract::LeaseBound] {
                    for issuer in issuers {
                        let definition = Definition { policy, contract, issuer, store, scope: 3 };
                        assert_eq!(definition.to_string().parse(), Ok(definition));
                    }
                }
            }
        }
        assert!("store=document".parse::<Definition>().is_err());
    }
}
