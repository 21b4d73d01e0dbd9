//! The entry of the exam; all of it is in the library.

use std::process::ExitCode;
use std::sync::Arc;

use fencegate::app::SystemClock;
use fencegate::domain::time::Clock;

fn main() -> ExitCode {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::started());
    fencegate::exam::main(std::env::args_os(), &clock)
}
