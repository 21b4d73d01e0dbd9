//! The one test binary.
//!
//! `cfg(test)` on each module tells the lints that helpers here are test code too: they stop at once.

#[cfg(test)]
mod architecture;
#[cfg(test)]
mod cli;
#[cfg(test)]
mod conformance;
#[cfg(test)]
mod decision;
#[cfg(test)]
mod naive;
#[cfg(test)]
mod readme;
#[cfg(test)]
mod stories;
#[cfg(test)]
mod support;
