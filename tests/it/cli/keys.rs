//! Keys, principals and verdicts from the command line.

use std::fs;
use std::io::Write as _;
use std::process::{Output, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::{Gateway, code, fencegate, json as answer, run, said};

/// A principal of a configuration with a fresh key; the key, and the text.
fn principal(name: &str, permissions: &str, more: &[&str]) -> (String, String) {
    let folder = tempfile::tempdir().unwrap();
    let made = answer(&run(folder.path(), &[&["key", "create", name], more].concat()));
    let text = |field: &str| made[field].as_str().unwrap().to_owned();
    let section =
        format!("[principals.{name}]\npermissions = {permissions}\nkeys = [{}]\n", text("configuration"));
    (text("key"), section)
}

fn with_key(gateway: &Gateway, key: &str, arguments: &[&str]) -> Output {
    let url = format!("http://{}", gateway.address);
    let arguments = [&["--url", &url], arguments].concat();
    fencegate(gateway.folder.path(), &arguments).env("FENCEGATE_KEY", key).output().unwrap()
}

/// The way of a key: made, configured, shown, rotated; what one may not do is refused and explained.
#[test]
fn a_key_opens_what_its_principal_may_do_and_nothing_else() {
    let (worker, one) = principal("worker", "{ jobs = [\"lease\", \"write\", \"read\"] }", &[]);
    let (operator, two) =
        principal("operator", "{ \"*\" = [\"read\", \"operate\"] }", &["--expires-in", "1h"]);
    let (old, three) = principal("old", "{ \"*\" = [\"read\"] }", &[]);
    let three = three.replace(" }]", ", expires_at = \"2020-01-01T00:00:00Z\" }]");
    let gateway = Gateway::configured(&[one, two, three].concat());
    fs::write(gateway.folder.path().join("f"), "x").unwrap();
    let lease = answer(&with_key(&gateway, &worker, &["lease", "acquire", "jobs/a"]));
    let token = lease["fencing_token"].as_str().unwrap();
    let write = ["write", "jobs/a", "--token", token, "--operation", "op-1", "f"];
    assert_eq!(answer(&with_key(&gateway, &worker, &write))["effect"], "applied");
    let told = answer(&with_key(&gateway, &operator, &["whoami"]));
    assert_eq!((&told["principal"], &told["credential"]), (&json!("operator"), &json!("key")));
    assert_ne!(told["expires_at"], Value::Null);
    let refused = with_key(&gateway, &operator, &["lease", "acquire", "jobs/b"]);
    assert_eq!(code(&refused), 1, "{}", said(&refused));
    assert!(said(&refused).contains("operator may not lease anything"), "{}", said(&refused));
    answer(&with_key(&gateway, &operator, &["revoke", "jobs/a", "--reason", "r"]));
    for nobody in [&old, "", &worker.replace("fg_live_", "fg_live_0"), "Bearer x"] {
        let refused = with_key(&gateway, nobody, &["inspect", "jobs/a"]);
        assert_eq!(code(&refused), 1, "{nobody:?}: {}", said(&refused));
        assert!(said(&refused).contains("unauthenticated"), "{nobody:?}: {}", said(&refused));
    }
    let file = gateway.folder.path().join("key");
    fs::write(&file, format!("{worker}\n")).unwrap();
    let url = format!("http://{}", gateway.address);
    let mut of_file = fencegate(gateway.folder.path(), &["--url", &url, "whoami"]);
    assert_eq!(answer(&of_file.env("FENCEGATE_KEY_FILE", &file).output().unwrap())["principal"], "worker");
}

/// Broken: somebody has to try on the real thing what a rule allows. Must hold: `can` says it from the configuration, with the
/// rule that decides.
#[test]
fn can_explains_the_verdict_of_the_configured_rules() {
    let rules = "{ jobs = [\"write\"], \"jobs/frozen\" = [] }";
    let (key, section) = principal("worker", rules, &[]);
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("fencegate.toml"), section).unwrap();
    let id = key.split('_').nth(2).unwrap();
    let can = |who: &str, what: &str, name: &str| run(folder.path(), &["can", who, what, name]);
    for who in [key.as_str(), id, "worker"] {
        let told = answer(&can(who, "write", "jobs/a"));
        assert_eq!((&told["allowed"], &told["rule"]["prefix"]), (&json!(true), &json!("jobs")), "{who}");
    }
    for (what, name, because) in [
        ("read", "jobs/a", "the rule for \"jobs\" allows write"),
        ("write", "jobs/frozen/x", "the rule for \"jobs/frozen\" allows nothing"),
        ("write", "mail/a", "no rule speaks of it"),
        ("write", "*", "no rule speaks of it"),
    ] {
        let told = can("worker", what, name);
        assert_eq!(code(&told), 1, "{what} {name}");
        assert!(said(&told).contains(because), "{}", said(&told));
    }
    for wrong in [["nobody", "write", "jobs/a"], ["worker", "own", "jobs/a"], ["worker", "write", "jobs//a"]]
    {
        assert_eq!(code(&can(wrong[0], wrong[1], wrong[2])), 2, "{wrong:?}");
    }
}

#[test]
fn a_typing_error_in_a_key_is_found_offline() {
    let (key, _) = principal("worker", "{ jobs = [\"write\"] }", &[]);
    let folder = tempfile::tempdir().unwrap();
    let check = |text: &str| {
        let mut command = fencegate(folder.path(), &["key", "check"]);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    };
    let told = answer(&check(&format!("{key}\n")));
    assert_eq!(told["id"].as_str(), key.split('_').nth(2));
    let (head, last) = key.split_at(key.len() - 1);
    let wrong = check(&format!("{head}{}", if last == "0" { "1" } else { "0" }));
    assert_eq!(code(&wrong), 1, "{}", said(&wrong));
    assert!(!said(&wrong).contains(head), "{}", said(&wrong));
}

/// Broken: a key is written where its hash belongs, and the mistake puts it into a log. Must hold: it is refused, and not
/// repeated.
#[test]
fn a_key_in_the_configuration_is_refused_and_not_repeated() {
    let (key, _) = principal("worker", "{ jobs = [\"write\"] }", &[]);
    let folder = tempfile::tempdir().unwrap();
    let id = key.split('_').nth(2).unwrap();
    for keys in [format!("\"{key}\""), format!("{{ id = \"{id}\", sha256 = \"{key}\" }}")] {
        let text = format!("[principals.worker]\npermissions = {{ jobs = [\"write\"] }}\nkeys = [{keys}]\n");
        fs::write(folder.path().join("fencegate.toml"), text).unwrap();
        let told = run(folder.path(), &["check"]);
        assert_eq!(code(&told), 2, "{}", said(&told));
        assert!(said(&told).contains("is a key") && !said(&told).contains(&key), "{}", said(&told));
    }
}

/// Broken: a listener is told of its neighbour's resources; the record names nobody; or whoever was taken out of the
/// configuration goes on until a restart. Must hold: events are of what the listener may read, lines of the audit name the
/// principal, and after a HUP the key of a removed one opens nothing, which is written down too.
#[test]
fn tenants_hear_of_their_own_and_a_reload_takes_a_key_away() {
    let all = "[\"lease\", \"write\", \"read\"]";
    let (one, first) = principal("tenant-one", &format!("{{ jobs = {all} }}"), &[]);
    let (two, second) = principal("tenant-two", &format!("{{ mail = {all} }}"), &[]);
    let (root, third) = principal("auditor", "{ \"*\" = [\"read\", \"operate\"] }", &[]);
    let gateway = Gateway::configured(&[first.as_str(), &second, &third].concat());
    answer(&with_key(&gateway, &one, &["lease", "acquire", "jobs/a"]));
    answer(&with_key(&gateway, &two, &["lease", "acquire", "mail/b"]));
    let heard = |key: &str| said(&with_key(&gateway, key, &["events"]));
    assert!(heard(&one).contains("jobs/a") && !heard(&one).contains("mail"), "{}", heard(&one));
    assert!(heard(&two).contains("mail/b") && !heard(&two).contains("jobs"), "{}", heard(&two));
    assert!(heard(&root).contains("jobs/a") && heard(&root).contains("mail/b"), "{}", heard(&root));
    let foreign = with_key(&gateway, &one, &["events", "--namespace", "mail"]);
    assert_eq!(code(&foreign), 1, "{}", said(&foreign));
    let export = || said(&with_key(&gateway, &root, &["audit", "export"]));
    let lines: Vec<Value> = export().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let named = |about: &str| lines.iter().find(|line| line["about"] == about).unwrap()["actor"].clone();
    assert_eq!((named("jobs/a"), named("mail/b")), (json!("tenant-one"), json!("tenant-two")));
    assert_eq!(code(&with_key(&gateway, &one, &["audit", "export"])), 1);

    fs::write(gateway.folder.path().join("fencegate.toml"), [first.as_str(), &third].concat()).unwrap();
    kill_process(Pid::from_child(&gateway.child), Signal::HUP).unwrap();
    let mut tries = 0;
    while !export().contains("removed tenant-two") {
        tries += 1;
        assert!(tries < 200, "{}", export());
        thread::sleep(Duration::from_millis(50));
    }
    let gone = with_key(&gateway, &two, &["inspect", "mail/b"]);
    assert_eq!(code(&gone), 1, "{}", said(&gone));
    assert!(said(&gone).contains("unauthenticated"), "{}", said(&gone));
    answer(&with_key(&gateway, &one, &["inspect", "jobs/a"]));
}
