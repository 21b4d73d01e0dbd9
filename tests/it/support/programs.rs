//! Which files count as programs.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Whether this is a file that somebody may execute. As in a shell's look through `PATH`, another file of that name is
/// passed over, so that the search goes on to what can run.
pub(crate) fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}
