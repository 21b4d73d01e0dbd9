//! A real PostgreSQL, started by the tests themselves and ended with them.
//!
//! [`needed`] gives a fresh database on a server that all tests of this process share; [`cluster::Cluster`] is a server
//! of one's own, for tests that stop, kill or starve it. Nothing here ever speaks to a server that happens to be there.

pub(crate) mod binaries;
mod clock;
pub(crate) mod cluster;
pub(crate) mod files;
pub(crate) mod load;
pub(crate) mod missing;
pub(crate) mod patience;
pub(crate) mod pooler;
pub(crate) mod proxy;
pub(crate) mod replica;
pub(crate) mod server;
pub(crate) mod shuffler;
pub(crate) mod watched;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use binaries::Binaries;
use cluster::Cluster;

/// A fresh, empty database that belongs to the role `gateway`.
#[derive(Debug, Clone)]
pub(crate) struct Fresh {
    pub(crate) name: String,
    /// As the role `gateway`, which is no superuser.
    pub(crate) url: String,
    /// As the superuser.
    pub(crate) admin: String,
}

/// A fresh database on the shared server. None, and the test must return at once, when there is no PostgreSQL and
/// `FENCEGATE_TEST_WITHOUT_POSTGRES` allows that; without it the test fails.
///
/// `test` is the test's name as it stands in [`missing::NEED_POSTGRES`].
pub(crate) async fn needed(test: &str) -> Option<Fresh> {
    Some(fresh(shared(needed_binaries(test)?)).await)
}

/// What a test needs to start servers of its own; the same rule as for [`needed`].
pub(crate) fn needed_binaries(test: &str) -> Option<&'static Binaries> {
    missing::or_missing(test, Binaries::found())
}

/// One more database on a server.
pub(crate) async fn fresh(cluster: &Cluster) -> Fresh {
    static COUNT: AtomicU64 = AtomicU64::new(1);
    let name = format!("test_{}", COUNT.fetch_add(1, Ordering::SeqCst));
    cluster.create_database(&name).await;
    Fresh { url: cluster.url(&name), admin: cluster.admin_url(&name), name }
}

/// A further fresh database on the shared server, for a test that has asked for PostgreSQL already.
pub(crate) async fn one_more() -> Fresh {
    fresh(shared(Binaries::found().expect("the test asked whether PostgreSQL is here"))).await
}

/// The server that the tests of this process share.
fn shared(binaries: &'static Binaries) -> &'static Cluster {
    static SHARED: OnceLock<Cluster> = OnceLock::new();
    SHARED.get_or_init(|| Cluster::start(binaries, &[("max_connections", "300")]))
}
