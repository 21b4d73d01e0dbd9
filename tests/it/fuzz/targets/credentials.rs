//! Credentials: API keys, tokens of an issuer and the sets of keys that these are checked with. Whoever is let in has shown
//! what was given out, and not one bit of it may differ.

use std::sync::{Arc, LazyLock};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use fencegate::access::fuzzing::usable_keys;
use fencegate::access::jwt::{Algorithm, JwtSettings, KeysFrom, Tokens};
use fencegate::access::key::{ApiKey, KeyDigest, KeyId};
use fencegate::access::{Access, HeldKey, Principal, Roster};
use fencegate::domain::permission::Rules;
use fencegate::domain::principal::PrincipalName;
use fencegate::domain::time::{Millis, Timestamp};
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::house::{Hands, NOW_MS};
use super::{Met, Target, cut, text};

pub(super) const TARGET: Target = Target {
    name: "credentials",
    run,
    longest: 1_500,
    words: &[
        "key\n",
        "token\n",
        "signed\n",
        "set\n",
        "fg_live_",
        "_",
        "{\"alg\":\"EdDSA\",\"kid\":\"k\"}",
        "\"HS256\"",
        "\"none\"",
        "\"exp\":",
        "\"nbf\":",
        "\"aud\":",
        "\"iss\":\"https://issuer\"",
        "\"sub\":\"worker\"",
        "\"roles\":[\"writer\"]",
        "1789286400",
        "1789286460",
        "1e300",
        "1.5e300",
        "-1",
        "1789286460.5",
        "\"gateway\"",
        "[\"gateway\"]",
        ".",
        "==",
        "null",
        "\"kty\":\"OKP\",\"crv\":\"Ed25519\"",
        "\"x\":\"AAAA\"",
        "\"use\":\"enc\"",
        "\"kty\":\"RSA\"",
        "{\"keys\":[",
        "]}",
    ],
    meets: &[
        "key read",
        "key refused",
        "key opens",
        "token refused",
        "signed opens",
        "signed refused",
        "set read",
        "set refused",
    ],
};

const SEED: [u8; 32] = [0x42; 32];

/// What is known here.
struct Known {
    access: Access,
    pair: Ed25519KeyPair,
    key: ApiKey,
}

static KNOWN: LazyLock<Known> = LazyLock::new(|| {
    let pair = Ed25519KeyPair::from_seed_unchecked(&SEED).expect("a seed of 32 bytes");
    let x = URL_SAFE_NO_PAD.encode(pair.public_key());
    let set = json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "k", "x": x}]});
    // It stays, since it is read once more.
    let path = tempfile::tempdir().expect("a folder").keep().join("keys.json");
    std::fs::write(&path, set.to_string()).expect("a file");
    let settings = JwtSettings {
        issuer: "https://issuer".to_owned(),
        audiences: vec!["gateway".to_owned()],
        keys: KeysFrom::File(path),
        algorithms: vec![Algorithm::EdDSA],
        leeway: Millis::new(30_000),
        refresh: Millis::new(86_400_000),
        max_stale: Millis::new(86_400_000),
        roles_claim: Some("roles".to_owned()),
    };
    let (tokens, fetcher) = Tokens::open(settings, Arc::new(Hands)).expect("keys");
    // It fetches once, and then sleeps for a day: whoever asks before waits for it.
    std::thread::spawn(|| running().block_on(fetcher.run(CancellationToken::new())));
    let key = ApiKey::of([7; 6], [9; 32]);
    let name = PrincipalName::parse("worker").expect("a name");
    let principal = Principal {
        keys: vec![HeldKey { id: key.id().clone(), digest: key.digest(), expires_at: None }],
        jwt_subjects: vec!["worker".to_owned()],
        jwt_roles: vec!["writer".to_owned()],
        ..Principal::new(name, Rules::unlimited())
    };
    Known { access: Access::new(Roster::of([principal])).with_tokens(Some(tokens)), pair, key }
});

fn running() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// The first line says what the rest is.
fn run(data: &[u8], met: &mut Met) {
    let (what, rest) = cut(data, b'\n');
    match (what, text(rest)) {
        (b"key", Some(text)) => key(text, met),
        (b"token", Some(text)) => {
            let opens = lets_in(text);
            met.note(if opens { "token opens" } else { "token refused" });
            assert!(!opens || text == KNOWN.key.reveal().as_str(), "nobody made this token");
        }
        (b"signed", Some(text)) => signed(text, met),
        (b"set", _) => {
            let usable = usable_keys(rest);
            met.read("set", &usable);
            assert!(usable.is_ok_and(|keys| (1..=64).contains(&keys)) || usable_keys(rest).is_err());
        }
        (_, _) => met.note("nothing"),
    }
}

fn lets_in(bearer: &str) -> bool {
    let identified = KNOWN.access.identify(Some(bearer), None, Timestamp::from_ms(NOW_MS));
    running().block_on(identified).is_ok_and(|caller| caller.name().as_str() == "worker")
}

fn key(text: &str, met: &mut Met) {
    let key = ApiKey::parse(text);
    met.read("key", &key);
    if let Ok(key) = &key {
        assert_eq!(key.reveal().as_str(), text, "a key has one spelling");
        assert_eq!(KeyId::parse(key.id().as_str()).as_ref(), Ok(key.id()));
        assert_eq!(KeyDigest::parse(&key.digest().to_string()), Ok(key.digest()));
    }
    let opens = lets_in(text);
    assert_eq!(opens, text == KNOWN.key.reveal().as_str(), "only the key that was given out opens");
    if opens {
        met.note("key opens");
    }
}

/// A header and claims, signed by the issuer's own key.
fn signed(text: &str, met: &mut Met) {
    let (header, claims) = text.split_once('\n').unwrap_or(("{\"alg\":\"EdDSA\",\"kid\":\"k\"}", text));
    let (claims, place) = claims.split_once('\n').unwrap_or((claims, ""));
    let message = format!("{}.{}", URL_SAFE_NO_PAD.encode(header), URL_SAFE_NO_PAD.encode(claims));
    let signature = KNOWN.pair.sign(message.as_bytes());
    let token = format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref()));
    let opens = lets_in(&token);
    met.note(if opens { "signed opens" } else { "signed refused" });
    if opens {
        assert!(holds(claims), "{claims} does not hold now and here");
        let at =
            place.bytes().fold(0_usize, |sum, byte| sum.wrapping_mul(256).wrapping_add(usize::from(byte)));
        let mut letters = token.clone().into_bytes();
        let at = at % letters.len();
        letters[at] ^= 1;
        let other = String::from_utf8_lossy(&letters).into_owned();
        assert!(!lets_in(&other), "letter {at} of the token does not count");
    }
}

/// Whether a token with these claims is one for us that holds now, told in other words.
fn holds(claims: &str) -> bool {
    let Ok(Value::Object(claims)) = serde_json::from_str(claims) else { return false };
    let (now, leeway) = (u32::try_from(NOW_MS / 1_000).map(f64::from).expect("seconds"), 30.0);
    let seconds = |name: &str| claims.get(name).and_then(Value::as_f64);
    let audience = match claims.get("aud") {
        Some(Value::String(one)) => one == "gateway",
        Some(Value::Array(all)) => all.iter().any(|one| one == "gateway"),
        _ => false,
    };
    let known = claims.get("sub").is_some_and(|subject| subject == "worker")
        || match claims.get("roles") {
            Some(Value::String(all)) => all.split(' ').any(|role| role == "writer"),
            Some(Value::Array(all)) => all.iter().any(|role| role == "writer"),
            _ => false,
        };
    let begun = !claims.contains_key("nbf")
        || claims["nbf"].is_null()
        || seconds("nbf").is_some_and(|at| at <= now + leeway + 1.0);
    claims.get("iss").is_some_and(|issuer| issuer == "https://issuer")
        && audience
        && known
        && begun
        && seconds("exp").is_some_and(|at| at + leeway > now - 1.0)
}
