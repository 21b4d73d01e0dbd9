//! A pooler in transaction mode that is as unkind as one may be: after each transaction a client's next statement goes to
//! another session than the last one. A real pooler does that only now and then.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, Semaphore};
use tokio::task::JoinHandle;

use super::cluster::Cluster;

/// A pooler that runs; it ends with this value.
pub(crate) struct Shuffler {
    pub(crate) port: u16,
    accepting: JoinHandle<()>,
}

/// The sessions with the server, the one that rested longest first.
struct Pool {
    resting: Mutex<VecDeque<TcpStream>>,
    free: Semaphore,
    /// What the server says to a client that came in.
    welcome: Vec<u8>,
}

/// One message: its kind and what follows the length.
struct Frame {
    kind: u8,
    body: Vec<u8>,
}

impl Shuffler {
    /// Before this database, with so many sessions.
    pub(crate) async fn before(cluster: &Cluster, database: &str, sessions: usize) -> Self {
        cluster.take_plain_passwords("gateway").await;
        let mut resting = VecDeque::new();
        let mut welcome = Vec::new();
        for _ in 0..sessions {
            let (session, said) = log_in(cluster, database).await.unwrap();
            resting.push_back(session);
            welcome = said;
        }
        let pool = Arc::new(Pool { resting: Mutex::new(resting), free: Semaphore::new(sessions), welcome });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let pool = pool.clone();
                // A client that leaves, or is left, is that client's affair.
                tokio::spawn(async move { serve(client, &pool).await.unwrap_or_default() });
            }
        });
        Self { port, accepting }
    }
}

impl Drop for Shuffler {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// A session of the role `gateway`, and everything that the server said on its way in.
async fn log_in(cluster: &Cluster, database: &str) -> io::Result<(TcpStream, Vec<u8>)> {
    let mut session = TcpStream::connect(("127.0.0.1", cluster.port())).await?;
    // Each message goes by itself: held back until the last one is confirmed, each would take 40 ms.
    session.set_nodelay(true)?;
    let mut body = 196_608_u32.to_be_bytes().to_vec();
    let settings =
        ["user", "gateway", "database", database, "client_encoding", "UTF8", "DateStyle", "ISO, MDY"];
    for word in settings.iter().chain(&["TimeZone", "UTC", ""]) {
        body.extend(word.as_bytes());
        body.push(0);
    }
    session.write_all(&length_of(&body)).await?;
    session.write_all(&body).await?;
    let mut welcome = Vec::new();
    loop {
        let frame = Frame::read(&mut session).await?;
        match (frame.kind, frame.body.as_slice()) {
            (b'R', [0, 0, 0, 3]) => {
                let body = [cluster.password().as_bytes(), &[0]].concat();
                session.write_all(&Frame { kind: b'p', body }.bytes()).await?;
            }
            (b'E', said) => panic!("{}", String::from_utf8_lossy(said)),
            _ => welcome.extend(frame.bytes()),
        }
        if frame.kind == b'Z' {
            return Ok((session, welcome));
        }
    }
}

async fn serve(mut client: TcpStream, pool: &Pool) -> io::Result<()> {
    client.set_nodelay(true)?;
    // The first message has no kind. Who asks for TLS is told that there is none, and begins anew.
    loop {
        let mut body = vec![0; client.read_u32().await?.saturating_sub(4).try_into().unwrap()];
        client.read_exact(&mut body).await?;
        if body != 80_877_103_u32.to_be_bytes() {
            break;
        }
        client.write_all(b"N").await?;
    }
    client.write_all(&pool.welcome).await?;
    let mut held = None;
    loop {
        let frame = Frame::read(&mut client).await?;
        if frame.kind == b'X' {
            return Ok(());
        }
        let (permit, mut session) = if let Some(held) = held.take() {
            held
        } else {
            let permit = pool.free.acquire().await.unwrap();
            (permit, pool.resting.lock().await.pop_front().unwrap())
        };
        session.write_all(&frame.bytes()).await?;
        let answered = matches!(frame.kind, b'S' | b'Q');
        if !answered || pass_answer(&mut session, &mut client).await? {
            held = Some((permit, session));
        } else {
            pool.resting.lock().await.push_back(session);
            drop(permit);
        }
    }
}

/// The answer up to the point where the server waits again; whether a transaction is open then.
async fn pass_answer(session: &mut TcpStream, client: &mut TcpStream) -> io::Result<bool> {
    loop {
        let frame = Frame::read(session).await?;
        client.write_all(&frame.bytes()).await?;
        if frame.kind == b'Z' {
            return Ok(frame.body != b"I");
        }
    }
}

impl Frame {
    async fn read(stream: &mut TcpStream) -> io::Result<Self> {
        let kind = stream.read_u8().await?;
        let mut body = vec![0; stream.read_u32().await?.saturating_sub(4).try_into().unwrap()];
        stream.read_exact(&mut body).await?;
        Ok(Self { kind, body })
    }

    fn bytes(&self) -> Vec<u8> {
        [&[self.kind], length_of(&self.body).as_slice(), &self.body].concat()
    }
}

/// A message's length counts itself.
fn length_of(body: &[u8]) -> [u8; 4] {
    u32::try_from(body.len() + 4).unwrap().to_be_bytes()
}
