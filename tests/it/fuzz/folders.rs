//! Corpora between their text, which is kept, and the folders that libFuzzer works on.

use std::fs;
use std::path::Path;

use super::targets::{TARGETS, Target, corpus as spelling};

/// What stands above the inputs that were found.
const FOUND: &str = "# Found by libFuzzer, and minimised.";

/// Most found inputs of a target, and the longest of them in bytes.
const INPUTS: usize = 150;
const BYTES: usize = 600;

/// Not a test by itself: `FENCEGATE_TEST_FUZZ_CORPORA=unpack` writes `fuzz/corpus/NAME/` and `fuzz/dictionaries/NAME`, and `pack`
/// takes what a minimised folder has into `fuzz/corpora/NAME.txt`, below what was written by hand.
#[test]
fn corpora_are_unpacked_and_packed() {
    let Ok(wanted) = std::env::var("FENCEGATE_TEST_FUZZ_CORPORA") else { return };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
    for target in TARGETS {
        match wanted.as_str() {
            "unpack" => unpack(&folder, target),
            "pack" => pack(&folder, target.name),
            other => panic!("{other:?}: unpack or pack"),
        }
    }
}

fn unpack(folder: &Path, target: &Target) {
    let into = folder.join("corpus").join(target.name);
    fs::create_dir_all(&into).unwrap();
    for (number, input) in super::child::corpus(target.name).iter().enumerate() {
        fs::write(into.join(format!("committed-{number:04}")), input).unwrap();
    }
    let quoted = |word: &&str| {
        let bytes: Vec<String> = word.bytes().map(|byte| format!("\\x{byte:02x}")).collect();
        format!("\"{}\"\n", bytes.concat())
    };
    fs::create_dir_all(folder.join("dictionaries")).unwrap();
    let words: String = target.words.iter().map(quoted).collect();
    fs::write(folder.join("dictionaries").join(target.name), words).unwrap();
    println!("{}: -max_len={}", target.name, target.longest);
}

fn pack(folder: &Path, name: &str) {
    let path = folder.join(format!("corpora/{name}.txt"));
    let text = fs::read_to_string(&path).unwrap();
    let by_hand = text.split(FOUND).next().unwrap().trim_end();
    let known = spelling::inputs(by_hand);
    let files = fs::read_dir(folder.join("corpus").join(name)).unwrap();
    let mut found: Vec<Vec<u8>> = files.map(|file| fs::read(file.unwrap().path()).unwrap()).collect();
    found.retain(|input| (1..=BYTES).contains(&input.len()) && !known.contains(input));
    found.sort_by(|one, other| (one.len(), one).cmp(&(other.len(), other)));
    found.dedup();
    // Evenly out of all lengths: the shortest alone would be the dullest.
    let apart = found.len().div_ceil(INPUTS).max(1);
    let lines: Vec<String> = found.iter().step_by(apart).map(|input| spelling::line(input)).collect();
    fs::write(path, format!("{by_hand}\n\n{FOUND}\n{}\n", lines.join("\n"))).unwrap();
    println!("{name}: {} found inputs are kept", lines.len());
}
