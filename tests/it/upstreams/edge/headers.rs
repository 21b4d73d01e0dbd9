//! Headers: by allow-list, both ways, and the gateway's own words are the gateway's alone.

use super::super::scene::{CLASSES, Scene, header, kind_of};
use super::{put, put_and_close, said, status};
use crate::support::engines::Kind as Engine;
use crate::support::upstream::{Fault, Upstream};

/// What a client may say of itself, of the way that it came, or in the gateway's name.
const CLAIMS: [&str; 27] = [
    "Fencing-Position",
    "Fencing-Operation",
    "Fencing-Resource",
    "Fencing-Advance",
    "Fencing-Floor",
    "Fencing-Commit",
    "Fencing-Source",
    "Fencing-Anything",
    "X-Fencing-Position",
    "X-Fencing-Stamp",
    "X-Fencing-Operation",
    "Forwarded",
    "X-Forwarded-For",
    "X-Forwarded-Host",
    "X-Forwarded-Proto",
    "X-Real-IP",
    "Via",
    "Authorization",
    "Proxy-Authorization",
    "Cookie",
    "TE",
    "Trailer",
    "Upgrade",
    "Keep-Alive",
    "Proxy-Connection",
    "X-Hop",
    "X-Other",
];

/// The headers that each class may get for this write, and no others.
fn expected(class: &str) -> &'static [&'static str] {
    match class {
        "conditional" => &["x-fencing-stamp", "if-match", "if-none-match"],
        "fence_aware" => {
            &["fencing-position", "fencing-operation", "fencing-resource", "fencing-incarnation"]
        }
        "idempotent" => &["idempotency-key"],
        _ => &[],
    }
}

/// A request full of claims: none of them arrives, and what arrives is what the class is told.
#[tokio::test]
async fn nothing_that_a_client_claims_reaches_the_store() {
    for class in CLASSES {
        let list = "forward_headers = [\"accept\", \"x-listed\", \"x-hop\", \"x-nominated\"]";
        let scene = Scene::of(Engine::Sqlite, class, list, "contract = \"observed\"").await;
        let owner = scene.gateway.client.acquire("shop/a", "alice").await;
        let mut more = CLAIMS.join(": canary\r\n") + ": canary\r\n";
        more.push_str("Connection: close, X-Hop, x-nominated\r\nX-Nominated: canary\r\n");
        more.push_str(
            "Content-Type: text/plain\r\nAccept: text/plain\r\nX-Listed: seen\r\nx-listed: twice\r\n",
        );
        let answer =
            said(&scene, format!("{}hello", put("shop/a", &owner, "canary-id", 5, &more)).as_bytes()).await;
        assert!((200..300).contains(&status(&answer)), "{class}: {answer}");
        let written: Vec<_> = scene.writes().into_iter().filter(|one| one.length == 5).collect();
        assert_eq!(written.len(), 1, "{class}: {written:?}");
        for arrival in scene.arrivals() {
            for (name, value) in &arrival.headers {
                let own = class == "fence_aware" && name == "fencing-operation"
                    || class == "conditional" && name == "x-fencing-stamp";
                assert!(own || !value.contains("canary"), "{class} {}: {name}: {value}", arrival.method);
                let usual = ["host", "content-length", "content-type", "accept", "x-listed"];
                let fine = usual.contains(&name.as_str()) || expected(class).contains(&name.as_str());
                assert!(fine, "{class} {}: {name}: {value}", arrival.method);
                assert!(!value.contains(&owner.token), "{class}: a token is no store's business");
            }
            assert_eq!(
                arrival.header("host"),
                Some(format!("127.0.0.1:{}", scene.upstream.port()).as_str()),
                "{class}"
            );
        }
        let listed: Vec<_> = written[0].headers.iter().filter(|(name, _)| name == "x-listed").collect();
        assert_eq!(
            listed.iter().map(|(_, value)| value.as_str()).collect::<Vec<_>>(),
            ["seen", "twice"],
            "{class}"
        );
        if class == "fence_aware" {
            assert_eq!(written[0].header("fencing-position"), Some(owner.position.as_str()));
            assert_eq!(written[0].header("fencing-operation"), Some("canary-id"));
            assert_eq!(written[0].header("fencing-resource"), Some("shop/a"));
        }
        scene.gateway.stop().await;
    }
}

/// Conditions are judged by the gateway on its own validators; a store gets only those that the gateway makes.
#[tokio::test]
async fn a_clients_conditions_are_judged_here_and_never_sent() {
    for class in CLASSES {
        let scene = Scene::of(Engine::Sqlite, class, "", "policy = \"ordered\"").await;
        let client = &scene.gateway.client;
        let owner = client.acquire("shop/a", "alice").await;
        let first = [("fencing-sequence", "1"), ("if-none-match", "*")];
        let first = client.put("shop/a", &owner.token, "p1", "one", &first).await;
        assert!((200..300).contains(&first.status), "{class}: {first:?}");
        let tag = header(&first, "etag").unwrap().to_owned();
        let second = [("fencing-sequence", "2"), ("if-match", tag.as_str())];
        let second = client.put("shop/a", &owner.token, "p2", "two", &second).await;
        assert!((200..300).contains(&second.status), "{class}: {second:?}");
        let before = scene.arrivals().len();
        let third = [("fencing-sequence", "3"), ("if-match", tag.as_str())];
        client.put("shop/a", &owner.token, "p3", "three", &third).await.refused(
            412,
            "precondition_failed",
            "none",
        );
        assert_eq!(scene.arrivals().len(), before, "{class}: it was judged without the store");
        for arrival in scene.arrivals() {
            for name in ["if-match", "if-none-match", "if-range", "if-modified-since", "if-unmodified-since"]
            {
                let value = arrival.header(name);
                assert_ne!(value, Some(tag.as_str()), "{class}");
                assert!(value.is_none() || class == "conditional", "{class}: {arrival:?}");
            }
        }
        scene.gateway.stop().await;
    }
}

/// What belongs to one connection, what is not on the list, and what only the gateway may say is not given back.
#[tokio::test]
async fn of_a_stores_answer_only_what_is_listed_comes_back() {
    let answer = b"HTTP/1.1 200 OK\r\nConnection: keep-alive, X-Hop\r\nKeep-Alive: timeout=5\r\nX-Hop: canary\r\n\
        Set-Cookie: canary=1\r\nServer: canary\r\nLocation: http://canary/\r\nFencing-Effect: canary\r\n\
        Fencing-Floor: canary\r\nFencing-Commit: canary\r\nFencing-Guarantee: canary\r\nIdempotent-Replayed: true\r\n\
        X-Request-Id: canary\r\nX-Shown: seen\r\nX-Shown: twice\r\nETag: \"theirs\"\r\nTrailer: X-Late\r\n\
        Content-Length: 2\r\n\r\nok";
    for class in ["fence_aware", "idempotent", "serial"] {
        let list = "return_headers = [\"x-shown\", \"x-hop\"]\nprobe = false";
        let scene = Scene::of(Engine::Sqlite, class, list, "").await;
        let owner = scene.gateway.client.acquire("shop/a", "alice").await;
        scene.upstream.fault(Fault::Raw(answer.to_vec()));
        let heard =
            said(&scene, format!("{}hello", put_and_close("shop/a", &owner, "p1", 5, "")).as_bytes()).await;
        assert_eq!(status(&heard), 200, "{class}: {heard}");
        assert!(!heard.contains("canary"), "{class}: {heard}");
        let lower = heard.to_ascii_lowercase();
        for line in [
            "x-shown: seen",
            "x-shown: twice",
            "fencing-upstream-etag: \"theirs\"",
            "fencing-effect: applied",
            "fencing-source: upstream",
        ] {
            assert!(lower.contains(&format!("{line}\r\n")), "{class} {line}: {heard}");
        }
        for absent in ["idempotent-replayed", "keep-alive: timeout", "trailer:", "x-hop"] {
            assert!(!lower.contains(absent), "{class} {absent}: {heard}");
        }
        // The same from the record.
        let again =
            said(&scene, format!("{}hello", put_and_close("shop/a", &owner, "p1", 5, "")).as_bytes()).await;
        assert!(
            !again.contains("canary") && again.to_ascii_lowercase().contains("idempotent-replayed: true"),
            "{again}"
        );
        scene.gateway.stop().await;
    }
}

/// Lines that are smuggled into an answer's headers end it or stay what they are: a client never sees one of them as a
/// header.
#[tokio::test]
async fn a_header_inside_a_header_is_no_header() {
    let values: [&[u8]; 6] = [
        b"a\rX-Evil: 1",
        b"a\nX-Evil: 1",
        b"a\r\n X-Evil: 1",
        b"a\0X-Evil: 1",
        b"a\x0b\x0cX-Evil: 1",
        b"a%0d%0aX-Evil: 1",
    ];
    for (number, value) in values.iter().enumerate() {
        let list = "return_headers = [\"x-shown\"]\ntimeout_ms = 2000";
        let scene = Scene::of(Engine::Sqlite, "serial", list, "").await;
        let owner = scene.gateway.client.acquire("shop/a", "alice").await;
        let answer =
            [b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Shown: ".as_slice(), value, b"\r\n\r\nok"].concat();
        scene.upstream.fault(Fault::Raw(answer));
        let heard =
            said(&scene, format!("{}hello", put_and_close("shop/a", &owner, "p1", 5, "")).as_bytes()).await;
        let lines: Vec<String> =
            heard.split(['\r', '\n']).map(|line| line.trim().to_ascii_lowercase()).collect();
        assert!(!lines.iter().any(|line| line.starts_with("x-evil")), "{number}: {heard}");
        assert!([200, 504].contains(&status(&heard)), "{number}: {heard}");
        assert_eq!(scene.writes().len(), 1, "{number}");
        scene.gateway.stop().await;
    }
}

/// One attempt is one request, whatever the store makes of it; and a redirect leads nowhere.
#[tokio::test]
async fn an_attempt_is_one_request_and_a_redirect_leads_nowhere() {
    for class in CLASSES {
        let elsewhere = Upstream::start(kind_of(class));
        let faults = [
            Fault::AnswerAndClose,
            Fault::DropAnswer,
            Fault::ErrorAfterEffect,
            Fault::Status(503),
            Fault::Status(408),
            Fault::Truncated,
            Fault::Redirect(elsewhere.url()),
            Fault::Redirect(format!("{}a", elsewhere.url())),
            Fault::Endless,
            Fault::Bomb(2_000_000),
            Fault::Interim,
            Fault::NeverAnswer,
            Fault::CloseUnread,
        ];
        for (number, fault) in faults.iter().enumerate() {
            let scene =
                Scene::of(Engine::Sqlite, class, "timeout_ms = 300\nconnect_timeout_ms = 300", "").await;
            let owner = scene.gateway.client.acquire("shop/a", "alice").await;
            scene.upstream.fault(fault.clone());
            let more = [("prefer", "wait=0")];
            let answer = scene.gateway.client.put("shop/a", &owner.token, "p1", "hello", &more).await;
            let told = format!("{class} {number} {fault:?}: {answer:?}");
            // Nobody has looked for what is left to do: the clock stands still, so there was one attempt.
            let path = "/v1/operations/p1?resource=shop%2Fa";
            let shown = scene.gateway.client.get(path).await;
            let attempts = if shown.status == 200 { shown.json()["attempt"].clone() } else { 1.into() };
            let attempts = usize::try_from(attempts.as_u64().unwrap()).unwrap();
            let sent = scene.writes().iter().filter(|one| one.length == 5).count();
            assert!(sent <= attempts && attempts <= 2, "{told}: {attempts} attempts, {sent} requests");
            if class == "serial" {
                assert_eq!(attempts, 1, "{told}");
                assert!(sent <= 1, "{told}");
            }
            assert!(elsewhere.log().is_empty(), "{told}: {:?}", elsewhere.log());
            scene.gateway.stop().await;
        }
        // A read that is redirected is answered with the redirect, without where it leads.
        let scene = Scene::of(Engine::Sqlite, class, "", "").await;
        scene.upstream.fault_of_read(Fault::Redirect(elsewhere.url()));
        let read =
            said(&scene, b"GET /fenced/shop/a HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                .await;
        assert_eq!(status(&read), 307, "{class}: {read}");
        assert!(!read.to_ascii_lowercase().contains("location:"), "{class}: {read}");
        assert!(elsewhere.log().is_empty(), "{class}");
        scene.gateway.stop().await;
    }
}
