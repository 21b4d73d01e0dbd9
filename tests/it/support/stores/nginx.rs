//! An nginx that keeps files by `WebDAV`: PUT and DELETE, no conditions, no positions, no keys.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::support::issuers::{answers, new_folder, on_free_ports, start};
use crate::support::postgres::watched::Watched;
use crate::support::programs::is_program;

/// Where nginx is.
#[derive(Debug)]
pub(crate) struct Program(PathBuf);

impl Program {
    /// Looked for once: in the `PATH`, and where Debian puts it.
    pub(crate) fn found() -> Result<&'static Self, &'static str> {
        static FOUND: OnceLock<Result<Program, String>> = OnceLock::new();
        FOUND.get_or_init(Self::look).as_ref().map_err(String::as_str)
    }

    fn look() -> Result<Self, String> {
        let path = env::var_os("PATH").unwrap_or_default();
        let mut programs = env::split_paths(&path)
            .chain([PathBuf::from("/usr/sbin")])
            .map(|folder| folder.join("nginx"))
            .filter(|program| is_program(program));
        let program = programs.next().ok_or("nginx is missing (Debian: apt-get install nginx)")?;
        let said = Command::new(&program).arg("-V").output().map_err(|error| error.to_string())?;
        let built = String::from_utf8_lossy(&said.stderr);
        if built.contains("http_dav_module") {
            Ok(Self(program))
        } else {
            Err(format!("{} was built without http_dav_module: {built}", program.display()))
        }
    }
}

/// An nginx that runs; it ends, and its files go, with this value or with this process.
#[derive(Debug)]
pub(crate) struct Nginx {
    folder: PathBuf,
    port: u16,
    _server: Watched,
}

impl Nginx {
    pub(crate) fn start(program: &Program) -> Self {
        let folder = new_folder("nginx");
        fs::create_dir(folder.join("files")).unwrap();
        let settings = folder.join("nginx.conf");
        let (server, port) = on_free_ports(
            |ports| {
                fs::write(&settings, configuration(&folder, ports[0])).unwrap();
                let (program, settings) = (program.0.display().to_string(), settings.display().to_string());
                let prefix = folder.display().to_string();
                let command =
                    [program, "-p".into(), prefix, "-c".into(), settings, "-e".into(), "stderr".into()];
                let ready = || answers(ports[0], "GET /.ready HTTP/1.0\r\n\r\n", "204 No Content");
                Ok((start(&folder, &command, ready)?, ports[0]))
            },
            1,
        );
        Self { folder, port, _server: server }
    }

    /// The address below which it keeps files.
    pub(crate) fn base(&self) -> String {
        format!("http://127.0.0.1:{}/", self.port)
    }

    /// Its own log: method, path and answered status of each request, in the order in which they ended. A line is written
    /// after the answer was sent, so whoever has the answer may have to ask again.
    pub(crate) fn arrivals(&self) -> Vec<String> {
        let log = fs::read_to_string(self.folder.join("arrivals")).unwrap();
        log.lines().map(str::to_owned).collect()
    }
}

/// One process, so that it ends as a whole; all files in its folder.
fn configuration(folder: &Path, port: u16) -> String {
    let folder = folder.display();
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|of| format!("  {of}_temp_path {folder}/{of};\n"))
        .concat();
    format!(
        "daemon off;\nmaster_process off;\npid {folder}/pid;\nerror_log stderr;\n\
         events {{ worker_connections 512; }}\n\
         http {{\n{temporary}\
         \x20 log_format arrivals '$request_method $uri $status';\n\
         \x20 access_log {folder}/arrivals arrivals;\n\
         \x20 client_max_body_size 64m;\n\
         \x20 server {{\n\
         \x20   listen 127.0.0.1:{port};\n\
         \x20   root {folder}/files;\n\
         \x20   location = /.ready {{ access_log off; return 204; }}\n\
         \x20   location / {{ dav_methods PUT DELETE; create_full_put_path on; dav_access user:rw; }}\n\
         \x20 }}\n}}\n"
    )
}
