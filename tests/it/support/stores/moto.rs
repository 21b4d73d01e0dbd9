//! An S3 of moto, which keeps objects in memory. It takes one request at a time: moto's own server has threads and no
//! lock between a condition and its write, so that two writers could both pass one `If-Match`, which S3 does not allow.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use super::python;
use crate::support::issuers::{answers, new_folder, on_free_ports, start};
use crate::support::postgres::binaries::run;
use crate::support::postgres::watched::Watched;
use crate::support::wheels::Wheel;

/// `$1` is the port, `$2` the folder of packages or nothing. Who sends no credentials may do everything.
const SERVER: &str = r#"
import sys
sys.path[:0] = filter(None, sys.argv[2:])
from moto.moto_server.werkzeug_app import create_backend_app
from werkzeug.serving import run_simple

store = create_backend_app("s3")

def for_everybody(environ, begin):
    somebody = "AWS4-HMAC-SHA256 Credential=somebody/20260101/us-east-1/s3/aws4_request"
    environ.setdefault("HTTP_AUTHORIZATION", somebody)
    return store(environ, begin)

run_simple("127.0.0.1", int(sys.argv[1]), for_everybody, threaded=False)
"#;

/// Whether what is needed is there, in a version that obeys `If-Match` on a PUT.
const QUESTION: &str = r#"
import sys
sys.path[:0] = filter(None, sys.argv[1:])
import flask, flask_cors, moto.moto_server.werkzeug_app
assert tuple(map(int, moto.__version__.split(".")[:2])) >= (5, 2), moto.__version__
"#;

/// Where Python has none of its own. Its parts are made for one version of Python: another one needs another folder.
static WHEEL: Wheel = Wheel {
    name: "moto[s3]>=5.2",
    below: "test-moto",
    inside: "",
    further: &["--only-binary=:all:", "flask", "flask-cors"],
};

/// Where moto is.
#[derive(Debug)]
pub(crate) struct Package {
    python: &'static str,
    /// None where Python finds it by itself.
    folder: Option<PathBuf>,
}

impl Package {
    /// Looked for once; fetched where there is none.
    pub(crate) fn found() -> Result<&'static Self, &'static str> {
        static FOUND: OnceLock<Result<Package, String>> = OnceLock::new();
        FOUND.get_or_init(Self::look).as_ref().map_err(String::as_str)
    }

    fn look() -> Result<Self, String> {
        let python = python::interpreter()?;
        let own = Self { python, folder: None };
        if own.answers().is_ok() {
            return Ok(own);
        }
        let fetched = Self { python, folder: Some(WHEEL.place()) };
        if !WHEEL.place().exists() {
            WHEEL.fetch("moto")?;
        }
        match fetched.answers() {
            Ok(()) => Ok(fetched),
            Err(error) => Err(format!("remove {} and try again: {error}", WHEEL.place().display())),
        }
    }

    fn answers(&self) -> Result<(), String> {
        run(Command::new(self.python).args(["-c", QUESTION]).args(&self.folder))
    }
}

/// An S3 that runs; it ends with this value or with this process.
#[derive(Debug)]
pub(crate) struct Moto {
    port: u16,
    _server: Watched,
}

impl Moto {
    /// A new one with this bucket.
    pub(crate) fn start(package: &Package, bucket: &str) -> Self {
        let folder = new_folder("moto");
        let (server, port) = on_free_ports(
            |ports| {
                let mut command: Vec<String> =
                    [package.python, "-c", SERVER].into_iter().map(str::to_owned).collect();
                command.push(ports[0].to_string());
                command.extend(package.folder.iter().map(|folder| folder.display().to_string()));
                let ready =
                    || answers(ports[0], "GET / HTTP/1.0\r\nhost: x\r\n\r\n", "ListAllMyBucketsResult");
                Ok((start(&folder, &command, ready)?, ports[0]))
            },
            1,
        );
        let create = format!("PUT /{bucket} HTTP/1.0\r\nhost: 127.0.0.1:{port}\r\ncontent-length: 0\r\n\r\n");
        assert!(answers(port, &create, "200 OK"), "no bucket {bucket}");
        Self { port, _server: server }
    }

    /// Where it listens on 127.0.0.1.
    pub(crate) const fn port(&self) -> u16 {
        self.port
    }

    /// The address below which buckets are.
    pub(crate) fn base(&self) -> String {
        format!("http://127.0.0.1:{}/", self.port)
    }
}
