//! `run` at a terminal: who may read, and what Ctrl-C and Ctrl-Z do.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use fencegate::app::SystemClock;
use fencegate::domain::time::Clock as _;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use super::upstream::{self, Upstream, granted};
use super::{Scene, until, with_signals};

/// How long a key may go without an effect before it is pressed again.
const AGAIN: Duration = Duration::from_millis(700);

/// A shell script in a session with a terminal of its own.
struct Terminal {
    keyboard: File,
    screen: Arc<Mutex<String>>,
    child: Child,
}

impl Terminal {
    fn play(scene: &Scene, base: &str, script: &str) -> Self {
        let keyboard = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&keyboard).unwrap();
        unlockpt(&keyboard).unwrap();
        let name = ptsname(&keyboard, Vec::new()).unwrap();
        let name = Path::new(std::ffi::OsStr::from_bytes(name.as_bytes()));
        let side = || File::options().read(true).write(true).open(name).unwrap();
        let mut session = with_signals(scene.path(), Path::new("setsid"));
        session.args(["--ctty", "--wait", "bash", "--norc", "-c", script]);
        session.env("FENCEGATE_URL", base).stdin(side()).stdout(side()).stderr(Stdio::from(side()));
        let child = session.spawn().unwrap();
        let keyboard = File::from(keyboard);
        let (screen, mut shown) = (Arc::<Mutex<String>>::default(), keyboard.try_clone().unwrap());
        let written = screen.clone();
        thread::spawn(move || {
            let mut bytes = [0; 4_096];
            while let Ok(length @ 1..) = shown.read(&mut bytes) {
                written.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..length]));
            }
        });
        Self { keyboard, screen, child }
    }

    fn types(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    fn shows(&self, text: &str) {
        until(text, || self.screen.lock().unwrap().contains(text));
    }

    /// Types once more while nothing comes of it: a shell that is just about to start something can miss a signal.
    fn types_until_it_shows(&mut self, keys: &str, text: &str) {
        let clock = SystemClock::started();
        let mut typed = 0;
        until(text, || {
            if clock.monotonic() >= AGAIN * typed {
                self.keyboard.write_all(keys.as_bytes()).unwrap();
                typed += 1;
            }
            self.screen.lock().unwrap().contains(text)
        });
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // The terminal hangs up with its last holder, and the session ends with that; already gone is fine.
        drop(self.child.kill());
        drop(self.child.wait());
        if thread::panicking() {
            println!("the screen:\n{}", self.screen.lock().unwrap());
        }
    }
}

fn gateway() -> Upstream {
    Upstream::start(|asked, _| match asked.what {
        "acquire" => granted(60_000),
        _ => upstream::released(),
    })
}

/// A command that asks a question must get its answer, and the script after it must get the next one.
#[test]
fn the_command_reads_from_the_terminal_and_the_script_after_it_does_too() {
    let (gateway, scene) = (gateway(), Scene::new());
    let script = "fencegate run --resource jobs/a -- sh -c 'echo ask; read -r line; echo first=$line'
                  echo code=$?; read -r line; echo second=$line; exit";
    let mut terminal = Terminal::play(&scene, &gateway.base, script);
    terminal.shows("ask");
    terminal.types("one\n");
    terminal.shows("first=one");
    terminal.shows("code=0");
    terminal.types("two\n");
    terminal.shows("second=two");
}

#[test]
fn ctrl_c_ends_the_command_and_is_told_by_the_code() {
    let (gateway, scene) = (gateway(), Scene::new());
    // With a trap the shell goes on after the interrupt, and can tell the code.
    let script = "trap : INT; fencegate run --resource jobs/a -- sh -c 'echo up; sleep 60'; echo code=$?";
    let mut terminal = Terminal::play(&scene, &gateway.base, script);
    terminal.shows("up");
    terminal.types_until_it_shows("\u{3}", "code=130");
    assert_eq!(gateway.order(), ["acquire", "release"]);
}

/// Stopped and resumed as one job, whether or not the command has the terminal.
#[test]
fn ctrl_z_stops_the_command_too_and_it_goes_on_in_front() {
    for (asks, answer) in [("true", ""), ("read -r line", "one\n")] {
        let (gateway, scene) = (gateway(), Scene::new());
        let script = format!(
            "set -m; fencegate run --resource jobs/a -- bash -c '{asks}; trap \"echo resumed\" CONT; echo up
             while ! test -e end; do i=$((i+1)); echo $i > count; sleep 0.02; done; exit 14'
             echo stopped=$?; until test -e seen; do sleep 0.02; done; fg > /dev/null; echo code=$?"
        );
        let mut terminal = Terminal::play(&scene, &gateway.base, &script);
        if !answer.is_empty() {
            until("it is started", || !gateway.asked("acquire").is_empty());
            terminal.types(answer);
        }
        terminal.shows("up");
        terminal.types("\u{1a}");
        terminal.shows("stopped=1");
        let count = || scene.read("count");
        let (before, clock) = (count(), SystemClock::started());
        until("a moment has passed", || clock.monotonic() > Duration::from_millis(300));
        assert_eq!(count(), before, "the command goes on while it should be stopped");
        std::fs::write(scene.path().join("seen"), "").unwrap();
        terminal.shows("resumed");
        std::fs::write(scene.path().join("end"), "").unwrap();
        terminal.shows("code=14");
    }
}
