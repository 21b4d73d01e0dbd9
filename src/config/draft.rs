//! What the sources said, before it is known whether it fits together.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use tracing_subscriber::EnvFilter;
use zeroize::Zeroizing;

use super::Database;
use super::database;
use super::given::{Given, Slot};
use super::jwt::JwtDraft;
use super::limits::{LimitsDraft, QuotaDraft};
use super::mistake::{Mistakes, Place};
use super::principals::PrincipalsDraft;
use super::store::StoreDraft;
use super::tls::TlsDraft;
use super::tracing::TracingDraft;
use crate::domain::counter;
use crate::domain::lease::WaitOrder;
use crate::domain::policy::Contract;
use crate::domain::resource::Namespace;
use crate::domain::time::Millis;
use crate::limits;

/// Everything that was said.
#[derive(Default)]
pub(super) struct Draft {
    pub(super) listen: Slot<SocketAddr>,
    pub(super) database: Slot<Database>,
    pub(super) seal_key_file: Slot<PathBuf>,
    pub(super) seal_key: Slot<Zeroizing<String>>,
    /// None: it is switched off.
    pub(super) witness: Slot<Option<PathBuf>>,
    pub(super) max_connections: Slot<u32>,
    pub(super) max_body_bytes: Slot<u64>,
    pub(super) operation_retention: Slot<Millis>,
    pub(super) tracing: TracingDraft,
    pub(super) log: Slot<String>,
    pub(super) drain_delay: Slot<Millis>,
    pub(super) drain_timeout: Slot<Millis>,
    /// By name; `None` is `"*"`.
    pub(super) namespaces: BTreeMap<Option<Namespace>, NamespaceDraft>,
    pub(super) limits: LimitsDraft,
    pub(super) principals: PrincipalsDraft,
    pub(super) jwt: JwtDraft,
    pub(super) tls: TlsDraft,
    pub(super) plaintext: Slot<bool>,
}

/// What was said of one namespace.
pub(super) struct NamespaceDraft {
    /// Where it was first spoken of.
    pub(super) place: Place,
    pub(super) store: StoreDraft,
    pub(super) policy: Slot<PolicyWord>,
    pub(super) gapless: Slot<bool>,
    pub(super) contract: Slot<Contract>,
    pub(super) issuer: Slot<IssuerWord>,
    pub(super) max_jump: Slot<u64>,
    pub(super) scope: Slot<u16>,
    pub(super) max_body_bytes: Slot<u64>,
    pub(super) ttl_ms: Slot<u64>,
    pub(super) min_ttl_ms: Slot<u64>,
    pub(super) max_ttl_ms: Slot<u64>,
    pub(super) lock_delay_ms: Slot<u64>,
    pub(super) max_hold_ms: Slot<u64>,
    pub(super) order: Slot<WaitOrder>,
    pub(super) quota: QuotaDraft,
}

/// The policy without its option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PolicyWord {
    Single,
    Ordered,
    Session,
}

/// The issuer without its bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IssuerWord {
    Gateway,
    Trusted,
    Registered,
}

/// A log filter. A word that is none would be noticed only when something should have been logged.
fn log(given: &Given<'_>, mistakes: &mut Mistakes) -> Option<String> {
    let text = given.text(mistakes)?;
    match EnvFilter::try_new(text) {
        Ok(_) => Some(text.to_owned()),
        Err(error) => {
            given.wrong(mistakes, format!("is not a log filter ({error}); write a level, such as \"info\""));
            None
        }
    }
}

impl Draft {
    /// Takes one key of the top, tables excepted. `false`: there is no such key.
    pub(super) fn take(&mut self, name: &str, given: &Given<'_>, mistakes: &mut Mistakes) -> bool {
        match name {
            "listen" => self.listen = Slot::of(given, database::listen(given, mistakes)),
            "database" => self.database = Slot::of(given, database::database(given, mistakes)),
            "seal_key_file" => {
                let path = given.text(mistakes).map(|text| given.origin.base().join(text));
                self.seal_key_file = Slot::of(given, path);
            }
            // Empty is a value here: it goes without one.
            "witness" if given.item.as_str() == Some("") => self.witness = Slot::of(given, Some(None)),
            "witness" => {
                let path = given.text(mistakes).map(|text| Some(given.origin.base().join(text)));
                self.witness = Slot::of(given, path);
            }
            "max_connections" => {
                let range = u64::from(limits::POSTGRES_CONNECTIONS_LEAST)
                    ..=u64::from(limits::POSTGRES_CONNECTIONS_GREATEST);
                let number = given.whole(&range, mistakes).and_then(|number| u32::try_from(number).ok());
                self.max_connections = Slot::of(given, number);
            }
            "plaintext" => self.plaintext = Slot::of(given, given.truth(mistakes)),
            "max_body_bytes" => {
                self.max_body_bytes = Slot::of(given, given.whole(&(1..=limits::MAX_BODY_BYTES), mistakes));
            }
            "operation_retention" => {
                let range = limits::OPERATION_RETENTION_LEAST_MS..=limits::OPERATION_RETENTION_GREATEST_MS;
                self.operation_retention = Slot::of(given, given.span(&range, "1h to 3650d", mistakes));
            }
            "log" => self.log = Slot::of(given, log(given, mistakes)),
            "drain_delay" => {
                let range = 0..=limits::DRAIN_DELAY_GREATEST_MS;
                self.drain_delay = Slot::of(given, given.span(&range, "0s to 5m", mistakes));
            }
            "drain_timeout" => {
                let range = limits::DRAIN_TIMEOUT_LEAST_MS..=limits::DRAIN_TIMEOUT_GREATEST_MS;
                self.drain_timeout = Slot::of(given, given.span(&range, "1s to 10m", mistakes));
            }
            _ => return false,
        }
        true
    }

    /// The draft of a namespace, made when it is first spoken of. `None`: not a namespace, which was noted.
    pub(super) fn namespace(
        &mut self,
        name: &str,
        at: &Place,
        key: &str,
        mistakes: &mut Mistakes,
    ) -> Option<&mut NamespaceDraft> {
        let name = match name {
            "*" => None,
            _ => match Namespace::parse(name) {
                Ok(namespace) => Some(namespace),
                Err(error) => {
                    mistakes.note(at, key, error.to_string());
                    return None;
                }
            },
        };
        Some(self.namespaces.entry(name).or_insert_with(|| NamespaceDraft::new(at.clone())))
    }
}

impl NamespaceDraft {
    fn new(place: Place) -> Self {
        Self {
            place,
            store: StoreDraft::default(),
            policy: Slot::Absent,
            gapless: Slot::Absent,
            contract: Slot::Absent,
            issuer: Slot::Absent,
            max_jump: Slot::Absent,
            scope: Slot::Absent,
            max_body_bytes: Slot::Absent,
            ttl_ms: Slot::Absent,
            min_ttl_ms: Slot::Absent,
            max_ttl_ms: Slot::Absent,
            lock_delay_ms: Slot::Absent,
            max_hold_ms: Slot::Absent,
            order: Slot::Absent,
            quota: QuotaDraft::default(),
        }
    }

    /// Takes one key of `[namespaces.NAME]`, `store`, `issuer` and `lease` excepted. `false`: there is no such key.
    pub(super) fn take(&mut self, name: &str, given: &Given<'_>, mistakes: &mut Mistakes) -> bool {
        match name {
            "policy" => self.policy = Slot::of(given, given.word(&POLICIES, &[], mistakes)),
            "gapless" => self.gapless = Slot::of(given, given.truth(mistakes)),
            "contract" => self.contract = Slot::of(given, given.word(&CONTRACTS, &[], mistakes)),
            "scope" => {
                let scope = given.whole(&(0..=u64::from(limits::SCOPE_GREATEST)), mistakes);
                self.scope = Slot::of(given, scope.and_then(|scope| u16::try_from(scope).ok()));
            }
            "max_body_bytes" => {
                self.max_body_bytes = Slot::of(given, given.whole(&(1..=limits::MAX_BODY_BYTES), mistakes));
            }
            _ => return false,
        }
        true
    }

    /// Takes `issuer = "gateway"`; the table form is taken key by key.
    pub(super) fn take_issuer_word(&mut self, given: &Given<'_>, mistakes: &mut Mistakes) {
        let word = match given.item.as_str() {
            Some("gateway") => Some(IssuerWord::Gateway),
            Some(external @ ("trusted" | "registered")) => {
                given.wrong(mistakes, format!("write {{ external = {external:?} }}"));
                None
            }
            Some(_) | None => {
                let forms = "\"gateway\" and { external = \"trusted\" } and { external = \"registered\" }";
                given.wrong(mistakes, format!("is not known. Allowed: {forms}"));
                None
            }
        };
        self.issuer = Slot::of(given, word);
        self.max_jump = Slot::Absent;
    }

    /// Takes one key of `issuer = { … }`. `false`: there is no such key.
    pub(super) fn take_issuer(&mut self, name: &str, given: &Given<'_>, mistakes: &mut Mistakes) -> bool {
        match name {
            "external" => self.issuer = Slot::of(given, given.word(&EXTERNAL, &[], mistakes)),
            "max_jump" => self.max_jump = Slot::of(given, given.whole(&(1..=counter::MAX), mistakes)),
            _ => return false,
        }
        true
    }

    /// Takes one key of `lease = { … }`. `false`: there is no such key.
    pub(super) fn take_lease(&mut self, name: &str, given: &Given<'_>, mistakes: &mut Mistakes) -> bool {
        let ttl = limits::TTL_MS_LEAST..=limits::TTL_MS_GREATEST;
        let (slot, range) = match name {
            "ttl_ms" => (&mut self.ttl_ms, ttl),
            "min_ttl_ms" => (&mut self.min_ttl_ms, ttl),
            "max_ttl_ms" => (&mut self.max_ttl_ms, ttl),
            "lock_delay_ms" => (&mut self.lock_delay_ms, 0..=limits::TTL_MS_GREATEST),
            "max_hold_ms" => (&mut self.max_hold_ms, 0..=limits::HOLD_MS_GREATEST),
            "order" => {
                self.order = Slot::of(given, given.word(&ORDERS, &[], mistakes));
                return true;
            }
            _ => return false,
        };
        *slot = Slot::of(given, given.whole(&range, mistakes));
        true
    }
}

const POLICIES: [(&str, PolicyWord); 3] =
    [("single", PolicyWord::Single), ("ordered", PolicyWord::Ordered), ("session", PolicyWord::Session)];

const ORDERS: [(&str, WaitOrder); 2] = [("race", WaitOrder::Race), ("fifo", WaitOrder::Fifo)];

const CONTRACTS: [(&str, Contract); 3] = [
    ("observed", Contract::Observed),
    ("immediate", Contract::Immediate),
    ("lease_bound", Contract::LeaseBound),
];

const EXTERNAL: [(&str, IssuerWord); 2] =
    [("trusted", IssuerWord::Trusted), ("registered", IssuerWord::Registered)];
