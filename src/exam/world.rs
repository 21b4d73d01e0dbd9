//! The parties of an exam, and who speaks to whom through which proxy.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use tokio::sync::Mutex;
use tokio::time::{sleep, timeout};

use super::Plan;
use super::database::Server;
use super::events::{Class, Policy, Rules};
use super::gateways::{Gateway, Recipe, clock_library};
use super::history::Recorder;
use super::proxy::{Link, Passes};
use super::stores::{STAMP, Store};
use super::wire::OPERATIONS;
use crate::bench::free_address;
use crate::limits::{EXAM_LOOK, EXAM_START};

/// Where the histories' resources are. Name, class, policy, contract.
const NAMESPACES: [(&str, Class, Policy, &str); 8] = [
    ("papers", Class::Document, Policy::Single, "immediate"),
    ("ledger", Class::Document, Policy::Ordered, "immediate"),
    ("pairs", Class::Document, Policy::Single, "immediate"),
    ("edits", Class::Document, Policy::Session, "lease_bound"),
    ("cells", Class::Conditional, Policy::Single, "immediate"),
    ("orders", Class::FenceAware, Policy::Ordered, "immediate"),
    ("payments", Class::Idempotent, Policy::Single, "immediate"),
    ("printer", Class::Serial, Policy::Single, "observed"),
];

/// A gateway, how it is started, and the proxies on its sides.
pub(super) struct Replica {
    /// None while it is down.
    pub(super) gateway: Mutex<Option<Gateway>>,
    pub(super) recipe: Recipe,
    /// Workers speak to it through this one.
    pub(super) door: Link,
    /// It speaks to its database through this one, where that is a server.
    pub(super) database: Option<Link>,
}

/// All parties.
pub(super) struct World {
    pub(super) home: PathBuf,
    pub(super) recorder: Arc<Recorder>,
    pub(super) rules: Vec<Rules>,
    pub(super) replicas: Vec<Replica>,
    pub(super) server: Option<Mutex<Server>>,
    pub(super) stores: Vec<Store>,
    /// Before each of the stores.
    pub(super) ways: Vec<Link>,
    pub(super) fenced: bool,
}

impl World {
    /// Starts everybody.
    pub(super) async fn start(plan: &Plan, recorder: Arc<Recorder>) -> anyhow::Result<Self> {
        let rules: Vec<Rules> = NAMESPACES.iter().map(|entry| rules(entry, plan.fenced)).collect();
        let (stores, ways) = stores(&rules, &recorder).await?;
        let site = plan.out.join("site");
        fs::create_dir(&site).with_context(|| format!("cannot make {}", site.display()))?;
        let server = if plan.postgres {
            Some(Server::start(plan.out.join("postgres"), plan.gateway.clone()).await?)
        } else {
            None
        };
        fs::write(site.join("fencegate.toml"), configuration(plan, &rules, &ways))
            .context("cannot write the configuration")?;
        let mut replicas = Vec::new();
        for index in 0..plan.replicas {
            let database = match &server {
                None => None,
                Some(server) => {
                    let name = format!("gateway {index} to database");
                    Some(Link::before(server.port, name, Passes::Bytes, recorder.clone()).await?)
                }
            };
            replicas.push(replica(plan, &site, index, database, &recorder).await?);
        }
        let home = plan.out.clone();
        let server = server.map(Mutex::new);
        Ok(Self { home, recorder, rules, replicas, server, stores, ways, fenced: plan.fenced })
    }

    /// The store of a namespace.
    pub(super) fn store_of(&self, resource: &str) -> Option<&Store> {
        let name = resource.split('/').next()?;
        let class = self.rules.iter().find(|rules| rules.name == name)?.class;
        self.stores.iter().find(|store| store.class == class)
    }

    /// Whether a resource is two of which every write changes both or none.
    pub(super) fn is_paired(&self, resource: &str) -> bool {
        let name = resource.split('/').next().unwrap_or_default();
        self.rules.iter().any(|rules| rules.paired && rules.name == name)
    }

    /// Where writes past the gateway go.
    pub(super) fn past_the_gateway(&self) -> Option<u16> {
        let found = self.stores.iter().zip(&self.ways).find(|(store, _)| store.class == Class::Unfenced);
        found.map(|(_, way)| way.port)
    }

    /// Every proxy.
    pub(super) fn links(&self) -> Vec<&Link> {
        let doors = self.replicas.iter().map(|replica| &replica.door);
        let databases = self.replicas.iter().filter_map(|replica| replica.database.as_ref());
        doors.chain(databases).chain(&self.ways).collect()
    }

    /// Calls of workers that are at a gateway.
    pub(super) fn at_gateways(&self) -> u64 {
        self.replicas.iter().map(|replica| replica.door.waiting()).sum()
    }

    /// Whether a proxy keeps a request about a resource.
    pub(super) fn keeps(&self, resource: &str) -> bool {
        self.links().iter().any(|link| link.keeps(resource))
    }

    /// Starts a gateway for the first time. Nothing is wrong with the world yet: one that does not start never will.
    pub(super) async fn begin(&self, index: usize) -> anyhow::Result<()> {
        let replica = self.replicas.get(index).context("no such replica")?;
        let gateway = Gateway::start(&replica.recipe, index).await?;
        replica.door.lead_to(gateway.port);
        *replica.gateway.lock().await = Some(gateway);
        Ok(())
    }

    /// Starts a gateway that is down.
    pub(super) async fn raise(&self, index: usize) -> anyhow::Result<()> {
        let replica = self.replicas.get(index).context("no such replica")?;
        let mut place = replica.gateway.lock().await;
        if place.as_mut().is_some_and(|gateway| !gateway.has_ended()) {
            return Ok(());
        }
        // While the network torments it, it may not reach its database, and then does not start.
        let mut why = None;
        let starting = async {
            loop {
                match Gateway::start(&replica.recipe, index).await {
                    Ok(gateway) => return gateway,
                    Err(error) => why = Some(error),
                }
                sleep(EXAM_LOOK).await;
            }
        };
        let Ok(gateway) = timeout(EXAM_START, starting).await else {
            let why = why.unwrap_or_else(|| anyhow!("it does not become ready"));
            let home = replica.recipe.home.display();
            return Err(why.context(format!("gateway {index} cannot be started again; see {home}")));
        };
        replica.door.lead_to(gateway.port);
        *place = Some(gateway);
        Ok(())
    }

    /// Ends everybody. Says which gateways did not end in good order.
    pub(super) async fn stop(&self) -> anyhow::Result<Vec<String>> {
        let mut unclean = Vec::new();
        for (index, replica) in self.replicas.iter().enumerate() {
            if let Some(gateway) = replica.gateway.lock().await.take()
                && !gateway.terminate().await?
            {
                unclean.push(format!("gateway {index} did not end in good order"));
            }
        }
        if let Some(server) = &self.server {
            server.lock().await.stop().await?;
        }
        Ok(unclean)
    }
}

fn rules((name, class, policy, contract): &(&str, Class, Policy, &str), fenced: bool) -> Rules {
    // Past the gateway there is one store, and nothing of classes.
    let class = if fenced { *class } else { Class::Unfenced };
    let paired = fenced && *name == "pairs";
    Rules { name: (*name).to_owned(), class, policy: *policy, contract: (*contract).to_owned(), paired }
}

async fn stores(rules: &[Rules], recorder: &Arc<Recorder>) -> anyhow::Result<(Vec<Store>, Vec<Link>)> {
    let (mut stores, mut ways) = (Vec::new(), Vec::new());
    for rule in rules {
        let known = stores.iter().any(|store: &Store| store.class == rule.class);
        if rule.class == Class::Document || known {
            continue;
        }
        // The one store past the gateway holds the resources of all namespaces under their whole names.
        let below = if rule.class == Class::Unfenced { "" } else { &rule.name };
        let store = Store::start(rule.class, below, recorder.clone()).await?;
        let (passes, name) = match rule.class {
            // No promise holds of a store that remembers nothing when the network makes two requests of one.
            Class::Serial => (Passes::Bytes, format!("gateways to {}", rule.name)),
            Class::Unfenced => (Passes::CallsOfWorkers, "workers past the gateways".to_owned()),
            Class::Document | Class::Conditional | Class::FenceAware | Class::Idempotent => {
                (Passes::Requests, format!("gateways to {}", rule.name))
            }
        };
        ways.push(Link::before(store.port, name, passes, recorder.clone()).await?);
        stores.push(store);
    }
    Ok((stores, ways))
}

async fn replica(
    plan: &Plan,
    site: &Path,
    index: usize,
    database: Option<Link>,
    recorder: &Arc<Recorder>,
) -> anyhow::Result<Replica> {
    let url = match &database {
        None => format!("sqlite://{}", site.join("fencegate.db").display()),
        Some(link) => format!("postgres://fencegate@127.0.0.1:{}/postgres", link.port),
    };
    // SQLite's clock is the gateway's own, and a lease may then end early; PostgreSQL's is not, and nothing may change.
    let clock = clock_library()
        .filter(|_| plan.postgres)
        .map(|library| (library, site.join(format!("clock-{index}"))));
    if let Some((_, shift)) = &clock {
        fs::write(shift, "+0").context("cannot write a clock's shift")?;
    }
    let recipe = Recipe { program: plan.gateway.clone(), home: site.to_owned(), database: url, clock };
    // Nobody listens there until it is raised.
    let nowhere = free_address()?.port();
    let name = format!("workers to gateway {index}");
    let door = Link::before(nowhere, name, Passes::CallsOfWorkers, recorder.clone()).await?;
    Ok(Replica { gateway: Mutex::new(None), recipe, door, database })
}

fn configuration(plan: &Plan, rules: &[Rules], ways: &[Link]) -> String {
    let mut text = String::from("seal_key_file = \"fencegate.key\"\nwitness = \"fencegate.witness\"\n");
    if plan.postgres {
        text.push_str("max_connections = 6\n");
    }
    let mut ways = ways.iter();
    for rule in rules {
        let policy = match rule.policy {
            Policy::Single => "single",
            Policy::Ordered => "ordered",
            Policy::Session => "session",
        };
        let class = match rule.class {
            Class::Document | Class::Unfenced => None,
            Class::Conditional => {
                Some(format!("class = \"conditional\", stamp = {{ header = \"{STAMP}\" }}"))
            }
            Class::FenceAware => Some("class = \"fence_aware\"".to_owned()),
            // These two tell a store nothing of an operation: the exam's own header does, so that it can write it down.
            Class::Idempotent => {
                Some(format!("class = \"idempotent\", forward_headers = [\"{OPERATIONS}\"]"))
            }
            Class::Serial => Some(format!("class = \"serial\", forward_headers = [\"{OPERATIONS}\"]")),
        };
        // The proxies stand in the order of the namespaces that have a store.
        let store = class.and_then(|class| Some((class, ways.next()?.port))).map_or_else(
            String::new,
            |(class, port)| {
                let address = format!("http = \"http://127.0.0.1:{port}/\"");
                format!("store = {{ {address}, {class}, timeout_ms = 600, connect_timeout_ms = 300 }}\n")
            },
        );
        let name = &rule.name;
        let contract = &rule.contract;
        let lease = "lease = { ttl_ms = 700, min_ttl_ms = 100, max_ttl_ms = 60000 }";
        let table = format!(
            "\n[namespaces.{name}]\npolicy = \"{policy}\"\ncontract = \"{contract}\"\n{lease}\n{store}"
        );
        text.push_str(&table);
    }
    text
}
