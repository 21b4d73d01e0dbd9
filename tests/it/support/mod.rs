//! What several tests share.

pub(crate) mod code;
pub(crate) mod draft;
pub(crate) mod wanted;
pub(crate) mod world;
