//! The public keys of an issuer: a JSON Web Key Set, of which only what can verify a signature is kept.

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyOperations, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use serde::Deserialize;
use serde_json::Value;

use crate::limits::JWKS_KEYS;

/// Longest name of a key, in bytes; thumbprints have 43.
const KEY_NAME_BYTES: usize = 256;

/// All keys of one set.
#[derive(Debug, Default)]
pub(super) struct Keys(Vec<Key>);

#[derive(Debug)]
struct Key {
    name: Option<String>,
    fits: Vec<Algorithm>,
    public: DecodingKey,
}

#[derive(Deserialize)]
struct Set {
    keys: Vec<Value>,
}

impl Keys {
    /// Reads a set. Keys that are not understood, or are for something else, are left out, as RFC 7517 section 5 asks.
    ///
    /// # Errors
    /// Why there is no key in it that could be used.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, String> {
        let set: Set =
            serde_json::from_slice(bytes).map_err(|error| format!("it is not a set of keys: {error}"))?;
        let keys: Vec<Key> = set.keys.into_iter().filter_map(key).take(JWKS_KEYS).collect();
        if keys.is_empty() {
            Err("there is no public key in it that can be used".to_owned())
        } else {
            Ok(Self(keys))
        }
    }

    /// How many there are.
    pub(super) const fn count(&self) -> usize {
        self.0.len()
    }

    /// Whether there is a key of this name, whatever it is for.
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|key| key.name.as_deref() == Some(name))
    }

    /// The key that a token names. Where it names none, the only one that fits.
    pub(super) fn find(&self, name: Option<&str>, algorithm: Algorithm) -> Option<&DecodingKey> {
        let mut fitting = self.0.iter().filter(|key| key.fits.contains(&algorithm));
        match name {
            Some(name) => fitting.find(|key| key.name.as_deref() == Some(name)),
            None => fitting.next().filter(|_| fitting.next().is_none()),
        }
        .map(|key| &key.public)
    }
}

fn key(value: Value) -> Option<Key> {
    let jwk: Jwk = serde_json::from_value(value).ok()?;
    let common = &jwk.common;
    let is_ours = common.public_key_use.as_ref().is_none_or(|used| *used == PublicKeyUse::Signature)
        && common.key_operations.as_ref().is_none_or(|all| all.contains(&KeyOperations::Verify))
        && common.key_id.as_ref().is_none_or(|name| name.len() <= KEY_NAME_BYTES);
    let mut fits = algorithms(&jwk.algorithm).to_vec();
    if let Some(only) = common.key_algorithm {
        fits.retain(|algorithm| Algorithm::try_from(only).is_ok_and(|only| only == *algorithm));
    }
    if !is_ours || fits.is_empty() {
        return None;
    }
    Some(Key { name: common.key_id.clone(), fits, public: DecodingKey::from_jwk(&jwk).ok()? })
}

/// What a key of this kind can sign; nothing, for a secret that is shared.
fn algorithms(parameters: &AlgorithmParameters) -> &'static [Algorithm] {
    if let AlgorithmParameters::RSA(_) = parameters {
        return &[
            Algorithm::RS256,
            Algorithm::RS384,
            Algorithm::RS512,
            Algorithm::PS256,
            Algorithm::PS384,
            Algorithm::PS512,
        ];
    }
    if let AlgorithmParameters::EllipticCurve(key) = parameters {
        if key.curve == EllipticCurve::P256 {
            return &[Algorithm::ES256];
        }
        if key.curve == EllipticCurve::P384 {
            return &[Algorithm::ES384];
        }
    }
    if let AlgorithmParameters::OctetKeyPair(key) = parameters
        && key.curve == EllipticCurve::Ed25519
    {
        return &[Algorithm::EdDSA];
    }
    &[]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_verifies_is_kept_and_each_key_for_its_own_algorithms() {
        // Broken: a shared secret in the set, or a key for encryption, verifies tokens. Must hold: neither does.
        let set = r#"{"keys": [
            {"kty": "oct", "kid": "secret", "k": "AAAA"},
            {"kty": "EC", "crv": "P-256", "kid": "enc", "use": "enc", "x": "AAAA", "y": "AAAA"},
            {"kty": "EC", "crv": "P-256", "kid": "signs", "key_ops": ["sign"], "x": "AAAA", "y": "AAAA"},
            {"kty": "EC", "crv": "P-521", "kid": "long", "x": "AAAA", "y": "AAAA"},
            {"kty": "XX", "kid": "later"},
            {"kty": "RSA", "kid": "r", "alg": "RS256", "n": "AAAA", "e": "AQAB"},
            {"kty": "OKP", "crv": "Ed25519", "kid": "ed", "x": "AAAA"},
            {"kty": "EC", "crv": "P-256", "kid": "ec", "use": "sig", "x": "AAAA", "y": "AAAA"}
        ]}"#;
        let keys = Keys::read(set.as_bytes()).unwrap();
        assert_eq!(keys.count(), 3);
        assert!(keys.find(Some("r"), Algorithm::RS256).is_some());
        assert!(keys.find(Some("r"), Algorithm::PS256).is_none());
        assert!(keys.find(Some("ec"), Algorithm::ES256).is_some());
        assert!(keys.find(Some("ec"), Algorithm::EdDSA).is_none());
        assert!(keys.find(None, Algorithm::EdDSA).is_some());
        assert!(keys.find(Some("secret"), Algorithm::HS256).is_none());
        for nothing in ["", "[]", "{}", r#"{"keys": []}"#, r#"{"keys": [{"kty": "oct", "k": "AAAA"}]}"#] {
            assert!(Keys::read(nothing.as_bytes()).is_err(), "{nothing}");
        }
    }
}
