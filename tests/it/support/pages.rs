//! The shell blocks of a document, run as they stand there: a page that no longer does what it says fails.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::gateway::binary;

/// Printed by the shell after each block; it stands in no block.
const END_OF_BLOCK: &str = "\u{1e}";

/// A page has so many seconds: what it waits for may never come.
const SECONDS: &str = "120";

/// A block to run, and what the page says that it prints.
#[derive(Debug, Clone)]
pub(crate) struct Block {
    pub(crate) script: String,
    pub(crate) expected: Option<String>,
}

/// Where the blocks run.
#[derive(Debug, Default)]
pub(crate) struct Surroundings {
    /// Further variables.
    pub(crate) variables: Vec<(&'static str, String)>,
    /// Folders of further programs.
    pub(crate) programs: Vec<PathBuf>,
}

/// A page of this repository.
pub(crate) fn page(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// The `sh` blocks of a page. A `text` block that stands directly below one is its expected output.
pub(crate) fn blocks(page: &str) -> Vec<Block> {
    let mut found: Vec<Block> = Vec::new();
    let mut lines = page.lines().peekable();
    let mut after_script = false;
    while let Some(line) = lines.next() {
        match line {
            "```sh" | "```text" => {
                let body: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
                let body = body.join("\n");
                if line == "```sh" {
                    found.push(Block { script: body, expected: None });
                } else if after_script {
                    found.last_mut().unwrap().expected = Some(body);
                }
                after_script = line == "```sh";
            }
            _ => after_script = false,
        }
    }
    found
}

/// The configuration that a page shows.
pub(crate) fn configuration(page: &str) -> String {
    let rest = page.split("```toml\n").nth(1).expect("the page shows a configuration");
    rest.split("```").next().unwrap_or_default().to_owned()
}

/// Compares without white space; `…` stands for anything.
pub(crate) fn fits(expected: &str, found: &str) -> bool {
    let bare = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
    let (expected, found) = (bare(expected), bare(found));
    let mut parts = expected.split('…');
    let Some(mut rest) = parts.next().and_then(|first| found.strip_prefix(first)) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// Runs the blocks in order, in one shell in this folder, against the gateway at `url`; each must print what stands below
/// it.
pub(crate) fn hold(blocks: &[Block], url: &str, folder: &Path, surroundings: &Surroundings) {
    let printed = run(blocks, url, folder, surroundings);
    for (block, printed) in blocks.iter().zip(&printed) {
        if let Some(expected) = &block.expected {
            assert!(
                fits(expected, printed),
                "this block:\n{}\n\nsays:\n{expected}\n\nprinted:\n{printed}",
                block.script
            );
        }
    }
}

fn run(blocks: &[Block], url: &str, folder: &Path, surroundings: &Surroundings) -> Vec<String> {
    // A block that fails may leave a process behind that holds the shell's pipes open, perhaps a stopped one.
    let mut script =
        String::from("set -euo pipefail\ntrap 'kill -KILL $(jobs -p) 2>/dev/null || true' EXIT\n");
    for block in blocks {
        script.push_str(&block.script);
        script.push_str("\nprintf '\\036'\n");
    }
    let mut path = binary().parent().unwrap().display().to_string();
    for folder in &surroundings.programs {
        path = format!("{path}:{}", folder.display());
    }
    let output = Command::new("timeout")
        .args(["--kill-after=5", SECONDS, "bash", "-c"])
        .arg(&script)
        .current_dir(folder)
        .env("PATH", format!("{path}:{}", std::env::var("PATH").unwrap()))
        .env("FENCEGATE_URL", url)
        .envs(surroundings.variables.iter().map(|(name, value)| (name, value)))
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{}\n{printed}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    printed.split(END_OF_BLOCK).map(str::to_owned).collect()
}
