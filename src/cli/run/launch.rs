//! The last steps before the command, in the process that becomes it.
//!
//! What must be asked for by the new process itself can be asked for only between its start and its becoming another
//! program. So this program is started once more, asks, and turns into the command: the process id stays.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use rustix::process::{Pid, getppid};

use crate::cli::failure::{Ending, Failure};
use crate::cli::output::Output;

/// The word that makes this program the command of a `run`.
pub(in crate::cli) const LAUNCH: &str = "run-launch";

/// The exit code of a command that cannot be executed, as in a shell.
pub(super) const NOT_EXECUTABLE: u8 = 126;

/// The exit code of a command that there is not, as in a shell.
const NOT_FOUND: u8 = 127;

/// Becomes the command: `run-launch PARENT COMMAND ARGUMENTS`. It comes back only where it could not.
pub(in crate::cli) fn launch(arguments: &[OsString], output: &Output) -> ExitCode {
    let [_, _, parent, program, rest @ ..] = arguments else { return Ending::Unusable.into() };
    die_with_the_parent();
    let found = getppid().map(|pid: Pid| pid.as_raw_nonzero().to_string());
    if found.as_deref().map(OsString::from).as_ref() != Some(parent) {
        // `run` was gone before the kernel knew of the wish, and nobody would renew for this command.
        return Ending::OwnershipLost.into();
    }
    let error = Command::new(program).args(rest).exec();
    let failure = Failure::Start(
        anyhow::Error::new(error).context(format!("fencegate run: cannot start {}", program.display())),
    );
    output.note(&failure.brief());
    ExitCode::from(if is_missing(&failure) { NOT_FOUND } else { NOT_EXECUTABLE })
}

fn is_missing(failure: &Failure) -> bool {
    let Failure::Start(error) = failure else { return false };
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == ErrorKind::NotFound)
}

/// Asks to be killed when `run` is. Becoming another program keeps the wish; only one that changes its user drops it.
#[cfg(target_os = "linux")]
fn die_with_the_parent() {
    use rustix::process::{Signal, set_parent_process_death_signal};
    // Without it a `run` that is killed leaves the command behind; its writes are fenced all the same.
    set_parent_process_death_signal(Some(Signal::KILL)).unwrap_or_default();
}

/// Other systems have no such wish.
#[cfg(not(target_os = "linux"))]
fn die_with_the_parent() {}
