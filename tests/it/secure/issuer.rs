//! An issuer of tokens: a small server with its public keys, and the keys that it signs with.

use std::sync::atomic::{AtomicBool, AtomicU16, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::support::clock::START_MS;

/// What every token of these tests is for, and who makes it.
pub(super) const AUDIENCE: &str = "fencegate";
pub(super) const NAME: &str = "https://issuer.example/";

/// The instant at which the gateway's clock begins, in seconds.
pub(super) const NOW: i64 = START_MS / 1_000;

enum Pair {
    Ec(EcdsaKeyPair),
    Ed(Ed25519KeyPair),
}

/// A key that signs tokens.
pub(super) struct Signer {
    pub(super) name: String,
    pair: Pair,
}

impl Signer {
    pub(super) fn ec(name: &str) -> Self {
        let (how, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
        let key = EcdsaKeyPair::generate_pkcs8(how, &random).unwrap();
        let pair = Pair::Ec(EcdsaKeyPair::from_pkcs8(how, key.as_ref(), &random).unwrap());
        Self { name: name.to_owned(), pair }
    }

    pub(super) fn ed(name: &str) -> Self {
        let key = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Self { name: name.to_owned(), pair: Pair::Ed(Ed25519KeyPair::from_pkcs8(key.as_ref()).unwrap()) }
    }

    pub(super) const fn algorithm(&self) -> &'static str {
        match self.pair {
            Pair::Ec(_) => "ES256",
            Pair::Ed(_) => "EdDSA",
        }
    }

    /// The public key, as bytes.
    pub(super) fn public(&self) -> Vec<u8> {
        match &self.pair {
            Pair::Ec(pair) => pair.public_key().as_ref().to_vec(),
            Pair::Ed(pair) => pair.public_key().as_ref().to_vec(),
        }
    }

    pub(super) fn jwk(&self) -> Value {
        let public = self.public();
        match self.pair {
            Pair::Ec(_) => json!({
                "kty": "EC", "crv": "P-256", "use": "sig", "kid": self.name,
                "x": encoded(&public[1..33]), "y": encoded(&public[33..]),
            }),
            Pair::Ed(_) => json!({"kty": "OKP", "crv": "Ed25519", "kid": self.name, "x": encoded(&public)}),
        }
    }

    /// A token with this header and these claims.
    pub(super) fn sign(&self, header: &Value, claims: &Value) -> String {
        let message = message(header, claims);
        let signature = match &self.pair {
            Pair::Ec(pair) => pair.sign(&SystemRandom::new(), message.as_bytes()).unwrap().as_ref().to_vec(),
            Pair::Ed(pair) => pair.sign(message.as_bytes()).as_ref().to_vec(),
        };
        format!("{message}.{}", encoded(&signature))
    }

    /// A token of these claims, with the header that belongs to the key.
    pub(super) fn token(&self, claims: &Value) -> String {
        self.sign(&json!({"alg": self.algorithm(), "kid": self.name}), claims)
    }
}

/// What a good token says of somebody.
pub(super) fn claims(subject: &str) -> Value {
    json!({"iss": NAME, "aud": AUDIENCE, "sub": subject, "exp": NOW + 600, "nbf": NOW - 5})
}

/// The same with some claims changed; null takes one away.
pub(super) fn with(claims: &Value, changes: &Value) -> Value {
    let mut claims = claims.clone();
    for (name, value) in changes.as_object().unwrap() {
        match value {
            Value::Null => drop(claims.as_object_mut().unwrap().remove(name)),
            value => claims[name] = value.clone(),
        }
    }
    claims
}

pub(super) fn message(header: &Value, claims: &Value) -> String {
    format!("{}.{}", encoded(header.to_string().as_bytes()), encoded(claims.to_string().as_bytes()))
}

pub(super) fn encoded(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

#[derive(Default)]
struct State {
    body: Mutex<String>,
    status: AtomicU16,
    silent: AtomicBool,
    fetches: AtomicUsize,
}

/// The server.
pub(super) struct Issuer {
    pub(super) url: String,
    state: Arc<State>,
    task: JoinHandle<()>,
}

impl Issuer {
    pub(super) async fn start(keys: &[&Signer]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/keys", listener.local_addr().unwrap());
        let state = Arc::new(State::default());
        let task = tokio::spawn(serve(listener, state.clone()));
        let issuer = Self { url, state, task };
        issuer.publish(keys);
        issuer
    }

    /// It has these keys from now on.
    pub(super) fn publish(&self, keys: &[&Signer]) {
        let keys: Vec<Value> = keys.iter().map(|key| key.jwk()).collect();
        self.answer(200, json!({ "keys": keys }).to_string());
    }

    /// It answers so from now on.
    pub(super) fn answer(&self, status: u16, body: String) {
        *self.state.body.lock().unwrap() = body;
        self.state.status.store(status, Ordering::SeqCst);
        self.state.silent.store(false, Ordering::SeqCst);
    }

    /// It takes requests, and answers none.
    pub(super) fn fall_silent(&self) {
        self.state.silent.store(true, Ordering::SeqCst);
    }

    /// How often it was asked.
    pub(super) fn fetches(&self) -> usize {
        self.state.fetches.load(Ordering::SeqCst)
    }
}

impl Drop for Issuer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(listener: TcpListener, state: Arc<State>) {
    while let Ok((mut stream, _)) = listener.accept().await {
        let state = state.clone();
        drop(tokio::spawn(async move {
            let mut seen = Vec::new();
            while !seen.ends_with(b"\r\n\r\n") {
                let Ok(byte) = stream.read_u8().await else { return };
                seen.push(byte);
            }
            state.fetches.fetch_add(1, Ordering::SeqCst);
            if state.silent.load(Ordering::SeqCst) {
                // Until the other side gives up.
                drop(stream.read_u8().await);
                return;
            }
            let body = state.body.lock().unwrap().clone();
            let head = format!(
                "HTTP/1.1 {} X\r\nlocation: /elsewhere\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                state.status.load(Ordering::SeqCst),
                body.len()
            );
            drop(stream.write_all(format!("{head}{body}").as_bytes()).await);
        }));
    }
}
