//! The steps of a schema that are embedded in the binary, and which of them stand in a database.

use std::collections::BTreeMap;

use sqlx::migrate::Migrator;

/// One step of the schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigrationState {
    /// Its number.
    pub version: i64,
    /// What it does.
    pub description: String,
    /// Whether it stands in the database.
    pub applied: bool,
}

/// What the processes on one database must agree on beside its schema: what the rows mean. 2: a namespace may be stopped by
/// its breaker, and lines of the audit tell of the ends of leases. It is raised with every release that reads or writes
/// something which the release before would not heed.
/// 3: lines of the audit name who asked, and tell of operations whose outcome became uncertain and of changed policies.
///
/// A release speaks its own protocol and, as long as the database's lowest is not raised, works beside the one before it.
pub const PROTOCOL: u32 = 3;

/// Where a database stands between two releases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigrationReport {
    /// The steps of the schema.
    pub steps: Vec<MigrationState>,
    /// The lowest protocol that a process must speak to work on it; none where the step that says so is missing.
    pub least_protocol: Option<u32>,
}

/// What is wrong where a database demands more than this version speaks.
pub(super) fn too_old(least: u32) -> Option<String> {
    (least > PROTOCOL).then(|| {
        format!(
            "the upgrade was finished with a release that demands protocol {least}, and this version of fencegate speaks \
             {PROTOCOL}; stop this one, and run that release or a later one"
        )
    })
}

/// The steps that stand in a database: checksum by version.
pub(super) type Applied = BTreeMap<i64, Vec<u8>>;

/// Why this version must not touch a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Foreign {
    /// A newer version has applied it.
    Newer { found: i64, known: i64 },
    /// It is not what it was when it was applied.
    Edited { version: i64 },
}

/// The newest step that this version knows.
pub(super) fn version(migrator: &Migrator) -> Option<i64> {
    migrator.iter().map(|step| step.version).max()
}

/// The steps that this version knows, and which of them are applied.
pub(super) fn states(migrator: &Migrator, applied: &Applied) -> Vec<MigrationState> {
    migrator
        .iter()
        .map(|step| MigrationState {
            version: step.version,
            description: step.description.to_string(),
            applied: applied.contains_key(&step.version),
        })
        .collect()
}

/// Refuses steps that this version does not know as they are.
pub(super) fn judge(migrator: &Migrator, applied: &Applied) -> Result<(), Foreign> {
    let known = version(migrator).unwrap_or_default();
    for (version, checksum) in applied {
        match migrator.iter().find(|step| step.version == *version) {
            None => return Err(Foreign::Newer { found: *version, known }),
            Some(step) if step.checksum.as_ref() != checksum.as_slice() => {
                return Err(Foreign::Edited { version: *version });
            }
            Some(_) => {}
        }
    }
    Ok(())
}
