//! The one test binary.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::as_conversions,
    missing_docs,
    reason = "tests stop at once, and their names are their documentation"
)]

mod architecture;
mod conformance;
mod support;
