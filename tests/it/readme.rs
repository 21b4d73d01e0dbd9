//! Every `sh` block of the README and of the recipes runs, in order, in one shell, against a fresh gateway, and gives what
//! the page says.

use std::path::Path;
use std::process::Command;

use crate::support::gateway::{Process, binary};

/// Printed by the shell after each block; it stands in no block.
const END_OF_BLOCK: &str = "\u{1e}";

/// A block to run, and what the page says that it prints.
struct Block {
    script: String,
    expected: Option<String>,
}

/// A `text` block that stands directly below an `sh` block is its expected output.
fn blocks(page: &str) -> Vec<Block> {
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

/// Compares without white space; `…` stands for anything.
fn fits(expected: &str, found: &str) -> bool {
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

fn run(blocks: &[Block], url: &str, folder: &Path) -> Vec<String> {
    let mut script = String::from("set -euo pipefail\n");
    for block in blocks {
        script.push_str(&block.script);
        script.push_str("\nprintf '\\036'\n");
    }
    let path = format!("{}:{}", binary().parent().unwrap().display(), std::env::var("PATH").unwrap());
    let output = Command::new("bash")
        .arg("-c")
        .arg(&script)
        .current_dir(folder)
        .env("PATH", path)
        .env("FENCEGATE_URL", url)
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

#[test]
fn every_shell_block_of_the_readme_does_what_it_says() {
    does_what_it_says("README.md", 6, 5);
}

#[test]
fn every_recipe_for_run_does_what_it_says() {
    does_what_it_says("docs/RUN.md", 3, 3);
}

/// A page must have at least so many blocks, and so many with what they print: an empty page would hold.
fn does_what_it_says(page: &str, scripts: usize, answers: usize) {
    let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(page)).unwrap();
    let blocks = blocks(&page);
    assert!(blocks.len() >= scripts, "blocks are missing");
    let expected = blocks.iter().filter(|block| block.expected.is_some()).count();
    assert!(expected >= answers, "the answers are missing");
    let (home, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let gateway = Process::start(home.path());
    let printed = run(&blocks, &gateway.base, work.path());
    for (block, printed) in blocks.iter().zip(&printed) {
        if let Some(expected) = &block.expected {
            assert!(
                fits(expected, printed),
                "this block:\n{}\n\nsays:\n{expected}\n\nprinted:\n{printed}",
                block.script
            );
        }
    }
    assert_eq!(gateway.terminate(), Some(0));
}

#[test]
fn the_comparison_can_fail() {
    assert!(fits("a…c", "a b c"));
    assert!(fits("…", ""));
    assert!(!fits("a…c", "a b"));
    assert!(!fits("abc", "abcd"));
    assert!(!fits("a…b…c", "a c b"));
}
