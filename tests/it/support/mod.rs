//! What several tests share.

pub(crate) mod calls;
pub(crate) mod client;
pub(crate) mod clock;
pub(crate) mod code;
pub(crate) mod commands;
pub(crate) mod dice;
pub(crate) mod draft;
pub(crate) mod engines;
pub(crate) mod forgotten;
pub(crate) mod forwarding;
pub(crate) mod forwards;
pub(crate) mod frames;
pub(crate) mod gateway;
pub(crate) mod issuers;
pub(crate) mod pages;
pub(crate) mod postgres;
pub(crate) mod programs;
pub(crate) mod stores;
pub(crate) mod upstream;
pub(crate) mod wanted;
pub(crate) mod wheels;
pub(crate) mod whole;
pub(crate) mod world;
