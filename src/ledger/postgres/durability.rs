//! How an acknowledged write is kept, by the settings in force now; for people.

use sqlx::PgConnection;

use super::super::cells::ReadCells;
use super::fault::Fault;
use super::fields::Fields;

/// The standbys are counted only where the role may see what they do.
const SETTINGS: &str = "SELECT ROW(\
     current_setting('synchronous_commit'), current_setting('synchronous_standby_names'), \
     current_setting('fsync'), current_setting('full_page_writes'), current_setting('server_version'), \
     (SELECT system_identifier FROM pg_control_system()), \
     ('x' || substr(pg_walfile_name(pg_current_wal_flush_lsn()), 1, 8))::bit(32)::bigint, \
     (SELECT count(*) FROM pg_stat_replication), \
     (SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming' AND sync_state IN ('sync', 'quorum')), \
     (SELECT count(*) FROM pg_stat_replication WHERE sync_state IS NULL))";

/// What a server says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Settings {
    synchronous_commit: String,
    standby_names: String,
    fsync: String,
    full_page_writes: String,
    version: String,
    system: i64,
    timeline: i64,
    standbys: i64,
    synchronous: i64,
    hidden: i64,
}

/// The settings in force, in one sentence.
pub(super) async fn durability(connection: &mut PgConnection) -> Result<String, Fault> {
    let row = sqlx::query(SETTINGS).persistent(false).fetch_one(connection).await?;
    let mut fields = Fields::required(&row, 0)?;
    let settings = Settings {
        synchronous_commit: fields.text()?.to_owned(),
        standby_names: fields.text()?.to_owned(),
        fsync: fields.text()?.to_owned(),
        full_page_writes: fields.text()?.to_owned(),
        version: fields.text()?.to_owned(),
        system: fields.integer()?,
        timeline: fields.integer()?,
        standbys: fields.integer()?,
        synchronous: fields.integer()?,
        hidden: fields.integer()?,
    };
    Ok(settings.told())
}

impl Settings {
    fn told(&self) -> String {
        format!(
            "PostgreSQL {}, system {} timeline {}, fsync={}, full_page_writes={}, synchronous_commit={}, \
             synchronous_standby_names={:?}, {} standbys connected: {}",
            self.version,
            self.system,
            self.timeline,
            self.fsync,
            self.full_page_writes,
            self.in_force(),
            self.standby_names,
            self.standbys,
            self.meaning()
        )
    }

    /// A transaction that writes raises the server's own setting where it is weaker than `on`.
    fn in_force(&self) -> &str {
        if self.synchronous_commit == "remote_apply" { "remote_apply" } else { "on" }
    }

    fn meaning(&self) -> &'static str {
        if self.fsync != "on" || self.full_page_writes != "on" {
            return "an acknowledged write can be lost in a crash of the server";
        }
        if self.standby_names.is_empty() {
            return "an acknowledged write is flushed to the primary's disk, and survives its crash, not its loss";
        }
        if self.hidden > 0 {
            return "strict: an acknowledged write is flushed to the primary's and a synchronous standby's disk \
                    (whether one is connected, this role may not see)";
        }
        if self.synchronous == 0 {
            return "strict, and no synchronous standby is connected: no write is acknowledged until one is";
        }
        "strict: an acknowledged write is flushed to the primary's and a synchronous standby's disk"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        Settings {
            synchronous_commit: "local".to_owned(),
            standby_names: String::new(),
            fsync: "on".to_owned(),
            full_page_writes: "on".to_owned(),
            version: "15.4".to_owned(),
            system: 7,
            timeline: 2,
            standbys: 1,
            synchronous: 0,
            hidden: 0,
        }
    }

    #[test]
    fn the_sentence_tells_what_is_in_force() {
        assert_eq!(
            settings().told(),
            "PostgreSQL 15.4, system 7 timeline 2, fsync=on, full_page_writes=on, synchronous_commit=on, \
             synchronous_standby_names=\"\", 1 standbys connected: an acknowledged write is flushed to the primary's \
             disk, and survives its crash, not its loss"
        );
    }

    #[test]
    fn strict_is_said_only_where_it_is_so() {
        let strict = Settings { standby_names: "s1".to_owned(), ..settings() };
        assert!(strict.meaning().contains("no write is acknowledged until one is"));
        let kept = Settings { synchronous: 1, ..strict.clone() };
        assert!(kept.meaning().starts_with("strict: an acknowledged write"));
        let unseen = Settings { hidden: 1, ..strict };
        assert!(unseen.meaning().contains("may not see"));
        let lost = Settings { fsync: "off".to_owned(), ..kept };
        assert!(lost.meaning().contains("can be lost"));
    }
}
