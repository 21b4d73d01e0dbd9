//! What the documents name is there: a table of who catches what is worth nothing once the test has another name.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path, ending));
        } else if path.to_string_lossy().ends_with(ending) {
            found.push(path);
        }
    }
    found
}

/// The name with which a text goes on.
fn word(text: &str) -> &str {
    let end = text.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    end.map_or(text, |end| &text[..end])
}

/// Functions and modules of the sources and tests.
fn names(root: &Path) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for file in [files(&root.join("src"), ".rs"), files(&root.join("tests/it"), ".rs")].concat() {
        names.insert(file.file_stem().unwrap().to_string_lossy().into_owned());
        names.insert(file.parent().unwrap().file_name().unwrap().to_string_lossy().into_owned());
        let text = fs::read_to_string(&file).unwrap();
        for keyword in ["fn ", "mod "] {
            names.extend(text.split(keyword).skip(1).map(|rest| word(rest).to_owned()));
        }
    }
    names
}

/// What stands between single back-ticks and is a path of modules, `one::two`.
fn paths(text: &str) -> impl Iterator<Item = &str> {
    let path = |quoted: &&str| {
        quoted.contains("::") && quoted.split("::").all(|part| !part.is_empty() && word(part) == part)
    };
    text.split('`').filter(path)
}

#[test]
fn every_test_that_a_document_names_is_there() {
    // Broken: a test gets another name, and the table of what it catches goes on naming the old one. Must hold: each path in
    // the documents ends with a function or a module of today.
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let names = names(root);
    let pages =
        [files(&root.join("docs"), ".md"), vec![root.join("README.md"), root.join("CONTRIBUTING.md")]];
    let mut seen = 0;
    for page in pages.concat() {
        let text = fs::read_to_string(&page).unwrap();
        for path in paths(&text) {
            let last = path.rsplit("::").next().unwrap_or_default();
            // Types, with capital letters, are looked after by rustdoc.
            if last.chars().all(|letter| !letter.is_ascii_uppercase()) {
                assert!(names.contains(last), "{}: there is no {path}", page.display());
                seen += 1;
            }
        }
    }
    assert!(seen > 200, "only {seen} names were found: they are written in another way now");
}
