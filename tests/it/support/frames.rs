//! A store that speaks HTTP/2 frame by frame, so that it can break off anywhere.

use std::io;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// Types of frames (RFC 9113 section 6).
pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PUSH_PROMISE: u8 = 5;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const CONTINUATION: u8 = 9;

pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;

/// `:status` 200 and 100 as fields of the head (RFC 7541 appendix A).
pub(crate) const STATUS_200: &[u8] = &[0x88];
pub(crate) const STATUS_100: &[u8] = &[0x08, 3, b'1', b'0', b'0'];

/// One frame.
#[derive(Debug, Clone)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) body: Vec<u8>,
}

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, body: &[u8]) -> Frame {
    Frame { kind, flags, stream, body: body.to_vec() }
}

/// A setting (RFC 9113 section 6.5).
pub(crate) fn setting(id: u16, value: u32) -> Frame {
    frame(SETTINGS, 0, 0, &[&id.to_be_bytes()[..], &value.to_be_bytes()].concat())
}

/// What is said when a stream or a connection ends.
pub(crate) fn goaway(last: u32, code: u32) -> Frame {
    frame(GOAWAY, 0, 0, &[last.to_be_bytes(), code.to_be_bytes()].concat())
}

pub(crate) fn reset(stream: u32, code: u32) -> Frame {
    frame(RST_STREAM, 0, stream, &code.to_be_bytes())
}

/// A whole answer.
pub(crate) fn answer(stream: u32) -> Vec<Frame> {
    vec![frame(HEADERS, END_HEADERS, stream, STATUS_200), frame(DATA, END_STREAM, stream, b"done")]
}

/// What the store does with a request, once or over and over.
#[derive(Clone)]
pub(crate) struct Play {
    /// Before anything is asked.
    pub(crate) greeting: Vec<Frame>,
    /// Whether it acts at the head of a request; else at its end.
    pub(crate) at_head: bool,
    /// For a request on this stream, of this connection.
    pub(crate) act: Arc<dyn Fn(usize, u32) -> Vec<Frame> + Send + Sync>,
    /// Sent again and again after that.
    pub(crate) over_and_over: Option<Frame>,
    /// Whether the connection is closed after that.
    pub(crate) closes: bool,
}

impl Play {
    /// These frames for every request.
    pub(crate) fn frames(act: impl Fn(usize, u32) -> Vec<Frame> + Send + Sync + 'static) -> Self {
        Self {
            greeting: vec![frame(SETTINGS, 0, 0, &[])],
            at_head: false,
            act: Arc::new(act),
            over_and_over: None,
            closes: false,
        }
    }
}

/// A running store, and the requests that have arrived whole: connection, stream.
pub(crate) struct Store {
    pub(crate) port: u16,
    arrived: Arc<Mutex<Vec<(usize, u32)>>>,
}

impl Store {
    pub(crate) async fn start(play: Play) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let arrived = Arc::<Mutex<Vec<(usize, u32)>>>::default();
        let log = arrived.clone();
        drop(tokio::spawn(async move {
            for connection in 1.. {
                let Ok((stream, _)) = listener.accept().await else { return };
                let (play, log) = (play.clone(), log.clone());
                drop(tokio::spawn(async move { drop(serve(stream, connection, play, log).await) }));
            }
        }));
        Self { port, arrived }
    }

    pub(crate) fn arrived(&self) -> Vec<(usize, u32)> {
        self.arrived.lock().unwrap().clone()
    }
}

async fn serve(
    mut stream: TcpStream,
    connection: usize,
    play: Play,
    log: Arc<Mutex<Vec<(usize, u32)>>>,
) -> io::Result<()> {
    let mut preface = [0; 24];
    stream.read_exact(&mut preface).await?;
    send(&mut stream, &play.greeting).await?;
    loop {
        let got = receive(&mut stream).await?;
        if got.kind == SETTINGS && got.flags & 1 == 0 {
            send(&mut stream, &[frame(SETTINGS, 1, 0, &[])]).await?;
        }
        let ends = got.flags & END_STREAM != 0 && [HEADERS, DATA].contains(&got.kind);
        if ends {
            log.lock().unwrap().push((connection, got.stream));
        }
        if !(if play.at_head { got.kind == HEADERS } else { ends }) {
            continue;
        }
        send(&mut stream, &(play.act)(connection, got.stream)).await?;
        while let Some(again) = &play.over_and_over {
            send(&mut stream, &[Frame { stream: got.stream, ..again.clone() }]).await?;
        }
        if play.closes {
            return Ok(());
        }
    }
}

async fn receive(stream: &mut TcpStream) -> io::Result<Frame> {
    let mut head = [0; 9];
    stream.read_exact(&mut head).await?;
    let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    let id = u32::from_be_bytes([head[5], head[6], head[7], head[8]]) & 0x7fff_ffff;
    Ok(Frame { kind: head[3], flags: head[4], stream: id, body })
}

async fn send(stream: &mut TcpStream, frames: &[Frame]) -> io::Result<()> {
    for frame in frames {
        let length = u32::try_from(frame.body.len()).unwrap().to_be_bytes();
        let head = [&length[1..], &[frame.kind, frame.flags], &frame.stream.to_be_bytes()].concat();
        stream.write_all(&[head.as_slice(), &frame.body].concat()).await?;
    }
    stream.flush().await
}
