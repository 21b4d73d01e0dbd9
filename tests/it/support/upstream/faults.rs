//! What can go wrong at a store.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use super::Shared;
use super::raw::{Arrival, Reply};

/// What is played instead of a plain answer.
#[derive(Debug, Clone)]
pub(crate) enum Fault {
    /// The request lies there until it is released; then it has its effect and its answer.
    Hold,
    /// The effect and the answer, and then the connection is closed.
    AnswerAndClose,
    /// The effect, and then the connection is closed without an answer.
    DropAnswer,
    /// The effect, and then 500.
    ErrorAfterEffect,
    /// 200, and no effect.
    SuccessWithoutEffect,
    /// This status, and no effect.
    Status(u16),
    /// The effect, and an answer that ends before its length.
    Truncated,
    /// The effect twice, and one answer.
    Duplicate,
    /// A redirect to there, and no effect.
    Redirect(String),
    /// The effect, and an answer without an end.
    Endless,
    /// The effect, and a compressed body of so many bytes that would be far larger unpacked.
    Bomb(usize),
    /// The effect, and these bytes as an answer; the connection stays open.
    Raw(Vec<u8>),
    /// The connection is closed before anything of the request is read.
    CloseUnread,
    /// The effect, and silence.
    NeverAnswer,
    /// The effect, and two interim answers before the final one.
    Interim,
}

/// Plays a fault. Says whether the connection can be used for another request.
pub(super) async fn play(
    fault: Option<Fault>,
    stream: &mut TcpStream,
    arrival: &Arrival,
    body: &[u8],
    shared: &Arc<Shared>,
) -> bool {
    let apply = || named(shared.store.lock().unwrap().apply(arrival, body), arrival, shared);
    match fault {
        None => {
            let gap = shared.store.lock().unwrap().gap(arrival);
            let reply = match gap {
                None => apply(),
                Some(ms) => {
                    tokio::time::sleep(Duration::from_millis(ms)).await;
                    named(shared.store.lock().unwrap().set(arrival, body), arrival, shared)
                }
            };
            reply.send(stream, arrival).await
        }
        Some(Fault::Hold) => {
            shared.released.acquire().await.unwrap().forget();
            apply().send(stream, arrival).await
        }
        Some(Fault::AnswerAndClose) => {
            apply().send(stream, arrival).await;
            false
        }
        Some(Fault::DropAnswer) => {
            drop(apply());
            false
        }
        Some(Fault::ErrorAfterEffect) => {
            drop(apply());
            Reply::of(500, "it broke").send(stream, arrival).await
        }
        Some(Fault::SuccessWithoutEffect) => {
            Reply::of(200, "done").with("ETag", "\"liar\"").send(stream, arrival).await
        }
        Some(Fault::Status(status)) => Reply::of(status, "no").send(stream, arrival).await,
        Some(Fault::Duplicate) => {
            let reply = apply();
            drop(shared.store.lock().unwrap().apply_again(arrival, body));
            reply.send(stream, arrival).await
        }
        Some(Fault::Redirect(to)) => {
            Reply::of(307, "there").with("Location", &to).send(stream, arrival).await
        }
        Some(Fault::CloseUnread) => false,
        Some(
            wrong @ (Fault::Truncated
            | Fault::Endless
            | Fault::Bomb(_)
            | Fault::Raw(_)
            | Fault::NeverAnswer
            | Fault::Interim),
        ) => {
            let reply = apply();
            answer_wrongly(wrong, stream, arrival, reply).await
        }
    }
}

fn named(reply: Reply, arrival: &Arrival, shared: &Arc<Shared>) -> Reply {
    let versions = shared.versions.lock().unwrap();
    match versions.get(arrival.number.checked_rem(versions.len()).unwrap_or_default()) {
        None => reply,
        Some(version) => reply.with("Server", version),
    }
}

async fn answer_wrongly(fault: Fault, stream: &mut TcpStream, arrival: &Arrival, reply: Reply) -> bool {
    match fault {
        Fault::Truncated => {
            let head = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\nETag: \"cut\"\r\n\r\nonly this";
            drop(stream.write_all(head).await);
            drop(stream.flush().await);
            false
        }
        Fault::Endless => {
            let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
            let mut sent = stream.write_all(head).await;
            let chunk = [b"1000\r\n".as_slice(), &[b'x'; 0x1000], b"\r\n"].concat();
            while sent.is_ok() {
                sent = stream.write_all(&chunk).await;
            }
            false
        }
        Fault::Bomb(bytes) => {
            let mut bomb = reply;
            bomb.body = vec![0x1f; bytes];
            bomb.with("Content-Encoding", "gzip").send(stream, arrival).await
        }
        Fault::Raw(bytes) => stream.write_all(&bytes).await.is_ok() && stream.flush().await.is_ok(),
        Fault::NeverAnswer => std::future::pending().await,
        Fault::Interim => {
            let interim = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n";
            drop(stream.write_all(interim).await);
            reply.send(stream, arrival).await
        }
        _ => false,
    }
}
