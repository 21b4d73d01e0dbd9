//! Three gateways in processes of their own over one database, with no coordination but its row locks.

mod definitions;
mod ends;
mod pauses;
mod races;

use crate::support::gateway::Process;
use crate::support::postgres::replica::Site;
use crate::support::postgres::{Fresh, needed};

/// Three replicas.
struct Three {
    database: Fresh,
    site: Site,
    replicas: Vec<Process>,
}

impl Three {
    async fn start(test: &str, rules: &str) -> Option<Self> {
        let database = needed(test).await?;
        // Their connections to a server that many tests share.
        let site = Site::new(&database.url, &format!("max_connections = 6\n{rules}"));
        let replicas = (0..3).map(|_| site.start()).collect();
        Some(Self { database, site, replicas })
    }

    fn bases(&self) -> Vec<&str> {
        self.replicas.iter().map(|replica| replica.base.as_str()).collect()
    }

    fn end(self) {
        for replica in self.replicas {
            assert_eq!(replica.terminate(), Some(0));
        }
    }
}
