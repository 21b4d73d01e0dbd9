//! Signatures of tokens, checked by ring: the provider that TLS uses already. jsonwebtoken asks for one and brings none
//! along here.

use std::sync::OnceLock;

use jsonwebtoken::crypto::{CryptoProvider, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{ErrorKind, Result, new_error};
use jsonwebtoken::signature::{Error, Verifier};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, DecodingKeyKind};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256,
    RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, RsaParameters, RsaPublicKeyComponents,
    UnparsedPublicKey, VerificationAlgorithm,
};

static PROVIDER: CryptoProvider = CryptoProvider {
    // Nothing is signed here.
    signer_factory: |_, _| Err(new_error(ErrorKind::UnsupportedAlgorithm)),
    verifier_factory: |algorithm, key| verifier(*algorithm, key),
    // Only public keys are read, by their coordinates, and nobody asks for these.
    key_utils: KeyUtils::new_unimplemented(),
};

/// Has jsonwebtoken use ring.
pub(super) fn install() {
    static INSTALLED: OnceLock<bool> = OnceLock::new();
    // Only this place installs one.
    INSTALLED.get_or_init(|| PROVIDER.install_default().is_ok());
}

/// How one algorithm is checked. There is none for a shared secret, so that no public key can be taken for one.
enum How {
    Rsa(&'static RsaParameters),
    Curve(&'static dyn VerificationAlgorithm),
}

struct Check {
    algorithm: Algorithm,
    how: How,
    key: DecodingKey,
}

fn verifier(algorithm: Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>> {
    let (family, how) = match algorithm {
        Algorithm::RS256 => (AlgorithmFamily::Rsa, How::Rsa(&RSA_PKCS1_2048_8192_SHA256)),
        Algorithm::RS384 => (AlgorithmFamily::Rsa, How::Rsa(&RSA_PKCS1_2048_8192_SHA384)),
        Algorithm::RS512 => (AlgorithmFamily::Rsa, How::Rsa(&RSA_PKCS1_2048_8192_SHA512)),
        Algorithm::PS256 => (AlgorithmFamily::Rsa, How::Rsa(&RSA_PSS_2048_8192_SHA256)),
        Algorithm::PS384 => (AlgorithmFamily::Rsa, How::Rsa(&RSA_PSS_2048_8192_SHA384)),
        Algorithm::PS512 => (AlgorithmFamily::Rsa, How::Rsa(&RSA_PSS_2048_8192_SHA512)),
        Algorithm::ES256 => (AlgorithmFamily::Ec, How::Curve(&ECDSA_P256_SHA256_FIXED)),
        Algorithm::ES384 => (AlgorithmFamily::Ec, How::Curve(&ECDSA_P384_SHA384_FIXED)),
        Algorithm::EdDSA => (AlgorithmFamily::Ed, How::Curve(&ED25519)),
        // Shared secrets, and what a later version of the library brings.
        Algorithm::HS256 | Algorithm::HS384 | Algorithm::HS512 | _ => {
            return Err(new_error(ErrorKind::UnsupportedAlgorithm));
        }
    };
    if key.family() != family {
        return Err(new_error(ErrorKind::InvalidKeyFormat));
    }
    Ok(Box::new(Check { algorithm, how, key: key.clone() }))
}

impl Verifier<Vec<u8>> for Check {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> std::result::Result<(), Error> {
        let verified = match (&self.how, self.key.kind()) {
            (How::Rsa(parameters), DecodingKeyKind::RsaModulusExponent { n, e }) => {
                let key = RsaPublicKeyComponents { n: without_zeros(n), e: without_zeros(e) };
                key.verify(parameters, message, signature)
            }
            (How::Curve(algorithm), DecodingKeyKind::SecretOrDer(key)) => {
                UnparsedPublicKey::new(*algorithm, key).verify(message, signature)
            }
            (How::Rsa(_), DecodingKeyKind::SecretOrDer(_))
            | (How::Curve(_), DecodingKeyKind::RsaModulusExponent { .. }) => Err(ring::error::Unspecified),
        };
        verified.map_err(|_| Error::new())
    }
}

impl JwtVerifier for Check {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

/// Some issuers write a number's sign as a zero in front of it, which ring does not take.
fn without_zeros(number: &[u8]) -> &[u8] {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    number.get(zeros..).unwrap_or_default()
}

#[cfg(test)]
mod vectors;

#[cfg(test)]
mod tests {
    use std::str::FromStr as _;

    use jsonwebtoken::crypto::verify;

    use super::vectors::{BY_RSA, MODULUS, ON_P384, SHORT};
    use super::*;

    const MESSAGE: &[u8] = b"e30.e30";

    #[test]
    fn what_others_have_signed_is_verified_and_nothing_else() {
        // Broken: an algorithm is checked as another one, or a key that is too short is believed. Must hold: each signature is
        // right under its own algorithm alone, and for its own message.
        install();
        let key = DecodingKey::from_rsa_components(MODULUS, "AQAB").unwrap();
        let padded = DecodingKey::from_rsa_components(&format!("AAAA{MODULUS}"), "AQAB").unwrap();
        for (name, signature) in BY_RSA {
            for (other, _) in BY_RSA {
                let algorithm = Algorithm::from_str(other).unwrap();
                assert_eq!(
                    verify(signature, MESSAGE, &key, algorithm).unwrap(),
                    name == other,
                    "{name} {other}"
                );
                assert_eq!(verify(signature, MESSAGE, &padded, algorithm).unwrap(), name == other);
            }
            let algorithm = Algorithm::from_str(name).unwrap();
            assert!(!verify(signature, b"e30.e31", &key, algorithm).unwrap());
        }
        let short = DecodingKey::from_rsa_components(SHORT.0, "AQAB").unwrap();
        assert!(!verify(SHORT.1, MESSAGE, &short, Algorithm::RS256).unwrap());
        let curve = DecodingKey::from_ec_components(ON_P384.0, ON_P384.1).unwrap();
        assert!(verify(ON_P384.2, MESSAGE, &curve, Algorithm::ES384).unwrap());
        assert!(!verify(ON_P384.2, b"e30.e31", &curve, Algorithm::ES384).unwrap());
        assert!(!verify(ON_P384.2, MESSAGE, &curve, Algorithm::ES256).unwrap());
        let secret = DecodingKey::from_secret(b"secret").unwrap();
        for algorithm in [Algorithm::HS256, Algorithm::HS384, Algorithm::HS512] {
            assert!(verify("AAAA", MESSAGE, &secret, algorithm).is_err());
            assert!(verify("AAAA", MESSAGE, &key, algorithm).is_err());
        }
    }
}
