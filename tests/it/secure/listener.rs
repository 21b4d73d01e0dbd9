//! TLS on the listener: what is spoken, which certificate is shown, and which files are refused.

use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;

use fencegate::app::{listener, reload_tls};
use fencegate::tls::client::config;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ProtocolVersion, RootCertStore, version};

use super::{Authority, gateway, parsed, secure};
use crate::support::client::Client;
use crate::support::gateway::Gateway;

type Wire = TlsStream<TcpStream>;

async fn wire(gateway: &Gateway, config: ClientConfig) -> std::io::Result<Wire> {
    let stream = TcpStream::connect(gateway.client.address()).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

/// Asks and reads the status line of the answer.
async fn ask(wire: &mut Wire) -> String {
    wire.write_all(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut seen = Vec::new();
    while !seen.windows(4).any(|end| end == b"\r\n\r\n") {
        seen.push(wire.read_u8().await.unwrap());
    }
    let head = String::from_utf8(seen).unwrap().to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    wire.read_exact(&mut vec![0; length.parse().unwrap()]).await.unwrap();
    head.lines().next().unwrap().to_owned()
}

fn shown(wire: &Wire) -> Vec<u8> {
    wire.get_ref().1.peer_certificates().unwrap()[0].to_vec()
}

#[tokio::test]
async fn a_new_certificate_is_for_new_connections_and_a_damaged_one_for_none() {
    // Broken: a certificate that is renewed every day takes a restart each time, or cuts what is under way, or a half-written
    // file leaves the gateway without any. Must hold: old connections go on, new ones get the new one, and what cannot be
    // used changes nothing.
    let authority = Authority::new();
    authority.issue_gateway("gate");
    let config_text = authority.table("gate", "");
    let gateway = gateway(&config_text).await;
    let (settings, tls) = (parsed(&config_text).tls.unwrap(), gateway.tls.clone().unwrap());
    let trusting = || config(&authority.trust(None), true).unwrap();
    let mut old = wire(&gateway, trusting()).await.unwrap();
    assert_eq!(ask(&mut old).await, "http/1.1 200 ok");
    let until = tls.until();

    authority.issue_gateway("gate");
    reload_tls(&tls, &settings).unwrap();
    let mut new = wire(&gateway, trusting()).await.unwrap();
    assert_ne!(shown(&old), shown(&new));
    assert_eq!(
        (ask(&mut old).await, ask(&mut new).await),
        ("http/1.1 200 ok".to_owned(), "http/1.1 200 ok".to_owned())
    );

    for (file, text) in [("gate.pem", ""), ("gate.pem", "-----BEGIN CERTIFICATE-----\nAA"), ("gate.key", "")]
    {
        let kept = std::fs::read(authority.path(file)).unwrap();
        std::fs::write(authority.path(file), text).unwrap();
        let told = format!("{:#}", reload_tls(&tls, &settings).unwrap_err());
        assert!(told.contains(file) && told.contains("stays"), "{told}");
        std::fs::write(authority.path(file), kept).unwrap();
    }
    // A certificate with the key of another one, in the moment between two renames.
    authority.issue_gateway("other");
    std::fs::copy(authority.path("other.pem"), authority.path("gate.pem")).unwrap();
    assert!(reload_tls(&tls, &settings).is_err());
    let third = wire(&gateway, trusting()).await.unwrap();
    assert_eq!(shown(&third), shown(&new));
    assert_eq!(tls.until(), until);
    gateway.stop().await;
}

#[tokio::test]
async fn what_is_not_offered_is_not_spoken() {
    // Broken: a client that speaks HTTP/2 alone, or no TLS, hangs or is misunderstood. Must hold: it is turned away at once,
    // and both versions of TLS that are safe are spoken.
    let authority = Authority::new();
    authority.issue_gateway("gate");
    let gateway = gateway(&authority.table("gate", "")).await;
    let trusting = || config(&authority.trust(None), true).unwrap();
    for (offered, spoken) in
        [(&["http/1.1"][..], true), (&["h2", "http/1.1"][..], true), (&["h2"][..], false)]
    {
        let mut config = trusting();
        config.alpn_protocols = offered.iter().map(|word| word.as_bytes().to_vec()).collect();
        let wire = wire(&gateway, config).await;
        assert_eq!(wire.is_ok(), spoken, "{offered:?}");
        if let Ok(mut wire) = wire {
            assert_eq!(wire.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
            assert_eq!(ask(&mut wire).await, "http/1.1 200 ok");
        }
    }
    for (version, spoken) in
        [(&version::TLS12, ProtocolVersion::TLSv1_2), (&version::TLS13, ProtocolVersion::TLSv1_3)]
    {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(authority.path("ca.pem")).unwrap()).unwrap();
        let config = ClientConfig::builder_with_protocol_versions(&[version])
            .with_root_certificates(roots)
            .with_no_client_auth();
        let mut wire = wire(&gateway, config).await.unwrap();
        assert_eq!(ask(&mut wire).await, "http/1.1 200 ok");
        assert_eq!(wire.get_ref().1.protocol_version(), Some(spoken));
    }
    let mut plain = TcpStream::connect(gateway.client.address()).await.unwrap();
    plain.write_all(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    drop(plain.read_to_end(&mut answer).await);
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
    // A client that believes somebody else does not go on.
    assert!(wire(&gateway, config(&Authority::new().trust(None), true).unwrap()).await.is_err());
    let client: Client = secure(&gateway, &authority.trust(None));
    client.get("/livez").await.expect(200);
    gateway.stop().await;
}

#[tokio::test]
async fn the_end_does_not_wait_for_who_never_agrees() {
    // Broken: a socket that says nothing keeps the gateway from stopping. Must hold: it is let go.
    let authority = Authority::new();
    authority.issue_gateway("gate");
    let gateway = gateway(&authority.table("gate", "")).await;
    let mut silent = TcpStream::connect(gateway.client.address()).await.unwrap();
    secure(&gateway, &authority.trust(None)).get("/livez").await.expect(200);
    gateway.stop().await;
    assert_eq!(silent.read(&mut [0; 1]).await.unwrap_or(0), 0);
}

#[test]
fn files_that_cannot_be_used_are_told_before_anything_is_listened_on() {
    // Broken: a key that a whole group can read is used; a missing file is found when the first caller comes. Must hold: each
    // is told with its name, and nothing of a key is said.
    let authority = Authority::new();
    authority.issue_gateway("gate");
    let config =
        parsed(&authority.table("gate", &format!(", client_ca_file = {:?}", authority.path("ca.pem"))));
    assert!(listener(&config).unwrap().is_some());
    let told = || {
        let told = listener(&config).err().map(|error| format!("{error:#}")).unwrap();
        assert!(!told.contains("PRIVATE"), "{told}");
        told
    };
    let key = authority.path("gate.key");
    for mode in [0o640, 0o604, 0o660] {
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(mode)).unwrap();
        assert!(told().contains("chmod 600"), "{mode:o}");
    }
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    for (file, wrong) in [("gate.key", "nothing"), ("gate.pem", "nothing"), ("ca.pem", "nothing")] {
        let kept = std::fs::read(authority.path(file)).unwrap();
        std::fs::write(authority.path(file), wrong).unwrap();
        assert!(told().contains(file), "{file}");
        std::fs::remove_file(authority.path(file)).unwrap();
        assert!(told().contains(file), "{file}");
        if file == "gate.key" {
            super::private(&key, &String::from_utf8(kept).unwrap());
        } else {
            std::fs::write(authority.path(file), kept).unwrap();
        }
    }
    assert!(listener(&config).unwrap().is_some());
}
