//! Somebody who listens to `/v1/events`, over a connection of its own.

use std::time::Duration;

use reqwest::{Method, Response};
use serde_json::Value;

use crate::support::client::Client;

/// How long anything may take to be told.
pub(super) const SOON: Duration = Duration::from_secs(10);

/// One event.
#[derive(Debug, Clone)]
pub(super) struct Heard {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) data: Value,
}

impl Heard {
    /// What was done to what.
    pub(super) fn told(&self) -> String {
        format!(
            "{} {}",
            self.name.trim_start_matches("fencegate."),
            self.data["subject"].as_str().unwrap_or("-")
        )
    }
}

/// What comes in blocks.
enum Block {
    Event(Heard),
    Comment { id: Option<String>, text: String },
}

/// A stream as it comes.
pub(super) struct Listener {
    response: Response,
    text: String,
    /// Everything that has come, for what must not stand in it.
    pub(super) all: String,
    /// The last id, as a browser keeps it.
    pub(super) last: Option<String>,
}

impl Listener {
    /// From now on, or from the place that an id names. It stands abreast when this returns without an id.
    pub(super) async fn begin(client: &Client, query: &str, from: Option<&str>) -> Self {
        let mut request = client.request(Method::GET, &format!("/v1/events{query}"));
        if let Some(from) = from {
            request = request.header("last-event-id", from);
        }
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        let mut listener = Self { response, text: String::new(), all: String::new(), last: None };
        if from.is_none() {
            listener.comment("all is told").await;
        }
        listener
    }

    /// The next block; none at the end.
    async fn block(&mut self) -> Option<Block> {
        loop {
            if let Some((block, rest)) = self.text.split_once("\n\n") {
                let block = parsed(block);
                self.text = rest.to_owned();
                let id = match &block {
                    Block::Event(heard) => Some(heard.id.clone()),
                    Block::Comment { id, .. } => id.clone(),
                };
                self.last = id.or(self.last.take());
                return Some(block);
            }
            let chunk = tokio::time::timeout(SOON, self.response.chunk()).await;
            let chunk = chunk.unwrap_or_else(|_| panic!("nothing came: {}", self.all)).unwrap_or_default()?;
            self.text.push_str(std::str::from_utf8(&chunk).unwrap());
            self.all.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }

    /// The next event.
    pub(super) async fn event(&mut self) -> Heard {
        loop {
            match self.block().await {
                Some(Block::Event(heard)) => return heard,
                Some(Block::Comment { .. }) => {}
                None => panic!("the stream ended: {}", self.all),
            }
        }
    }

    /// So many events.
    pub(super) async fn events(&mut self, count: usize) -> Vec<Heard> {
        let mut heard = Vec::new();
        for _ in 0..count {
            heard.push(self.event().await);
        }
        heard
    }

    /// Everything up to a comment.
    pub(super) async fn comment(&mut self, wanted: &str) -> Vec<Heard> {
        let mut heard = Vec::new();
        loop {
            match self.block().await {
                Some(Block::Event(event)) => heard.push(event),
                Some(Block::Comment { text, .. }) if text == wanted => return heard,
                Some(Block::Comment { .. }) => {}
                None => panic!("the stream ended without {wanted:?}: {}", self.all),
            }
        }
    }

    /// Nothing more comes.
    pub(super) async fn ends(mut self) {
        assert!(self.block().await.is_none(), "{}", self.all);
    }
}

fn parsed(block: &str) -> Block {
    let field = |name: &str| {
        let prefix = format!("{name}: ");
        block.lines().find_map(|line| line.strip_prefix(&prefix)).map(str::to_owned)
    };
    match (field("event"), field("data")) {
        (Some(name), Some(data)) => {
            Block::Event(Heard { id: field("id").unwrap(), name, data: serde_json::from_str(&data).unwrap() })
        }
        _ => Block::Comment { id: field("id"), text: field("").unwrap_or_default() },
    }
}
