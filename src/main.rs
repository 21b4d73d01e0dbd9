//! The entry of the binary; all of it is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    fencegate::cli::run(std::env::args_os())
}
