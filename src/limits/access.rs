//! Bounds of credentials and permissions.

use std::time::Duration;

/// Principals of one gateway: each is looked at when the configuration is read, and none when a request comes.
pub const PRINCIPALS: usize = 10_000;

/// Rules of one principal, which are tried one after another with each request.
pub const PRINCIPAL_RULES: usize = 64;

/// Keys of one principal: one in use, one that takes its place, and some for places that share a name.
pub const PRINCIPAL_KEYS: usize = 16;

/// Longest text that the command line reads as a key, in bytes: a token of another issuer may be a few kilobytes long.
pub const CLIENT_KEY_BYTES: u64 = 16_384;
/// Names of certificates, and subjects and roles of tokens, of one principal: as many places may share a name.
pub const PRINCIPAL_NAMES: usize = 64;

/// Largest file of certificates, or with a key: the roots of a whole system fit into it.
pub const TLS_FILE_BYTES: u64 = 1_048_576;

/// How long a connection may take to agree on TLS, its turn included. A client far away needs two round trips.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// Connections that agree on TLS at once; further ones wait for their turn within their time. Each costs a signature, some
/// 50 KiB, and may be an idle socket of somebody who never meant to speak.
pub const HANDSHAKES: usize = 1_024;

/// How long before its end a certificate is warned of, at the start and once a day: time for a person on holiday.
pub const CERTIFICATE_WARNING: Duration = Duration::from_hours(14 * 24);

/// How often the end of the certificate is looked at.
pub const CERTIFICATE_LOOK: Duration = Duration::from_hours(24);

/// Longest token of an issuer, in bytes. It is less than a request's headers may have together.
pub const JWT_BYTES: usize = 8_192;

/// Roles of one token that are looked at.
pub const JWT_ROLES: usize = 256;

/// Audiences of one gateway: one name each that tokens may be meant for.
pub const JWT_AUDIENCES: usize = 16;

/// Tokens whose signature was found right and is not computed again until they end: some 100 bytes each. Only the issuer's
/// own tokens come in here, so that nobody else can fill it.
pub const JWT_CACHED: usize = 8_192;

/// Largest set of an issuer's keys, in bytes.
pub const JWKS_BYTES: usize = 262_144;

/// Keys of one set that are kept; issuers have two or three.
pub const JWKS_KEYS: usize = 64;

/// How long a set of keys may take to arrive.
pub const JWKS_TIMEOUT: Duration = Duration::from_secs(5);

/// Least time between two fetches that callers caused: whoever makes key ids up costs the issuer six requests a minute.
pub const JWKS_PAUSE: Duration = Duration::from_secs(10);

/// How long a request waits for a set of keys that is under way, because its token names a key that is not there yet.
pub const JWKS_PATIENCE: Duration = Duration::from_secs(2);

/// How often the keys are fetched, by default and at least and at most.
pub const JWKS_REFRESH_MS: u64 = 300_000;
/// See [`JWKS_REFRESH_MS`].
pub const JWKS_REFRESH_LEAST_MS: u64 = 10_000;
/// See [`JWKS_REFRESH_MS`].
pub const JWKS_REFRESH_GREATEST_MS: u64 = 86_400_000;

/// How old keys may become that cannot be fetched again: an issuer that is down over a night locks nobody out, and a key that
/// was withdrawn meanwhile is not believed for ever.
pub const JWKS_STALE_MS: u64 = 86_400_000;
/// See [`JWKS_STALE_MS`].
pub const JWKS_STALE_GREATEST_MS: u64 = 7 * 86_400_000;

/// How far the issuer's clock may be from ours.
pub const JWT_LEEWAY_MS: u64 = 30_000;
/// See [`JWT_LEEWAY_MS`]: a token that ended longer ago is not one that somebody's clock made look so.
pub const JWT_LEEWAY_GREATEST_MS: u64 = 300_000;

/// Leases whose keepers are known to be permitted, some 100 bytes each: further ones are looked up again, with a read.
pub const LEASES_PERMITTED: usize = 65_536;

/// Looks at one credential that the benchmark takes the average of.
pub const BENCH_LOOKS: u32 = 20_000;

/// First looks at one token that the benchmark takes the middle of; before each of them the issuer's keys are read anew.
pub const BENCH_LOOKS_FIRST: u32 = 301;
