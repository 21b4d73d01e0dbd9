//! What it costs to know a caller: the same reads and writes by callers without credentials, with a key, with a token of each
//! usual algorithm, and with a certificate, cell beside cell in each round.
//!
//! A token that was found right is remembered, so that what the load sees is the cost of a known one. What the first look
//! costs is measured beside it, without a gateway.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, bail};
use serde::Deserialize;
use serde_json::Value;
use tokio_rustls::TlsConnector;

use super::load::Known;
use super::request::Workload;
use super::rounds::Rounds;
use super::stage::{Server, command};
use super::templates;
use crate::access::jwt::{Algorithm, JwtSettings, KeysFrom, Tokens};
use crate::access::key::ApiKey;
use crate::access::{Access, HeldKey, Peer, Principal, Roster};
use crate::domain::permission::Rules;
use crate::domain::principal::PrincipalName;
use crate::domain::time::{Millis, Timestamp};
use crate::limits::{BENCH_LOOKS, BENCH_LOOKS_FIRST, JWKS_REFRESH_GREATEST_MS};
use crate::tls::client::{Trust, config};
use crate::tls::names::{CertificateName, Shown};

/// Keys and tokens of an issuer that does not exist, as `benches/README.md` says.
const ISSUED: &str = include_str!("../../benches/tokens.json");
const ISSUER: &str = "https://issuer.example/realms/bench";
const AUDIENCE: &str = "fencegate-bench";
const NAME: &str = "bench";
const URI: &str = "spiffe://bench/worker";

#[derive(Deserialize)]
struct Issued {
    jwks: Value,
    tokens: std::collections::BTreeMap<String, Arc<str>>,
}

/// The caller's name, and how it is known to which of the servers.
struct Way {
    name: String,
    server: usize,
    known: Known,
}

/// Measures every way, and says what was left out.
pub(super) async fn run(rounds: &mut Rounds<'_>) -> anyhow::Result<Vec<String>> {
    let issued: Issued =
        serde_json::from_str(ISSUED).context("the tokens of the benchmark cannot be read")?;
    let home = rounds.folder.fresh("access")?;
    let keys = home.join("keys.json");
    fs::write(&keys, issued.jwks.to_string()).context("cannot write the issuer's keys")?;
    looks(rounds, &issued, &keys).await?;
    (rounds.tell)("filling the database of the gateways");
    templates::fill_gateway(rounds.plan, &home, &templates::sqlite(&home)).await?;
    let key = ApiKey::of([7; 6], [9; 32]);
    let principal = format!(
        "\n[principals.{NAME}]\npermissions = {{ \"*\" = [\"read\", \"write\", \"advance\"] }}\nkeys = [{{ id = \"{}\", sha256 = \
         \"{}\" }}]\n",
        key.id(),
        key.digest()
    );
    let tokens = format!(
        "jwt_subjects = [\"{NAME}\"]\n\n[jwt]\nissuer = \"{ISSUER}\"\naudience = \"{AUDIENCE}\"\njwks_file = \"keys.json\"\n"
    );
    let log = rounds.plan.log.as_deref();
    let fresh = |name: &str| rounds.folder.copy(&home, name);
    let by_key = Known { bearer: Some(key.reveal().as_str().into()), tls: None };
    let mut servers = vec![
        templates::guarded(&fresh("open")?, "", Known::default(), log).await?,
        templates::guarded(&fresh("guarded")?, &format!("{principal}{tokens}"), Known::default(), log)
            .await?,
    ];
    let mut ways = vec![
        Way { name: "nothing".to_owned(), server: 0, known: Known::default() },
        Way { name: "key".to_owned(), server: 1, known: by_key.clone() },
    ];
    for (algorithm, token) in &issued.tokens {
        let known = Known { bearer: Some(token.clone()), tls: None };
        ways.push(Way { name: algorithm.clone(), server: 1, known });
    }
    let mut left_out = Vec::new();
    match secured(&fresh("secured")?).await {
        Err(why) => left_out.push(format!("certificates: {why:#}")),
        Ok((home, without, with)) => {
            let tls =
                "\n[tls]\ncert_file = \"gate.pem\"\nkey_file = \"gate.key\"\nclient_ca_file = \"ca.pem\"\n";
            let further = format!("{principal}certificates = [\"{URI}\"]\n{tls}");
            let without = Known { tls: Some(without), ..by_key };
            servers.push(templates::guarded(&home, &further, without.clone(), log).await?);
            ways.push(Way { name: "key, TLS".to_owned(), server: 2, known: without });
            let known = Known { bearer: None, tls: Some(with) };
            ways.push(Way { name: "certificate, TLS".to_owned(), server: 2, known });
        }
    }
    for round in 0..rounds.plan.rounds {
        cells(rounds, round, &servers, &ways).await?;
        ways.rotate_left(1);
    }
    for server in servers {
        server.stop().await?;
    }
    Ok(left_out)
}

/// Each way once, at each number of connections; its figures, and what they are of those without credentials.
async fn cells(rounds: &mut Rounds<'_>, round: u32, servers: &[Server], ways: &[Way]) -> anyhow::Result<()> {
    let resources = rounds.plan.resources;
    let workloads = [("reads", Workload::Read { resources }), ("writes", Workload::Distinct { resources })];
    for (kind, workload) in workloads {
        for at in rounds.plan.connections.clone() {
            let mut seen = Vec::new();
            for way in ways {
                let server = servers.get(way.server).context("no server")?;
                let sample = rounds.measure_as(server, workload, at, None, way.known.clone()).await?;
                if let Some(fault) = sample.fault {
                    bail!("{kind} at {at}, {}: {fault}", way.name);
                }
                (rounds.tell)(&format!("round {round} {kind} {at}, {}: {:.0}/s", way.name, sample.rate));
                seen.push((&way.name, sample.rate, sample.cpu_us));
            }
            let Some((_, base, base_cpu)) = seen.iter().find(|(name, ..)| *name == "nothing").copied() else {
                continue;
            };
            for (name, rate, cpu) in seen {
                let mut note = |what: &str, figure| {
                    rounds.results.note(&format!("access: {kind} at {at}, {name}: {what}"), round, figure);
                };
                note("per second", rate);
                note("of those without", rate / base.max(f64::MIN_POSITIVE));
                if let (Some(cpu), Some(base)) = (cpu, base_cpu) {
                    note("processor time, us", cpu);
                    note("processor time of those without", cpu / base.max(f64::MIN_POSITIVE));
                }
            }
        }
    }
    Ok(())
}

/// What one look at a credential takes, known or not, without a gateway around it.
async fn looks(rounds: &mut Rounds<'_>, issued: &Issued, keys: &Path) -> anyhow::Result<()> {
    let key = ApiKey::of([7; 6], [9; 32]);
    let held = HeldKey { id: key.id().clone(), digest: key.digest(), expires_at: None };
    let name = PrincipalName::parse(NAME).context("no name")?;
    let principal = Principal {
        keys: vec![held],
        certificates: vec![CertificateName::Uri(URI.to_owned())],
        jwt_subjects: vec![NAME.to_owned()],
        ..Principal::new(name, Rules::unlimited())
    };
    let until = Timestamp::from_ms(i64::MAX);
    let peer = Peer::of(Shown { names: vec![CertificateName::Uri(URI.to_owned())], until });
    let settings = JwtSettings {
        issuer: ISSUER.to_owned(),
        audiences: vec![AUDIENCE.to_owned()],
        keys: KeysFrom::File(keys.to_owned()),
        algorithms: vec![Algorithm::RS256, Algorithm::ES256, Algorithm::EdDSA],
        leeway: Millis::new(0),
        refresh: Millis::new(JWKS_REFRESH_GREATEST_MS),
        max_stale: Millis::new(JWKS_REFRESH_GREATEST_MS),
        roles_claim: Some("/realm_access/roles".to_owned()),
    };
    let open = || {
        let (tokens, _) = Tokens::open(settings.clone(), Arc::clone(rounds.clock))?;
        anyhow::Ok(Access::new(Roster::of([principal.clone()])).with_tokens(Some(tokens)))
    };
    let access = open()?;
    let key = key.reveal();
    let mut figures = Vec::new();
    let by_key = looked(rounds, &access, BENCH_LOOKS, Some(&key), None).await?;
    figures.push(("a key".to_owned(), by_key));
    figures
        .push(("a certificate".to_owned(), looked(rounds, &access, BENCH_LOOKS, None, Some(&peer)).await?));
    for (algorithm, token) in &issued.tokens {
        let mut first = Vec::new();
        for _ in 0..BENCH_LOOKS_FIRST {
            first.push(looked(rounds, &open()?, 1, Some(token), None).await?);
        }
        first.sort_by(f64::total_cmp);
        let middle = first.get(first.len() / 2).copied().unwrap_or_default();
        figures.push((format!("{algorithm}, the first time"), middle));
        let again = looked(rounds, &access, BENCH_LOOKS, Some(token), None).await?;
        figures.push((format!("{algorithm}, again"), again));
    }
    for (what, figure) in figures {
        rounds.results.note(&format!("access: looking at {what}, us"), 0, figure);
    }
    Ok(())
}

/// Microseconds of one of so many looks.
async fn looked(
    rounds: &Rounds<'_>,
    access: &Access,
    times: u32,
    bearer: Option<&str>,
    peer: Option<&Peer>,
) -> anyhow::Result<f64> {
    let (now, began) = (rounds.clock.wall(), rounds.clock.monotonic());
    for _ in 0..times {
        let caller = access.identify(bearer, peer, now).await?;
        anyhow::ensure!(caller.name().as_str() == NAME, "a credential of the benchmark names somebody else");
    }
    let took = rounds.clock.monotonic().saturating_sub(began);
    Ok(took.as_secs_f64() * 1_000_000.0 / f64::from(times))
}

/// Makes an authority, a server's certificate and a caller's with openssl; a client without the caller's, and one with it.
async fn secured(home: &Path) -> anyhow::Result<(PathBuf, TlsConnector, TlsConnector)> {
    let extension = "subjectAltName";
    let issue = ["-CA", "ca.pem", "-CAkey", "ca.key"];
    for (name, given, by) in [
        ("ca", "basicConstraints=critical,CA:TRUE".to_owned(), &[][..]),
        ("gate", format!("{extension}=IP:127.0.0.1"), &issue),
        ("worker", format!("{extension}=URI:{URI}"), &issue),
    ] {
        let (cert, key) = (format!("{name}.pem"), format!("{name}.key"));
        let mut openssl = command(Path::new("openssl"), home);
        openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]);
        openssl.args(["-days", "30", "-subj", &format!("/CN={name}"), "-addext", &given]);
        openssl.args(["-keyout", &key, "-out", &cert]).args(by);
        if name != "ca" {
            openssl.args(["-addext", "basicConstraints=critical,CA:FALSE"]);
        }
        let ended = openssl.output().await.context("openssl cannot be run")?;
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        anyhow::ensure!(ended.status.success(), "openssl: {said}");
        fs::set_permissions(home.join(&key), fs::Permissions::from_mode(0o600)).context("no key was made")?;
    }
    let connector = |identity| {
        let trust = Trust { ca_file: Some(home.join("ca.pem")), identity };
        config(&trust, true).map(|config| TlsConnector::from(Arc::new(config)))
    };
    let own = (home.join("worker.pem"), home.join("worker.key"));
    Ok((home.to_owned(), connector(None)?, connector(Some(own))?))
}
