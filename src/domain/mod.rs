//! The words of the product.
//!
//! Every name, number and id is made here by parsing, once, at the door; after that a wrong comparison does not
//! compile. This room knows nobody else of ours and holds no I/O, no clock and no randomness: `time` and `entropy`
//! only declare what the shell must pass in.

pub mod breaker;
pub mod cell;
pub mod counter;
pub mod document;
pub mod entropy;
pub mod lease;
pub mod namespaces;
pub mod operation;
pub mod permission;
pub mod policy;
pub mod position;
pub mod precondition;
pub mod principal;
pub mod quota;
pub mod redefinition;
pub mod resource;
pub mod seal;
pub mod store;
pub mod subject;
pub mod time;
pub mod trace;
pub mod upstream;
