//! Bounds of credentials and permissions.

/// Principals of one gateway: each is looked at when the configuration is read, and none when a request comes.
pub const PRINCIPALS: usize = 10_000;

/// Rules of one principal, which are tried one after another with each request.
pub const PRINCIPAL_RULES: usize = 64;

/// Keys of one principal: one in use, one that takes its place, and some for places that share a name.
pub const PRINCIPAL_KEYS: usize = 16;

/// Longest text that the command line reads as a key, in bytes: a token of another issuer may be a few kilobytes long.
pub const CLIENT_KEY_BYTES: u64 = 16_384;
