//! What is malformed, cut off or too large changes nothing; what is forgotten may be.

use rusqlite::Connection;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::on_receivers;
use super::write::{PATH, RESOURCE, Write, stale};
use crate::support::stores::receiver::{Kind, Receiver};

on_receivers!([
    what_is_missing_or_malformed_changes_nothing,
    a_body_that_was_cut_off_is_not_applied,
    a_refusal_leaves_no_body_behind_to_be_read_as_a_request,
    what_is_too_large_is_refused_and_the_refusal_of_an_append_is_saved,
]);

async fn what_is_missing_or_malformed_changes_nothing(receiver: Receiver) {
    let client = receiver.client();
    assert_eq!(Write::put("0.2", "a", "one").send(&client).await.status, 201);
    let write = Write::put("0.9", "b", "two");
    for name in ["fencing-position", "fencing-resource", "fencing-operation", "fencing-incarnation"] {
        let refused = write.clone().without(name).send(&client).await;
        assert_eq!(refused.status, 428, "without {name}: {}", refused.text());
    }
    for name in ["fencing-position", "fencing-resource"] {
        let refused = Write::advance("0.9").without(name).send(&client).await;
        assert_eq!(refused.status, 428, "an advance without {name}: {}", refused.text());
    }
    let malformed = [
        "",
        "9",
        "0.",
        ".9",
        "0.0",
        "0.09",
        "00.9",
        "+0.9",
        "0.-9",
        "0.9.9",
        "0.9x",
        "0. 9",
        "0.9223372036854775808",
        "9223372036854775808.1",
        "0.99999999999999999999",
    ];
    for position in malformed {
        let refused = write.clone().header("fencing-position", position).send(&client).await;
        assert_eq!(refused.status, 400, "{position:?}: {}", refused.text());
    }
    for (name, value) in
        [("fencing-incarnation", "x"), ("fencing-sequence", "-1"), ("fencing-operation", "a b")]
    {
        let refused = write.clone().header(name, value).send(&client).await;
        assert_eq!(refused.status, 400, "{name}: {}", refused.text());
    }
    for name in ["fencing-position", "fencing-resource", "fencing-operation", "fencing-incarnation"] {
        let refused = write.clone().twice(name, "1.1").send(&client).await;
        assert_eq!(refused.status, 400, "{name} twice: {}", refused.text());
    }
    assert_eq!(client.get(PATH).await.text(), "one");
    // Nothing was raised, and nothing is remembered of it.
    assert_eq!(Write::put("0.2", "b", "three").send(&client).await.status, 200);
}

async fn a_body_that_was_cut_off_is_not_applied(receiver: Receiver) {
    // The gateway dies in the middle of a request. It sends the whole of it later, and that must be the first one.
    let client = receiver.client();
    let write = Write::put("0.3", "a", "0123456789");
    for length in 0..write.body.len() {
        let text = write.text(write.body.len());
        let cut = &text[..text.len() - write.body.len() + length];
        let mut stream = TcpStream::connect(client.address()).await.unwrap();
        stream.write_all(cut.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 400"), "{length} bytes: {answer}");
    }
    assert_eq!(client.get(PATH).await.status, 404);
    assert_eq!(Write::put("0.2", "b", "two").send(&client).await.status, 201);
    assert_eq!(write.send(&client).await.status, 200);
}

async fn a_refusal_leaves_no_body_behind_to_be_read_as_a_request(receiver: Receiver) {
    // Broken without: the body of a refused request is taken for the next one.
    let client = receiver.client();
    let hidden = Write::put("0.9", "hidden", "").text(0);
    let head = "PUT /one HTTP/1.1\r\nhost: x\r\n";
    let refused = [
        format!("{head}transfer-encoding: chunked\r\n\r\n{:x}\r\n{hidden}\r\n0\r\n\r\n", hidden.len()),
        format!("{head}content-length: 999999999999\r\n\r\n{hidden}"),
        format!("{head}content-length: 0\r\ncontent-length: {}\r\n\r\n{hidden}", hidden.len()),
        format!("{head}content-length: +0\r\n\r\n{hidden}"),
    ];
    for (text, status) in refused.iter().zip(["411", "413", "400", "400"]) {
        let mut stream = TcpStream::connect(client.address()).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        // A reset after the answer is fine: there was something that it has not read.
        drop(stream.read_to_end(&mut answer).await);
        let answer = String::from_utf8(answer).unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{text}: {answer}");
        assert_eq!(answer.matches("HTTP/1.1").count(), 1, "{answer}");
    }
    assert!(receiver.log(RESOURCE).is_empty());
    // What was read whole leaves the connection as it is.
    let mut stream = TcpStream::connect(client.address()).await.unwrap();
    let both = format!("{}{}", Write::put("0.1", "a", "one").without("fencing-position").text(3), {
        Write::put("0.1", "a", "one").twice("connection", "close").text(3)
    });
    stream.write_all(both.as_bytes()).await.unwrap();
    let mut answers = String::new();
    stream.read_to_string(&mut answers).await.unwrap();
    assert!(answers.starts_with("HTTP/1.1 428") && answers.contains("HTTP/1.1 201"), "{answers}");
}

async fn what_is_too_large_is_refused_and_the_refusal_of_an_append_is_saved(receiver: Receiver) {
    let client = receiver.client();
    // Beyond what one of them takes in one request, and beyond what both take in a document.
    let beyond = "x".repeat((8 << 20) + 1);
    assert_eq!(Write::put("0.1", "a", &beyond).send(&client).await.status, 413);
    let piece = "x".repeat(400 << 10);
    let mut sent = 0;
    let refused = loop {
        let write = Write::post("0.1", &format!("piece-{sent}"), &piece);
        let answer = write.send(&client).await;
        if answer.status == 413 {
            break write;
        }
        assert!(matches!(answer.status, 200 | 201), "{}", answer.text());
        sent += 1;
        assert!(sent < 40, "a document without an end");
    };
    assert_eq!(client.get(PATH).await.bytes.len(), sent * piece.len());
    assert_eq!(Write::put("0.2", "shorter", "short").send(&client).await.status, 200);
    // Now there would be room; the outcome stays what it was.
    assert_eq!(refused.send(&client).await.status, 413);
    assert_eq!(client.get(PATH).await.text(), "short");
}

#[tokio::test]
async fn what_is_old_is_forgotten_only_below_the_highest_position() {
    let receiver = Receiver::start(Kind::Sqlite, "").unwrap();
    let client = receiver.client();
    assert_eq!(Write::post("0.1", "below", "a").send(&client).await.status, 201);
    let at = Write::post("0.2", "at", "b").send(&client).await;
    assert_eq!(at.status, 200);
    let month_and_more = "UPDATE operations SET saved_at = saved_at - 31 * 24 * 3600";
    Connection::open(receiver.database()).unwrap().execute(month_and_more, []).unwrap();
    assert_eq!(Write::post("0.2", "next", "c").send(&client).await.status, 200);
    let known: Vec<String> = receiver.log(RESOURCE).into_iter().map(|effect| effect.operation).collect();
    assert_eq!(known, ["at", "next"]);
    // A late copy of what was forgotten does no harm, and one of what is held is still known.
    stale(&Write::post("0.1", "below", "a").send(&client).await, "0.2");
    assert_eq!(Write::post("0.2", "at", "b").send(&client).await.bytes, at.bytes);
    assert_eq!(client.get(PATH).await.text(), "abc");
}
