//! The command line as it is read, and the client against answers that are made up here.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::thread;

use clap::{CommandFactory as _, Parser as _};
use reqwest::Method;

use super::client::Client;
use super::failure::{Ending, Failure};
use super::{Cli, block_on};

fn parsed(line: &str) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(std::iter::once("fencegate").chain(line.split_whitespace()))
}

const ID: &str = "edkP3vX0cS1uV7yRk2mTbQw5";

#[test]
fn the_command_line_is_well_formed() {
    Cli::command().debug_assert();
}

#[test]
fn every_command_is_read_in_its_documented_form() {
    let lines = [
        "serve".to_owned(),
        "--config f.toml serve --listen 127.0.0.1:0 --database memory --seal-key-file k".to_owned(),
        "serve --config f.toml".to_owned(),
        "check --json".to_owned(),
        "migrate".to_owned(),
        "migrate --status".to_owned(),
        "migrate --dry-run".to_owned(),
        "backup".to_owned(),
        "backup --to f --json".to_owned(),
        "restore f".to_owned(),
        "restore --older f".to_owned(),
        "recover".to_owned(),
        "recover a --all --records-only".to_owned(),
        "migrate --finish".to_owned(),
        "lease acquire a/b".to_owned(),
        "lease acquire a/b --holder h --ttl 30s --request-id 5b0c7a52-0d2e-4c8e-9f57-3f1f8c1a6b2d".to_owned(),
        "lease acquire a/b --wait 60s".to_owned(),
        "lease acquire a/b --resource a/c --resource a/d --wait 0".to_owned(),
        "lease acquire --resource a/b --resource a/c".to_owned(),
        format!("lease renew {ID}"),
        format!("lease transfer {ID} --holder h"),
        format!("lease transfer {ID} --holder h --ttl 30s --request-id 5b0c7a52-0d2e-4c8e-9f57-3f1f8c1a6b2d"),
        format!("lease renew {ID} --ttl 1500ms"),
        format!("lease release {ID}"),
        "run --resource a/b -- command".to_owned(),
        "run --resource a/b --resource a/c --wait 60s --ttl 30s --holder h --grace 10s -- command --flag -x"
            .to_owned(),
        "run --resource a/b --wait 0 --grace 0 --url http://127.0.0.1:1 -- command -- --".to_owned(),
        "write a/b --token 0.1.x --operation o f".to_owned(),
        "write a/b --token 1 --operation o --sequence 4 --incarnation 1 --content-type text/plain -"
            .to_owned(),
        "write a/b --token 1 --operation o --if-match 1.2 --if-none-match * f".to_owned(),
        "write a/b --token 1 --operation o --delete".to_owned(),
        "get a/b".to_owned(),
        "get a/b -o f --url http://127.0.0.1:1".to_owned(),
        "inspect a/b".to_owned(),
        "timeline a/b".to_owned(),
        "timeline a/b --limit 100 --cursor c".to_owned(),
        "namespaces".to_owned(),
        "namespaces change a --reason r".to_owned(),
        "namespaces change a --reason r --confirm a --key k".to_owned(),
        "revoke a/b --reason r".to_owned(),
        "cancel a/b --reason r --fencing-token 0.1.x --key k".to_owned(),
        "reopen a/b --reason r --key k".to_owned(),
        "operations a/b".to_owned(),
        "operations a/b o --incarnation 2".to_owned(),
        "operations a/b --state applied --limit 100 --cursor c".to_owned(),
        "demo".to_owned(),
        "openapi".to_owned(),
        "completions bash".to_owned(),
        "man d".to_owned(),
    ];
    for line in lines {
        assert!(parsed(&line).is_ok(), "{line}");
    }
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_is_sent() {
    let lines = [
        "",
        "servee",
        "migrate --status --dry-run",
        "backup f",
        "restore",
        "recover a/b",
        "migrate --status --finish",
        "namespaces change a",
        "namespaces change a/b --reason r",
        "lease acquire a",
        "lease acquire a/../b",
        "lease acquire a/b --ttl 0s",
        "lease acquire a/b --request-id 5",
        "lease acquire",
        "lease acquire a/b --wait soon",
        "lease acquire --resource a",
        "lease renew short",
        "lease transfer edkP3vX0cS1uV7yRk2mTbQw5",
        "lease transfer --holder h",
        "revoke a/b",
        "revoke a/b --reason",
        "cancel a --reason r",
        "reopen a/b --reason r --fencing-token x",
        "run --resource a/b",
        "run --resource a/b --",
        "run --resource a/b command",
        "run -- command",
        "run --resource a -- command",
        "run --resource a/b --wait 5 -- command",
        "run --resource a/b --ttl 0 -- command",
        "run --resource a/b --grace -1s -- command",
        "write a/b --token 1 --operation o",
        "write a/b --token 1 f",
        "write a/b --token 0 --operation o f",
        "write a/b --token 1 --operation ö f",
        "write a/b --token 1 --operation o --sequence 0 f",
        "write a/b --token 1 --operation o --sequence 01 f",
        "write a/b --token 1 --operation o --content-type text f",
        "write a/b --token 1 --operation o --delete f",
        "operations a/b --limit 0",
        "operations a/b --limit 101",
        "operations a/b --incarnation 1",
        "operations a/b o --limit 1",
        "completions cobol",
    ];
    for line in lines {
        let error = parsed(line).err().unwrap_or_else(|| panic!("{line}"));
        assert_eq!(error.exit_code(), 2, "{line}");
    }
}

#[test]
fn help_and_version_are_no_mistakes() {
    for line in ["--help", "help write", "write --help", "--version"] {
        assert_eq!(parsed(line).err().map(|error| error.exit_code()), Some(0), "{line}");
    }
}

#[test]
fn what_this_program_starts_of_itself_is_no_command_for_people() {
    let mut script = Vec::new();
    clap_complete::generate(clap_complete::Shell::Bash, &mut Cli::command(), "fencegate", &mut script);
    let script = String::from_utf8(script).unwrap();
    for word in [super::demo::WORKER, super::run::LAUNCH] {
        assert!(!script.contains(word) && parsed(word).is_err(), "{word}");
    }
}

/// Answers one request with these bytes, and gives what was asked.
fn one_answer(answer: &'static str) -> (String, thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let asked = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = Vec::new();
        let mut byte = [0; 1];
        while !head.ends_with(b"\r\n\r\n") {
            stream.read_exact(&mut byte).unwrap();
            head.extend(byte);
        }
        stream.write_all(answer.as_bytes()).unwrap();
        String::from_utf8(head).unwrap()
    });
    (address, asked)
}

/// How a question ends that is answered so, and what was asked.
fn ending_of(answer: &'static str) -> (Result<(), Failure>, String) {
    let (address, asked) = one_answer(answer);
    let ended = block_on(async {
        let client = Client::new(&address)?;
        client.ask(client.request(Method::GET, "/v1/x"), "Look there").await.map(drop)
    });
    (ended, asked.join().unwrap())
}

#[test]
fn an_answer_is_taken_as_it_is() {
    let (ended, asked) = ending_of("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}");
    assert!(ended.is_ok());
    assert!(asked.starts_with("GET /v1/x HTTP/1.1\r\n"), "{asked}");
    assert!(asked.contains("user-agent: fencegate/"), "{asked}");
}

#[test]
fn a_cut_answer_is_unknown_and_says_where_to_look() {
    let (ended, _) = ending_of("HTTP/1.1 200 OK\r\ncontent-length: 20\r\n\r\n{}");
    let failure = ended.unwrap_err();
    assert_eq!(failure.ending(), Ending::Unknown);
    assert!(failure.told().contains("Look there"), "{}", failure.told());
}

#[test]
fn a_redirect_is_not_followed_and_a_stranger_is_not_believed() {
    for answer in [
        "HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 404 Not Found\r\ncontent-type: text/html\r\ncontent-length: 6\r\n\r\n<html>",
        "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 6\r\n\r\n<html>",
    ] {
        let (ended, _) = ending_of(answer);
        let failure = ended.unwrap_err();
        assert_eq!(failure.ending(), Ending::Unknown, "{answer}");
        assert!(failure.told().contains("is not a fencegate gateway"), "{}", failure.told());
    }
}

#[test]
fn nobody_there_is_said_plainly() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let ended = block_on(async {
        let client = Client::new(&address)?;
        client.ask(client.request(Method::GET, "/"), "").await.map(drop)
    });
    let failure = ended.unwrap_err();
    assert_eq!(failure.ending(), Ending::Unknown);
    assert!(failure.told().contains("fencegate serve"), "{}", failure.told());
}
