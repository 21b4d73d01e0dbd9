//! The one test binary.

#[cfg(test)]
mod sqlite;
