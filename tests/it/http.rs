//! The door, request by request, over rows in memory: every call and code, every header, every grammar.

mod batches;
mod codes;
mod contract;
mod documents;
mod epochs;
mod events;
mod grammar;
mod house;
mod keeping;
mod leases;
mod limits;
mod lists;
mod loads;
mod ownership;
mod permissions;
mod rows;
mod scripted;
mod secrets;
mod stores;
mod strangers;
mod system;
mod upstreams;
mod versions;
mod watching;
mod writing;
