//! A writer in a process of its own, with the settings of the gateway but for one.

use std::fmt::Write as _;
use std::path::Path;

use rusqlite::Connection;

use super::disk;

/// How it syncs; without it nothing is written.
pub(super) const SYNCHRONOUS: &str = "POWER_WRITER_SYNCHRONOUS";

/// Where it tells what was committed by when.
pub(super) const TOLD: &str = "POWER_WRITER_TOLD";

pub(super) const COMMITS: usize = 200;

/// Not a test by itself: the program of the process that a test starts, which does nothing when it is run with the others.
#[test]
fn writes_where_it_is_told_to() {
    let Ok(synchronous) = std::env::var(SYNCHRONOUS) else { return };
    let place = |name: &str| std::env::var(name).unwrap();
    let (database, notes, told) = (place("POWER_DATABASE"), place("POWER_NOTES"), place(TOLD));
    let connection = Connection::open(database).unwrap();
    connection.pragma_update(None, "journal_mode", "wal").unwrap();
    connection.pragma_update(None, "synchronous", &synchronous).unwrap();
    connection.execute_batch("CREATE TABLE written (id TEXT NOT NULL, body BLOB NOT NULL) STRICT").unwrap();
    let mut lines = String::new();
    for number in 0..COMMITS {
        let id = format!("w-{number}");
        connection
            .execute(
                "INSERT INTO written VALUES (?1, zeroblob(?2))",
                (&id, i64::try_from(number * 50).unwrap()),
            )
            .unwrap();
        writeln!(lines, "{} {id}", disk::length(Path::new(&notes))).unwrap();
    }
    std::fs::write(told, lines).unwrap();
}
