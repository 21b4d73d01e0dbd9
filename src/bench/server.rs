//! The PostgreSQL server under test: a given one or one of this run's own, its databases, and what it says of itself.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use reqwest::Url;
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection as _};
use tokio::time::{sleep, timeout};

use super::cluster::{self, Cluster};
use super::request::PADDING;
use super::stage::Folder;
use crate::limits::{BENCH_PAUSE, BENCH_STEP_TIMEOUT};

/// The tables that hand-written transactions use.
const TABLES: &str = include_str!("../../benches/tables.sql");

/// What decides how much a commit costs and whether it is durable.
const SHOWN: [&str; 8] = [
    "server_version",
    "fsync",
    "synchronous_commit",
    "synchronous_standby_names",
    "full_page_writes",
    "wal_sync_method",
    "shared_buffers",
    "max_connections",
];

/// A server, and where its programs are.
pub(super) struct Postgres {
    cluster: Option<Cluster>,
    url: Url,
    programs: Option<PathBuf>,
    /// Begins the name of every database of this run.
    prefix: String,
    made: Vec<String>,
}

impl Postgres {
    /// The given server, or one of our own. `Err`: there is none, and why.
    pub(super) async fn find(given: Option<&str>, folder: &Folder, prefix: &str) -> anyhow::Result<Self> {
        let programs = cluster::programs();
        let (cluster, url) = if let Some(url) = given {
            (None, Url::parse(url).context("--postgres is no address")?)
        } else {
            let place = match &programs {
                Ok(place) => place,
                Err(error) => bail!("no server was given with --postgres; {error:#}"),
            };
            let cluster = Cluster::start(place, folder).await?;
            let url = Url::parse(&format!("postgres://fencegate@{}/postgres", cluster.address))?;
            (Some(cluster), url)
        };
        let programs = programs.ok();
        let postgres = Self { cluster, url, programs, prefix: prefix.to_owned(), made: Vec::new() };
        let waiting = async {
            loop {
                match PgConnection::connect(postgres.url.as_str()).await {
                    Ok(connection) => return connection.close().await,
                    Err(error) if postgres.cluster.is_none() => return Err(error),
                    Err(_) => sleep(BENCH_PAUSE).await,
                }
            }
        };
        timeout(BENCH_STEP_TIMEOUT, waiting)
            .await
            .context("the PostgreSQL server does not become ready")?
            .context("cannot connect to the PostgreSQL server")?;
        Ok(postgres)
    }

    /// A program of PostgreSQL, where there is one.
    pub(super) fn program(&self, name: &str) -> Option<PathBuf> {
        let beside = self.programs.iter().map(|folder| folder.join(name));
        let path = std::env::var_os("PATH").unwrap_or_default();
        let in_path: Vec<PathBuf> = std::env::split_paths(&path).map(|folder| folder.join(name)).collect();
        beside.chain(in_path).find(|program| program.is_file())
    }

    /// The address of one of its databases.
    pub(super) fn address(&self, database: &str) -> Url {
        let mut url = self.url.clone();
        url.set_path(database);
        url
    }

    /// The settings in force.
    pub(super) async fn settings(&self) -> anyhow::Result<BTreeMap<String, String>> {
        let mut connection = PgConnection::connect(self.url.as_str()).await.context("cannot connect")?;
        let mut settings = BTreeMap::new();
        for name in SHOWN {
            let value: String = sqlx::query_scalar("SELECT current_setting($1)")
                .bind(name)
                .fetch_one(&mut connection)
                .await
                .with_context(|| format!("cannot read the setting {name}"))?;
            settings.insert(name.to_owned(), value);
        }
        connection.close().await.context("cannot close a connection")?;
        Ok(settings)
    }

    /// A new, empty database.
    pub(super) async fn empty(&mut self, name: &str) -> anyhow::Result<String> {
        self.make(name, "TEMPLATE template0").await
    }

    /// A database with the contents of another one, to which nobody may be connected.
    pub(super) async fn copy(&mut self, from: &str, name: &str) -> anyhow::Result<String> {
        let version: i32 = self.asked("SELECT current_setting('server_version_num')::int").await?;
        // Files are copied and synced; the other strategy would write all of it into the log of the first cell.
        let how = if version >= 150_000 { "STRATEGY file_copy" } else { "" };
        self.make(name, &format!("TEMPLATE {from} {how}")).await
    }

    /// None is removed before the end, for the reason that no folder is.
    async fn make(&mut self, name: &str, how: &str) -> anyhow::Result<String> {
        let name = format!("{}_{name}_{}", self.prefix, self.made.len());
        self.made.push(name.clone());
        self.execute("", &format!("CREATE DATABASE {name} {how}")).await?;
        Ok(name)
    }

    /// A database with the tables of the hand-written transactions and their documents.
    pub(super) async fn by_hand(&mut self, name: &str, resources: u64) -> anyhow::Result<String> {
        let name = self.empty(name).await?;
        self.execute(&name, TABLES).await?;
        let last = resources.saturating_sub(1);
        let fill = format!(
            "INSERT INTO documents SELECT 'bench/doc-' || lpad(n::text, 6, '0'), 1, 1, \
             lpad(n::text, 16, '0') || '{PADDING}' FROM generate_series(0, {last}) n"
        );
        self.execute(&name, &fill).await?;
        self.execute(&name, "VACUUM ANALYZE documents").await?;
        Ok(name)
    }

    /// Asks the server for one value.
    pub(super) async fn asked<T>(&self, sql: &'static str) -> anyhow::Result<T>
    where
        T: for<'r> sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres> + Send + Unpin,
    {
        let mut connection = PgConnection::connect(self.url.as_str()).await.context("cannot connect")?;
        let value = sqlx::query_scalar(sql).fetch_one(&mut connection).await;
        connection.close().await.context("cannot close a connection")?;
        value.with_context(|| format!("the server does not answer {sql}"))
    }

    /// How often the server has flushed its log so far.
    pub(super) async fn flushes(&self) -> anyhow::Result<u64> {
        let version: i32 = self.asked("SELECT current_setting('server_version_num')::int").await?;
        let sql = if version >= 180_000 {
            "SELECT coalesce(sum(fsyncs), 0)::bigint FROM pg_stat_io WHERE object = 'wal'"
        } else {
            "SELECT wal_sync FROM pg_stat_wal"
        };
        let flushes: i64 = self.asked(sql).await?;
        Ok(u64::try_from(flushes).unwrap_or_default())
    }

    /// How many bytes a database has.
    pub(super) async fn size(&self, database: &str) -> anyhow::Result<u64> {
        let mut connection = PgConnection::connect(self.url.as_str()).await.context("cannot connect")?;
        let asked = sqlx::query_scalar("SELECT pg_database_size($1::text::name)").bind(database);
        let bytes: Result<i64, _> = asked.fetch_one(&mut connection).await;
        connection.close().await.context("cannot close a connection")?;
        Ok(u64::try_from(bytes.context("cannot ask for the size")?).unwrap_or_default())
    }

    /// Runs statements in a database; without a name, in the one that the address names.
    pub(super) async fn execute(&self, database: &str, sql: &str) -> anyhow::Result<()> {
        let url = if database.is_empty() { self.url.clone() } else { self.address(database) };
        let mut connection = PgConnection::connect(url.as_str()).await.context("cannot connect")?;
        let done = sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await;
        connection.close().await.context("cannot close a connection")?;
        done.map(drop).with_context(|| format!("the server refused: {sql}"))
    }

    /// Removes what was made, and ends the server if it is our own.
    pub(super) async fn clear(mut self) -> anyhow::Result<()> {
        if let Some(cluster) = self.cluster.take() {
            return cluster.stop().await;
        }
        for name in self.made.clone() {
            self.execute("", &format!("DROP DATABASE IF EXISTS {name}")).await?;
        }
        Ok(())
    }
}
