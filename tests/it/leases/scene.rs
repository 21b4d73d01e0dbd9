//! Where a story takes place: gateways in processes of their own over one database.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fencegate::ledger::wakeup::instant;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::client::{Answer, Client};
use crate::support::gateway::Process;
use crate::support::postgres::replica::Site;
use crate::support::postgres::{self, Fresh};

/// Which gateways over which database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// One over the embedded database.
    Sqlite,
    /// One over PostgreSQL.
    Postgres,
    /// Three over one PostgreSQL.
    Replicas,
}

/// Makes a test of its own of each of these stories in each of these shapes: `sqlite::story`, `postgres::story`,
/// `replicas::story`.
macro_rules! told_on {
    ([$($module:ident $shape:ident),+], $stories:tt) => {
        $($crate::leases::scene::told_on!(@one $module $shape $stories);)+
    };
    (@one $module:ident $shape:ident [$($story:ident),+ $(,)?]) => {
        mod $module {
            use $crate::leases::scene::Shape;

            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $story() {
                    if Shape::$shape.is_here(concat!(module_path!(), "::", stringify!($story))) {
                        super::$story(Shape::$shape).await;
                    }
                }
            )+
        }
    };
}
pub(crate) use told_on;

impl Shape {
    /// Whether it can be had. `test` is a path in this crate.
    pub(crate) fn is_here(self, test: &str) -> bool {
        match self {
            Self::Sqlite => true,
            Self::Postgres | Self::Replicas => {
                postgres::needed_binaries(test.trim_start_matches("it::")).is_some()
            }
        }
    }

    const fn gateways(self) -> usize {
        match self {
            Self::Sqlite | Self::Postgres => 1,
            Self::Replicas => 3,
        }
    }
}

/// Short leases are allowed, so that an expiry can be waited for.
pub(crate) const RACE: &str = "[namespaces.jobs]\nlease = { ttl_ms = 30000, min_ttl_ms = 50 }\n";

/// The same in order.
pub(crate) const FIFO: &str =
    "[namespaces.jobs]\nlease = { ttl_ms = 30000, min_ttl_ms = 50, order = \"fifo\" }\n";

/// Gateways at work.
pub(crate) struct Scene {
    pub(crate) database: Option<Fresh>,
    pub(crate) site: Site,
    pub(crate) gateways: Vec<Process>,
}

impl Scene {
    pub(crate) async fn start(shape: Shape, rules: &str) -> Self {
        let (database, site) = match shape {
            Shape::Sqlite => (None, Site::new("sqlite://fencegate.db", rules)),
            Shape::Postgres | Shape::Replicas => {
                let database = postgres::one_more().await;
                // Their connections to a server that many tests share.
                let site = Site::new(&database.url, &format!("max_connections = 6\n{rules}"));
                (Some(database), site)
            }
        };
        let gateways = (0..shape.gateways()).map(|_| site.start()).collect();
        Self { database, site, gateways }
    }

    /// A client of one of them; with one gateway always the same.
    pub(crate) fn client(&self, number: usize) -> Client {
        self.gateways[number % self.gateways.len()].client()
    }

    /// So many clients, spread over all gateways.
    pub(crate) fn clients(&self, count: usize) -> Vec<Client> {
        (0..count).map(|number| self.client(number)).collect()
    }

    /// kill -9 of one of them, and another in its place.
    pub(crate) fn replace(&mut self, number: usize) {
        let number = number % self.gateways.len();
        let old = self.gateways.remove(number);
        old.kill();
        self.gateways.insert(number, self.site.start());
    }

    /// Ends them in good order. None may have met rows that contradict the rules, or have looked in vain.
    pub(crate) fn end(self) {
        for gateway in self.gateways {
            let warnings = gateway.warnings();
            let bad =
                |line: &&String| ["contradict", "cannot be looked"].iter().any(|word| line.contains(word));
            assert_eq!(warnings.iter().find(bad), None, "{warnings:?}");
            assert_eq!(gateway.terminate(), Some(0));
        }
    }
}

/// An acquire of one resource.
pub(crate) fn wanted(resource: &str, ttl_ms: u64, wait_ms: u64) -> Value {
    json!({"resource": resource, "ttl_ms": ttl_ms, "wait_ms": wait_ms, "request_id": request_id()})
}

/// One that nobody has used.
pub(crate) fn request_id() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(1);
    Uuid::from_u128(u128::from(COUNT.fetch_add(1, Ordering::SeqCst))).to_string()
}

pub(crate) async fn acquire(client: &Client, wanted: &Value) -> Answer {
    client.post("/v1/leases", wanted).await
}

/// The id of a lease in the answer to its acquire.
pub(crate) fn id_of(lease: &Value) -> &str {
    lease["acquisition_id"].as_str().unwrap()
}

pub(crate) async fn release(client: &Client, lease: &Value) {
    client.delete(&format!("/v1/leases/{}", id_of(lease))).await.expect(200);
}

/// Takes a place in the queue and goes away in good order: the place is kept for the repeat. Gives the place.
pub(crate) async fn take_place(client: &Client, wanted: &Value) -> u64 {
    let mut brief = wanted.clone();
    brief["wait_ms"] = 1.into();
    let problem = acquire(client, &brief).await.refused(409, "wait_timeout", "none");
    assert_eq!(problem["queue_position"], problem["blockers"][0]["queue_position"]);
    problem["queue_position"].as_u64().unwrap()
}

/// The one in the middle.
pub(crate) fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// What a busy machine adds to a bound: twenty times what a call takes that does nothing.
pub(crate) async fn slack(client: &Client) -> Duration {
    let mut times = Vec::new();
    for _ in 0..21 {
        let began = instant();
        client.get("/livez").await;
        times.push(began.elapsed());
    }
    median(&mut times) * 20
}

/// Chance that is the same in every run.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    /// A while of less than so many microseconds.
    pub(crate) async fn pause(&mut self, below_us: u64) {
        tokio::time::sleep(Duration::from_micros(self.below(below_us))).await;
    }
}
