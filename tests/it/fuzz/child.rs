//! A process of its own for each target: it may take only so much memory, and where it ends without a word, as with a stack that
//! is used up, its last input is known all the same.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};

use super::changes::Dice;
use super::targets::{Met, TARGETS, Target, corpus as spelling};

const NAME: &str = "FUZZ_TARGET";
const LAST: &str = "FUZZ_LAST_INPUT";
const SECONDS: &str = "FENCEGATE_TEST_FUZZ_SECONDS";
const SEED: &str = "FENCEGATE_TEST_FUZZ_SEED";
const INPUT: &str = "FENCEGATE_TEST_FUZZ_INPUT";

/// Longest that the work on one input may take, counted as the processor's time: others use the machine too.
const HANG: Duration = Duration::from_secs(1);

/// What such a process may take of memory, in bytes. A few kilobytes of input must never need as much.
const MEMORY: u64 = 768 * 1_048_576;

/// Longest that a failing input is made shorter.
const SHORTENING: Duration = Duration::from_secs(3);

/// The committed inputs of a target.
pub(super) fn corpus(name: &str) -> Vec<Vec<u8>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("fuzz/corpora/{name}.txt"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    spelling::inputs(&text)
}

/// Feeds a target in a process of its own, and tells what was wrong.
pub(super) fn feed(name: &str) {
    let folder = tempfile::tempdir().unwrap();
    let last = folder.path().join("last");
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["fuzz::child::feeds_what_it_is_told_to", "--exact", "--nocapture", "--test-threads=1"])
        .env(NAME, name)
        .env(LAST, &last)
        .env("RUST_BACKTRACE", "0")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    println!("{}", said.lines().filter(|line| line.starts_with(name)).collect::<Vec<_>>().join("\n"));
    if !output.status.success() {
        let input = spelling::line(&last_input(&last));
        let complaint = String::from_utf8_lossy(&output.stderr);
        panic!(
            "{}\n{complaint}\n{name} ends with this input, as a line of fuzz/corpora/{name}.txt:\n{input}",
            output.status
        );
    }
}

fn last_input(path: &Path) -> Vec<u8> {
    let bytes = std::fs::read(path).unwrap_or_default();
    let Some((length, rest)) = bytes.split_first_chunk::<8>() else { return Vec::new() };
    rest.get(..usize::try_from(u64::from_le_bytes(*length)).unwrap()).unwrap_or_default().to_vec()
}

/// Not a test by itself: the program of the process that a test starts, which does nothing when it is run with the others.
#[test]
fn feeds_what_it_is_told_to() {
    let Ok(name) = std::env::var(NAME) else { return };
    setrlimit(Resource::Data, Rlimit { current: Some(MEMORY), maximum: Some(MEMORY) }).unwrap();
    let target = TARGETS.iter().find(|target| target.name == name).unwrap();
    let last = File::create(std::env::var_os(LAST).unwrap()).unwrap();
    let mut feeder = Feeder { target, last, met: Met::default(), slowest: Duration::ZERO };
    if let Ok(line) = std::env::var(INPUT) {
        return feeder.one(&spelling::input(&line));
    }
    let mut inputs = corpus(&name);
    inputs.push(Vec::new());
    for input in &inputs {
        feeder.one(input);
    }
    let made_up = feeder.change(&mut inputs);
    let missing: Vec<_> = target.meets.iter().filter(|what| !feeder.met.0.contains_key(**what)).collect();
    let Feeder { met, slowest, .. } = feeder;
    println!(
        "\n{name}: {} inputs and {made_up} changed ones, the slowest {slowest:?}, {}; {:?}",
        inputs.len(),
        peak(),
        met.0
    );
    assert!(missing.is_empty(), "never met: {missing:?}");
}

fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// The most memory that was in use.
fn peak() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or("VmHWM: not known").replace('\t', " ")
}

/// Time of the processor that this thread has used.
fn used() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap(), u32::try_from(time.tv_nsec).unwrap())
}

/// Time that goes on.
fn now() -> Duration {
    let time = clock_gettime(ClockId::Monotonic);
    Duration::new(u64::try_from(time.tv_sec).unwrap(), u32::try_from(time.tv_nsec).unwrap())
}

struct Feeder {
    target: &'static Target,
    last: File,
    met: Met,
    slowest: Duration,
}

impl Feeder {
    /// Changed copies until the time is over. What leads to something new is changed further.
    fn change(&mut self, inputs: &mut Vec<Vec<u8>>) -> u64 {
        let mut dice = Dice::of(number(SEED, 1));
        let end = now() + Duration::from_secs(number(SECONDS, 2));
        let mut count = 0;
        while now() < end {
            let input = dice.changed(inputs, self.target.words, self.target.longest);
            let known = self.met.0.len();
            self.one(&input);
            count += 1;
            if self.met.0.len() > known {
                inputs.push(input);
            }
        }
        count
    }

    fn one(&mut self, input: &[u8]) {
        self.note(input);
        let (target, met) = (self.target, &mut self.met);
        let began = used();
        let run = catch_unwind(AssertUnwindSafe(|| (target.run)(input, met)));
        let took = used().saturating_sub(began);
        self.slowest = self.slowest.max(took);
        if run.is_err() {
            let shorter = self.shortened(input);
            self.note(&shorter);
            panic!(
                "something does not hold; the input is {} bytes long, and made shorter {}",
                input.len(),
                shorter.len()
            );
        }
        assert!(took < HANG, "it takes {took:?}");
    }

    fn note(&self, input: &[u8]) {
        let length = u64::try_from(input.len()).unwrap().to_le_bytes();
        self.last.write_all_at(&[&length, input].concat(), 0).unwrap();
    }

    /// The same with as much left out as can be while something does not hold.
    fn shortened(&self, input: &[u8]) -> Vec<u8> {
        let hook = take_hook();
        set_hook(Box::new(|_| {}));
        let (mut shortest, mut size, end) = (input.to_vec(), input.len() / 2, now() + SHORTENING);
        while size > 0 && now() < end {
            let mut at = 0;
            while at + size <= shortest.len() && now() < end {
                let shorter = [&shortest[..at], &shortest[at + size..]].concat();
                if catch_unwind(|| (self.target.run)(&shorter, &mut Met::default())).is_err() {
                    shortest = shorter;
                } else {
                    at += size;
                }
            }
            size /= 2;
        }
        set_hook(hook);
        shortest
    }
}
