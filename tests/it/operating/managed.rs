//! Under a service manager: what it is told, and the unit that it reads.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;

use crate::support::gateway::{Process, command};

/// A socket as the service manager has it.
struct Manager {
    socket: UnixDatagram,
}

impl Manager {
    fn at(folder: &Path) -> Self {
        let socket = UnixDatagram::bind(folder.join("notify")).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        Self { socket }
    }

    /// The next thing that is told, feedings of the watchdog aside.
    fn hears(&self) -> String {
        loop {
            let heard = self.hears_anything();
            if heard != "WATCHDOG=1" {
                return heard;
            }
        }
    }

    fn hears_anything(&self) -> String {
        let mut bytes = [0; 4_096];
        let count = self.socket.recv(&mut bytes).expect("nothing was told");
        String::from_utf8(bytes[..count].to_vec()).unwrap().trim_end().to_owned()
    }
}

/// Broken: a service manager takes a gateway for ready before it serves, for hung while it works, or kills it in the middle
/// of its stop. Must hold: it is told when the gateway is ready, that it lives, of each reload with what became of it, and
/// of the stop.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_manager_is_told_of_each_step() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("fencegate.toml");
    std::fs::write(&file, "drain_delay = \"1s\"\n").unwrap();
    let manager = Manager::at(folder.path());
    let mut serve = command(folder.path());
    serve.env("NOTIFY_SOCKET", folder.path().join("notify")).env("WATCHDOG_USEC", "900000");
    let gateway = Process::start_as(serve);
    assert_eq!(manager.hears(), "READY=1\nSTATUS=serving");
    let client = gateway.client();
    assert_eq!(client.get("/readyz").await.status, 200);
    for _ in 0..3 {
        assert_eq!(manager.hears_anything(), "WATCHDOG=1");
    }

    std::fs::write(&file, "drain_delay = \"2s\"\nlog = \"warn\"\nlisten = \"127.0.0.1:1\"\n").unwrap();
    gateway.signal(Signal::HUP);
    let reloading = manager.hears();
    assert!(reloading.starts_with("RELOADING=1\nMONOTONIC_USEC="), "{reloading}");
    let told = manager.hears();
    assert_eq!(told, "READY=1\nSTATUS=serving; reloaded");
    let status = client.get("/v1/status").await.expect(200);
    let reload = &status["reload"];
    assert_eq!(reload["result"], "applied", "--listen stands above the file: {reload}");
    assert_eq!(reload["changed"], serde_json::json!(["log", "drain_delay"]));

    std::fs::write(&file, "drain_delay = \"never\"\n[namespaces.a]\n").unwrap();
    gateway.signal(Signal::HUP);
    manager.hears();
    assert!(manager.hears().contains("the last reload was refused"));
    let status = client.get("/v1/status").await.expect(200);
    assert_eq!(status["reload"]["result"], "refused", "{status}");
    std::fs::write(&file, "operation_retention = \"2d\"\ndrain_delay = \"0s\"\n").unwrap();
    gateway.signal(Signal::HUP);
    manager.hears();
    assert!(manager.hears().contains("some keys take a restart"));
    let reload = client.get("/v1/status").await.expect(200)["reload"].clone();
    assert_eq!(
        (&reload["result"], &reload["ignored"]),
        (&"needs_restart".into(), &serde_json::json!(["operation_retention"]))
    );
    client.acquire("jobs/a", "alice").await;

    let ended = tokio::task::spawn_blocking(move || gateway.terminate());
    assert_eq!(manager.hears(), "STOPPING=1\nSTATUS=draining");
    assert_eq!(ended.await.unwrap(), Some(0));
}

/// Broken: under socket activation the gateway opens another socket, and nobody is served. Must hold: it serves on the one
/// that was handed over.
#[test]
fn a_socket_that_was_handed_over_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let script = "import os,socket,sys\n\
        s=socket.socket(); s.bind(('127.0.0.1',0)); s.listen(16); print(s.getsockname()[1],flush=True)\n\
        os.dup2(s.fileno(),3); os.set_inheritable(3,True)\n\
        os.environ['LISTEN_FDS']='1'; os.environ['LISTEN_PID']=str(os.getpid())\n\
        os.execv(sys.argv[1],[sys.argv[1],'serve','--listen','127.0.0.1:1'])";
    let mut python = Command::new("python3");
    python.current_dir(folder.path()).args(["-c", script]).arg(crate::support::gateway::binary());
    let Ok(mut child) =
        python.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::null()).spawn()
    else {
        println!("python3 is missing: the hand-over of a socket was not tried");
        return;
    };
    let mut port = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut port)
        .unwrap();
    let mut stream = TcpStream::connect(format!("127.0.0.1:{}", port.trim())).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(b"GET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}

/// Broken: the unit has a key that systemd does not know, or leaves open what the gateway never needs. Must hold: systemd
/// reads it without a complaint, and rates it as well protected. Where it is not installed its keys are looked at here.
#[test]
fn the_unit_is_read_and_closes_what_is_not_needed() {
    let unit = concat!(env!("CARGO_MANIFEST_DIR"), "/ops/systemd/fencegate.service");
    let text = std::fs::read_to_string(unit).unwrap();
    for line in [
        "Type=notify",
        "WatchdogSec=30",
        "DynamicUser=yes",
        "ProtectSystem=strict",
        "NoNewPrivileges=yes",
        "ExecReload=/bin/kill -HUP $MAINPID",
    ] {
        assert!(text.lines().any(|one| one == line), "{line} is missing");
    }
    assert!(text.contains("LoadCredential=seal-key:"));
    let Ok(verified) = Command::new("systemd-analyze").args(["verify", "--man=no", unit]).output() else {
        println!("systemd-analyze is missing: the unit was read here alone");
        return;
    };
    let said = String::from_utf8_lossy(&verified.stderr).into_owned();
    // The binary is not installed on a machine that runs tests.
    let complaints: Vec<&str> = said
        .lines()
        .filter(|line| line.contains("fencegate.service") && !line.contains("is not executable"))
        .collect();
    assert!(complaints.is_empty(), "{complaints:?}");
    let rated = Command::new("systemd-analyze")
        .args(["security", "--offline=true", "--threshold=20", "--no-pager", unit])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&rated.stdout).into_owned() + &String::from_utf8_lossy(&rated.stderr);
    assert!(rated.status.success() || said.contains("unrecognized option"), "{said}");
}
