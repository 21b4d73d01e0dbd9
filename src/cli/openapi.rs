//! `fencegate openapi`.

use super::failure::Failure;
use super::output::Output;

/// The description that the gateway also serves at `/openapi.yaml`.
const DESCRIPTION: &str = include_str!("../../openapi.yaml");

/// Prints it.
pub(super) fn run(output: &Output) -> Result<(), Failure> {
    output.raw(DESCRIPTION.as_bytes())
}
