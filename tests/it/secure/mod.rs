//! Who is let in over a network: TLS, certificates of callers, and tokens of an issuer, all over real sockets.

mod callers;
mod command;
pub(crate) mod figures;
mod issuer;
mod listener;
mod outage;
mod private;
mod reload;
mod tokens;

use std::path::{Path, PathBuf};

use fencegate::config::{Config, FileText, Flags, Nowhere, Sources, Variables};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, SanType};
use tempfile::TempDir;

use crate::support::client::Client;
use crate::support::engines::Kind;
use crate::support::gateway::Gateway;
use fencegate::tls::client::Trust;

/// One that issues certificates, and the folder that they lie in.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    folder: TempDir,
}

impl Authority {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        std::fs::write(folder.path().join("ca.pem"), certificate.pem()).unwrap();
        Self { issuer: Issuer::new(params, key), folder }
    }

    fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }

    /// A certificate with these names, and its key: `NAME.pem` and `NAME.key`.
    fn issue(&self, name: &str, names: &[SanType]) -> (PathBuf, PathBuf) {
        self.issue_with(name, names, (2035, 1, 1))
    }

    fn issue_with(&self, name: &str, names: &[SanType], ends: (i32, u8, u8)) -> (PathBuf, PathBuf) {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.subject_alt_names = names.to_vec();
        params.not_after = rcgen::date_time_ymd(ends.0, ends.1, ends.2);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let files = (self.path(&format!("{name}.pem")), self.path(&format!("{name}.key")));
        std::fs::write(&files.0, certificate.pem()).unwrap();
        drop(std::fs::remove_file(&files.1));
        private(&files.1, &key.serialize_pem());
        files
    }

    /// The certificate of a gateway on this machine.
    fn issue_gateway(&self, name: &str) {
        self.issue_gateway_until(name, (2035, 1, 1));
    }

    /// The same with another end.
    fn issue_gateway_until(&self, name: &str, ends: (i32, u8, u8)) {
        let names = [dns("localhost"), SanType::IpAddress("127.0.0.1".parse().unwrap())];
        self.issue_with(name, &names, ends);
    }

    /// The table of a gateway with the certificate of that name.
    fn table(&self, name: &str, more: &str) -> String {
        let (cert, key) = (self.path(&format!("{name}.pem")), self.path(&format!("{name}.key")));
        format!("tls = {{ cert_file = {cert:?}, key_file = {key:?}{more} }}\n")
    }

    /// One that believes this authority, and shows a certificate.
    fn trust(&self, identity: Option<(PathBuf, PathBuf)>) -> Trust {
        Trust { ca_file: Some(self.path("ca.pem")), identity }
    }
}

/// Writes a file that nobody else can read.
fn private(path: &Path, text: &str) {
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut file = std::fs::OpenOptions::new().create_new(true).write(true).mode(0o600).open(path).unwrap();
    std::io::Write::write_all(&mut file, text.as_bytes()).unwrap();
}

fn uri(text: &str) -> SanType {
    SanType::URI(text.try_into().unwrap())
}

fn dns(text: &str) -> SanType {
    SanType::DnsName(text.try_into().unwrap())
}

fn parsed(text: &str) -> Config {
    let file = FileText { path: Path::new("f.toml"), text };
    let (variables, flags) = (Variables::new(), Flags::default());
    let sources = Sources { file: Some(file), variables: &variables, flags: &flags, outside: &Nowhere };
    Config::parse(&sources).unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

async fn gateway(text: &str) -> Gateway {
    Gateway::configured(Kind::Memory, &parsed(text)).await
}

/// A client over TLS. It speaks to the same address.
fn secure(gateway: &Gateway, trust: &Trust) -> Client {
    Client::trusting(format!("https://{}", gateway.client.address()), trust)
}
