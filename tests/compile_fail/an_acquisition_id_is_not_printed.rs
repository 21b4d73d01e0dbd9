//! Whoever knows an acquisition id may renew and release: it has no `Display`, so that no log line shows it.

use fencegate::domain::lease::AcquisitionId;

fn log(id: &AcquisitionId) -> String {
    format!("{id}")
}

fn main() {}
