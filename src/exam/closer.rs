//! Closes resources that nobody uses any more: asks a gateway what it has in its books, until nothing is open in them, and
//! the store what it holds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::caller::{Caller, Request, registers};
use super::events::{Act, Booked, Class, Closed, Event, Place, digest};
use super::slot::halves;
use super::wire::{self, Message};
use super::world::World;
use crate::limits::{EXAM_CLOSING, EXAM_LOOK, EXAM_OPEN_CLOSINGS, EXAM_PATIENCE, EXAM_REST};

/// The lines of a timeline in which a position is issued.
const GRANTS: [&str; 2] = ["acquired", "transferred"];

/// Pages of one list, at most.
const PAGES: usize = 50;

/// Closes what comes until nothing comes any more. `healed` becomes true when all faults are over.
pub(super) async fn run(world: Arc<World>, mut retired: mpsc::Receiver<Arc<str>>, healed: Arc<AtomicBool>) {
    let mut open = JoinSet::new();
    while let Some(resource) = retired.recv().await {
        while open.len() >= EXAM_OPEN_CLOSINGS {
            open.join_next().await;
        }
        while open.try_join_next().is_some() {}
        let paired = world.is_paired(&resource);
        let all =
            if paired { halves(&resource).map(Arc::from).to_vec() } else { vec![Arc::from(&*resource)] };
        for half in all {
            open.spawn(close(world.clone(), resource.clone(), half, healed.clone()));
        }
    }
    open.join_all().await;
}

/// Closes a resource, or one half of what is `used` as one.
async fn close(world: Arc<World>, used: Arc<str>, resource: Arc<str>, healed: Arc<AtomicBool>) {
    // Whoever works on it still has its name, and what is kept is still to come. That may be long.
    let others = if world.is_paired(&used) { 2 } else { 1 };
    let is_used = || Arc::strong_count(&used) > others || world.keeps(&resource);
    while is_used() && !healed.load(Ordering::Relaxed) {
        sleep(EXAM_LOOK).await;
    }
    drop(used);
    sleep(EXAM_REST).await;
    let closing = Closing { world: &world, resource: &resource };
    let mut since_healed = None;
    let mut turn = 0_usize;
    let closed = loop {
        match closing.books(turn).await {
            Ok(mut closed) => {
                closed.healed = since_healed.is_some();
                break closed;
            }
            Err(why) if since_healed.is_some_and(|since: Instant| since.elapsed() > EXAM_CLOSING) => {
                let resource = resource.to_string();
                break Closed { resource, unknown: Some(why), healed: true, ..Closed::default() };
            }
            Err(_) => {}
        }
        if healed.load(Ordering::Relaxed) && since_healed.is_none() {
            since_healed = Some(instant());
        }
        turn = turn.wrapping_add(1);
        sleep(Duration::from_millis(400)).await;
    };
    world.recorder.note(Event::Closed(closed));
    if let Some(store) = world.store_of(&resource) {
        store.forget(&resource);
    }
}

#[expect(clippy::disallowed_methods, reason = "a bound of a wait of the exam's own; nothing is judged by it")]
fn instant() -> Instant {
    Instant::now()
}

struct Closing<'a> {
    world: &'a World,
    resource: &'a str,
}

impl Closing<'_> {
    /// Where the gateway is whose turn it is.
    fn port(&self, turn: usize) -> u16 {
        let count = self.world.replicas.len().max(1);
        let replica = self.world.replicas.get(turn.checked_rem(count).unwrap_or_default());
        replica.map_or(0, |replica| replica.door.port)
    }

    async fn ask(&self, turn: usize, path: &str) -> Result<Message, String> {
        wire::ask(self.port(turn), &wire::request("GET", path, &[], &[]), EXAM_PATIENCE).await
    }

    async fn json(&self, turn: usize, path: &str) -> Result<Value, String> {
        let answer = self.ask(turn, path).await?;
        let body: Value = serde_json::from_slice(&answer.body).map_err(|error| error.to_string())?;
        match answer.status() {
            200 => Ok(body),
            status => Err(format!("{path}: {status} {body}")),
        }
    }

    /// What is shown of the resource at last. It is written down when it is asked for, since operators go on meanwhile.
    async fn look(&self, turn: usize) -> Result<Value, String> {
        let caller = Caller { recorder: self.world.recorder.clone(), client: 0 };
        let (sent, path) =
            (caller.begin(Act::Look, self.resource), format!("/v1/resources/{}", self.resource));
        let request = Request { method: "GET", path, headers: Vec::new(), body: Vec::new() };
        match caller.call(self.port(turn), sent, request).await {
            Some((answered, body)) if answered.status == 200 => Ok(body),
            Some((answered, body)) => Err(format!("a look is answered {} {body}", answered.status)),
            None => Err("a look is not answered".to_owned()),
        }
    }

    /// Items of a list, page by page.
    async fn list(&self, turn: usize, path: &str) -> Result<Vec<Value>, String> {
        let (mut items, mut cursor) = (Vec::new(), String::new());
        for _ in 0..PAGES {
            let mut page = self.json(turn, &format!("{path}{cursor}")).await?;
            if let Some(Value::Array(found)) = page.get_mut("items").map(Value::take) {
                items.extend(found);
            }
            match page.get("next_cursor").and_then(Value::as_str) {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return Ok(items),
            }
        }
        Err(format!("{path} has no end"))
    }

    /// All of it, or why it is not settled yet.
    async fn books(&self, turn: usize) -> Result<Closed, String> {
        let (resource, query) = (self.resource, self.resource.replace('/', "%2F"));
        let shown = self.ask(turn, &format!("/v1/resources/{resource}")).await?;
        if shown.status() == 404 {
            // Nobody got as far as to acquire it.
            return Ok(Closed { resource: resource.to_owned(), ..Closed::default() });
        }
        let before: Value = serde_json::from_slice(&shown.body).unwrap_or_default();
        let items = self.list(turn, &format!("/v1/operations?resource={query}&limit=100")).await?;
        let booked: Vec<Booked> = items.iter().filter_map(booked).collect();
        if booked.len() != items.len() {
            return Err(format!("the list of operations cannot be read: {items:?}"));
        }
        if let Some(open) = booked.iter().find(|one| one.state == "intent") {
            return Err(format!("operation {} is still undecided", open.operation));
        }
        if let Some(open) = booked.iter().find(|one| one.state == "uncertain") {
            self.resolve(turn, open, &booked, &query).await?;
            return Err(format!("operation {} was uncertain", open.operation));
        }
        let lines = self.list(turn, &format!("/v1/timeline/{resource}?limit=100")).await?;
        let acquired = lines
            .iter()
            .filter(|line| GRANTS.contains(&line.get("event").and_then(Value::as_str).unwrap_or_default()));
        let acquired = acquired.filter_map(|line| line.get("position")?.as_str()?.parse::<Place>().ok());
        let acquired = acquired.collect();
        let read = self.ask(turn, &format!("/fenced/{resource}")).await?;
        if read.status() >= 500 {
            return Err(format!("a read is answered {}", read.status()));
        }
        let content = match self.world.store_of(resource) {
            Some(store) => store.content(resource),
            None if read.status() == 200 => Some(digest(&read.body)),
            None => None,
        };
        let shown = self.look(turn).await?;
        let registers = registers(&shown);
        if registers.is_none() {
            return Err(format!("the resource cannot be read: {shown}"));
        }
        if shown.get("commit") != before.get("commit") {
            return Err("something came to be applied while the books were looked into".to_owned());
        }
        let resource = resource.to_owned();
        let status = read.status();
        Ok(Closed { resource, registers, booked, acquired, status, content, ..Closed::default() })
    }

    /// What a person does with a doubt that only the store can end: look into the store, after nothing can be under way.
    async fn resolve(&self, turn: usize, open: &Booked, all: &[Booked], query: &str) -> Result<(), String> {
        sleep(EXAM_REST).await;
        let store = self.world.store_of(self.resource).filter(|store| store.class == Class::Serial);
        let store = store.ok_or_else(|| format!("{} is uncertain, and need not be", open.operation))?;
        // The same id may have had its effect in other lives of the resource.
        let known = |one: &&Booked| one.operation == open.operation && one.state.ends_with("applied");
        let counted = all.iter().filter(known).filter(|one| one.state != "resolved_not_applied").count();
        let is_done = store.times_done(self.resource, &open.operation) > counted;
        let verdict = if is_done { "applied" } else { "not_applied" };
        let (operation, life) = (&open.operation, open.incarnation);
        let path = format!("/v1/operations/{operation}/resolve?resource={query}&incarnation={life}");
        let body =
            json!({"verdict": verdict, "evidence": "the store's own log", "reason": "the exam ends it"});
        let caller = Caller { recorder: self.world.recorder.clone(), client: 0 };
        let mut sent = caller.begin(Act::Resolve, self.resource);
        sent.request = Some(operation.clone());
        let headers = vec![("content-type", "application/json".to_owned())];
        let request = Request { method: "POST", path, headers, body: body.to_string().into_bytes() };
        caller.call(self.port(turn), sent, request).await.map(drop).ok_or_else(|| "no answer".to_owned())
    }
}

fn booked(item: &Value) -> Option<Booked> {
    let text = |name: &str| item.get(name).and_then(Value::as_str);
    Some(Booked {
        operation: text("operation_id")?.to_owned(),
        incarnation: text("incarnation")?.parse().ok()?,
        state: text("state")?.to_owned(),
        position: text("position")?.parse().ok()?,
        sequence: text("sequence").and_then(|text| text.parse().ok()),
        commit: text("commit").and_then(|text| text.parse().ok()),
    })
}
