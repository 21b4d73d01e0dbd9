//! The entry of the binary; all of it is in the library.

use std::process::ExitCode;

/// A request makes dozens of small allocations; this allocator spends a fraction of the time on them that glibc's does.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    fencegate::cli::run(std::env::args_os())
}
