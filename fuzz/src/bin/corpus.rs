//! `corpus unpack` makes of the committed corpora (`corpora/NAME.txt`) what libFuzzer reads: `corpus/NAME/` and
//! `dictionaries/NAME`. `corpus pack` takes what a minimised folder has back into the text, below what was written by hand.

use std::error::Error;
use std::fs;
use std::path::Path;

/// What stands above the inputs that were found.
const FOUND: &str = "# Found by libFuzzer, and minimised: what else leads to other code.";

/// Most inputs that are taken back, the shortest first.
const INPUTS: usize = 200;

/// Longest input that is taken back, in bytes.
const BYTES: usize = 600;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let wanted = std::env::args().nth(1);
    for (name, longest) in fencegate_fuzz::names() {
        match wanted.as_deref() {
            Some("unpack") => unpack(folder, name)?,
            Some("pack") => pack(folder, name)?,
            _ => return Err("corpus unpack | corpus pack".into()),
        }
        println!("{name}, at most {longest} bytes");
    }
    Ok(())
}

fn unpack(folder: &Path, name: &str) -> Result<(), Box<dyn Error>> {
    let text = fs::read_to_string(folder.join(format!("corpora/{name}.txt")))?;
    let into = folder.join(format!("corpus/{name}"));
    fs::create_dir_all(&into)?;
    for (number, input) in fencegate_fuzz::inputs(&text).iter().enumerate() {
        fs::write(into.join(format!("committed-{number:04}")), input)?;
    }
    fs::create_dir_all(folder.join("dictionaries"))?;
    Ok(fs::write(folder.join(format!("dictionaries/{name}")), fencegate_fuzz::dictionary(name))?)
}

fn pack(folder: &Path, name: &str) -> Result<(), Box<dyn Error>> {
    let path = folder.join(format!("corpora/{name}.txt"));
    let text = fs::read_to_string(&path)?;
    let by_hand = text.split(FOUND).next().unwrap_or_default().trim_end();
    let known = fencegate_fuzz::inputs(by_hand);
    let mut found = Vec::new();
    for entry in fs::read_dir(folder.join(format!("corpus/{name}")))? {
        let input = fs::read(entry?.path())?;
        if input.len() <= BYTES && !input.is_empty() && !known.contains(&input) && !found.contains(&input) {
            found.push(input);
        }
    }
    found.sort_by_key(Vec::len);
    // Evenly out of all lengths: the shortest alone would be the dullest.
    let apart = found.len().div_ceil(INPUTS).max(1);
    let lines: Vec<String> = found.iter().step_by(apart).map(|input| fencegate_fuzz::line(input)).collect();
    Ok(fs::write(path, format!("{by_hand}\n\n{FOUND}\n{}\n", lines.join("\n")))?)
}
