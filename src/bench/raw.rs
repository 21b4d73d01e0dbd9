//! SQLite as fast as one thread can drive it with the obvious tables: no HTTP, no queue, one commit per batch.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use rusqlite::{Connection, params};

use super::chance::Chance;
use super::peer::SCHEMA;
use super::request::{DISTINCT, PADDING, TOKEN, document};
use crate::domain::time::Clock;

/// What to do.
#[derive(Debug, Clone)]
pub struct Raw {
    /// Resources in the file.
    pub resources: u64,
    /// Writes of one transaction.
    pub batch: u64,
    /// Done and not counted.
    pub warm_up: Duration,
    /// Counted.
    pub measured: Duration,
}

/// What was done in the measured time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// Durable writes.
    pub writes: u64,
    /// How long it took.
    pub took: Duration,
}

/// Makes the file with its tables and documents.
pub(super) fn fill(path: &Path, resources: u64) -> anyhow::Result<()> {
    let failed = || format!("cannot fill {}", path.display());
    let mut connection = open(path)?;
    connection.execute_batch(SCHEMA).with_context(failed)?;
    let transaction = connection.transaction().with_context(failed)?;
    {
        let sql = "INSERT INTO documents (resource, max_token, version, body) VALUES (?1, 1, 1, ?2)";
        let mut statement = transaction.prepare(sql).with_context(failed)?;
        for number in 0..resources {
            let name = format!("{DISTINCT}/{}", document(number));
            statement.execute(params![name, content(number).as_bytes()]).with_context(failed)?;
        }
    }
    transaction.commit().with_context(failed)?;
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).with_context(failed)
}

impl Raw {
    /// Writes for the given time.
    ///
    /// # Errors
    /// When the file cannot be used.
    pub fn run(&self, path: &Path, clock: &dyn Clock) -> anyhow::Result<Written> {
        let mut connection = open(path)?;
        let mut chance = Chance::of(u64::try_from(clock.wall().ms()).unwrap_or_default());
        let begun = clock.monotonic().saturating_add(self.warm_up);
        let mut writes = 0_u64;
        let mut from = None;
        loop {
            let now = clock.monotonic();
            if now >= begun {
                let from = *from.get_or_insert(now);
                let took = now.saturating_sub(from);
                if took >= self.measured {
                    return Ok(Written { writes, took });
                }
            }
            self.batch(&mut connection, &mut chance).context("cannot write")?;
            if from.is_some() {
                writes = writes.saturating_add(self.batch);
            }
        }
    }

    fn batch(&self, connection: &mut Connection, chance: &mut Chance) -> rusqlite::Result<()> {
        let token = i64::try_from(TOKEN).unwrap_or_default();
        let transaction = connection.transaction()?;
        {
            let mut replace = transaction.prepare_cached(
                "UPDATE documents SET max_token = ?1, version = version + 1, body = ?2
                 WHERE resource = ?3 AND max_token <= ?1 RETURNING version",
            )?;
            let mut record = transaction.prepare_cached(
                "INSERT INTO operations (resource, operation, token, fingerprint) VALUES (?1, ?2, ?3, ?4)",
            )?;
            for _ in 0..self.batch {
                let name = format!("{DISTINCT}/{}", document(chance.below(self.resources)));
                let operation = uuid::Uuid::from_u64_pair(chance.next(), chance.next());
                let fingerprint = [chance.next(), chance.next(), chance.next(), chance.next()];
                let fingerprint = fingerprint.map(u64::to_be_bytes).concat();
                let body = content(chance.next());
                replace.query_row(params![token, body.as_bytes(), name], |row| row.get::<_, i64>(0))?;
                record.execute(params![name, operation.to_string(), token, fingerprint])?;
            }
        }
        transaction.commit()
    }
}

fn open(path: &Path) -> anyhow::Result<Connection> {
    let connection = Connection::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    connection
        .execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;")
        .with_context(|| format!("cannot set up {}", path.display()))?;
    Ok(connection)
}

fn content(number: u64) -> String {
    format!("{{\"n\":\"{number:016x}\",\"text\":\"{PADDING}\"}}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::SystemClock;

    #[test]
    fn every_write_that_is_counted_stands_in_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("raw.db");
        fill(&path, 100).unwrap();
        let raw =
            Raw { resources: 100, batch: 8, warm_up: Duration::ZERO, measured: Duration::from_millis(20) };
        let written = raw.run(&path, &SystemClock::started()).unwrap();
        let count = open(&path).unwrap();
        let count: i64 = count.query_row("SELECT count(*) FROM operations", [], |row| row.get(0)).unwrap();
        assert!(written.writes > 0 && written.took >= raw.measured, "{written:?}");
        assert_eq!(u64::try_from(count).unwrap(), written.writes);
    }
}
