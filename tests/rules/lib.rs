//! The rules and the tests that need nothing else, in one crate.
//!
//! Not part of the gateway and not a second copy of it: every line stands in `src` and `tests/it`. It is here for
//! `cargo mutants`, which changes one thing in `src/domain` or `src/protocol`, builds, and asks whether a test notices. The
//! one test binary of the gateway takes minutes for that; this takes seconds.

// To the tests, this crate is the gateway.
extern crate self as fencegate;

#[path = "../../src"]
mod shipped {
    pub mod deliberate;
    pub mod domain;
    pub mod protocol;
}

pub use shipped::{deliberate, domain, protocol};

#[cfg(test)]
#[path = "../it"]
mod it {
    mod decision;
    mod model;
    mod naive;
    mod names;

    pub(crate) mod support {
        pub(crate) mod calls;
        pub(crate) mod code;
        pub(crate) mod dice;
        pub(crate) mod draft;
        pub(crate) mod forgotten;
        pub(crate) mod forwarding;
        pub(crate) mod wanted;
        pub(crate) mod whole;
        pub(crate) mod world;
    }
}

#[cfg(test)]
use it::support;
