//! The story itself, step by step.

use reqwest::Method;
use tokio::time::{sleep, timeout};

use super::Narrator;
use super::player::Player;
use super::stage::{Gateway, Stage};
use super::worker::{Event, balance};
use crate::cli::client::encoded;
use crate::cli::failure::Failure;
use crate::domain::resource::Path;
use crate::limits::{DEMO_PAUSE, DEMO_STEP_TIMEOUT};

/// What both workers produce.
const RESOURCE: &str = "statements/account-42/2026-09-13";

/// How long a lease of worker A lives: the least that a gateway gives unless configured otherwise.
const SHORT_TTL_MS: u64 = 1_000;

/// How long a lease of worker B lives.
const LONG_TTL_MS: u64 = 30_000;

/// What worker A sums up, in cents. The second amount it sees only after its pause.
const OLDER_INPUT: [u64; 2] = [10_000, 420];

/// What worker B sums up, in cents: there is more of it by then.
const NEWER_INPUT: [u64; 3] = [10_000, 420, 1_430];

/// Plays all of it. It fails unless the newer result stands at the end.
pub(super) async fn play(stage: &mut Stage, narrator: &Narrator<'_>) -> Result<(), Failure> {
    let gateway = stage.open_gateway().await?;
    let (address, process) = (gateway.client.base(), gateway.pid);
    narrator.tell(&format!("a gateway of its own answers at {address} (process {process})"))?;

    let (mut older, old_position) = pause_the_owner(stage, narrator, &gateway).await?;
    let new_position = take_over(stage, narrator, &gateway).await?;
    wake_up(stage, narrator, &mut older, &old_position).await?;

    let stored = read_back(&gateway).await?;
    narrator.tell(&format!("read back: {:?}, written under position {}", stored.content, stored.position))?;
    let newer = balance(NEWER_INPUT.iter().sum());
    if stored.content != newer || stored.position != new_position {
        return Err(Failure::Story(format!("the newer result {newer:?} does not stand")));
    }
    if !stage.close_gateway(&gateway).await? {
        return Err(Failure::Story("the gateway did not end well after SIGTERM".to_owned()));
    }
    narrator.tell("the newer result stands; the stale write changed nothing")
}

/// Worker A acquires, begins, and is stopped until its lease is over.
async fn pause_the_owner(
    stage: &mut Stage,
    narrator: &Narrator<'_>,
    gateway: &Gateway,
) -> Result<(Player, String), Failure> {
    let mut older = start(stage, gateway, "A", SHORT_TTL_MS)?;
    let position = acquired(&mut older).await?;
    let process = older.pid();
    narrator
        .tell(&format!("worker A (process {process}) acquires {RESOURCE} for 1 s: position {position}"))?;
    let [first, second] = OLDER_INPUT;
    older.give(&first.to_string()).await?;
    match older.says().await? {
        Event::Computing => narrator.tell("worker A has half of its input and computes")?,
        other @ (Event::Acquired { .. } | Event::Written { .. } | Event::Refused { .. }) => {
            return Err(unexpected(&older, &other));
        }
    }
    older.stop().await?;
    narrator.tell("worker A is stopped with SIGSTOP in the middle of its work")?;
    // The rest of its input waits for it: nothing but the stop keeps it from writing.
    older.give(&second.to_string()).await?;
    older.end_input();
    let ending = lease_over(gateway).await?;
    narrator.tell(&format!("its lease is over ({ending}); worker A cannot know"))?;
    Ok((older, position))
}

/// Worker B acquires, computes and publishes.
async fn take_over(stage: &mut Stage, narrator: &Narrator<'_>, gateway: &Gateway) -> Result<String, Failure> {
    let mut newer = start(stage, gateway, "B", LONG_TTL_MS)?;
    let position = acquired(&mut newer).await?;
    narrator.tell(&format!("worker B (process {}) acquires it: position {position}", newer.pid()))?;
    for cents in NEWER_INPUT {
        newer.give(&cents.to_string()).await?;
    }
    newer.end_input();
    loop {
        match newer.says().await? {
            Event::Computing => {}
            Event::Written { position, commit } => {
                let content = balance(NEWER_INPUT.iter().sum());
                narrator.tell(&format!("worker B writes {content:?}: stored as commit {commit}"))?;
                ended(stage, &newer).await?;
                return Ok(position);
            }
            other @ (Event::Acquired { .. } | Event::Refused { .. }) => {
                return Err(unexpected(&newer, &other));
            }
        }
    }
}

/// Worker A goes on and writes with the token that it has.
async fn wake_up(
    stage: &mut Stage,
    narrator: &Narrator<'_>,
    older: &mut Player,
    position: &str,
) -> Result<(), Failure> {
    older.resume()?;
    narrator.tell("worker A is resumed with SIGCONT, and goes on as if nothing had happened")?;
    let content = balance(OLDER_INPUT.iter().sum());
    match older.says().await? {
        Event::Refused { status: 412, code } if code == "stale_token" => {
            narrator.tell(&format!(
                "worker A writes {content:?} with position {position}: refused, 412 {code}"
            ))?;
        }
        Event::Written { .. } => {
            return Err(Failure::Story(format!("worker A's older result {content:?} was accepted")));
        }
        other @ (Event::Acquired { .. } | Event::Computing | Event::Refused { .. }) => {
            return Err(unexpected(older, &other));
        }
    }
    ended(stage, older).await
}

fn start(stage: &mut Stage, gateway: &Gateway, name: &'static str, ttl_ms: u64) -> Result<Player, Failure> {
    stage.worker(gateway, name, &["--resource", RESOURCE, "--ttl-ms", &ttl_ms.to_string()])
}

async fn acquired(player: &mut Player) -> Result<String, Failure> {
    match player.says().await? {
        Event::Acquired { position } => Ok(position),
        other @ (Event::Computing | Event::Written { .. } | Event::Refused { .. }) => {
            Err(unexpected(player, &other))
        }
    }
}

async fn ended(stage: &mut Stage, player: &Player) -> Result<(), Failure> {
    if stage.ended(player.place()).await? { Ok(()) } else { Err(player.failed("did not end well")) }
}

fn unexpected(player: &Player, event: &Event) -> Failure {
    player.failed(&format!("came to an unexpected point: {event:?}"))
}

/// Waits until nobody holds the resource, as anybody may see it. Gives the state of the last lease.
async fn lease_over(gateway: &Gateway) -> Result<String, Failure> {
    let path = format!("/v1/resources/{}", encoded(&name()?));
    let looking = async {
        loop {
            let answer = gateway.client.ask(gateway.client.request(Method::GET, &path), "").await?;
            match answer.text("/lease/state") {
                Some("held") => sleep(DEMO_PAUSE).await,
                Some(state) => return Ok(state.to_owned()),
                None => return Ok("gone".to_owned()),
            }
        }
    };
    let late = |_| Err(Failure::Story("worker A's lease does not end".to_owned()));
    timeout(DEMO_STEP_TIMEOUT, looking).await.unwrap_or_else(late)
}

/// What is stored, and under which position it was written.
struct Stored {
    content: String,
    position: String,
}

async fn read_back(gateway: &Gateway) -> Result<Stored, Failure> {
    let client = &gateway.client;
    let path = format!("/fenced/{}", encoded(&name()?));
    let response = client.open(client.request(Method::GET, &path), "").await?;
    let position = response.headers().get("fencing-position").and_then(|value| value.to_str().ok());
    let position = position.unwrap_or("unknown").to_owned();
    let content = response.text().await.map_err(|error| client.failed(&error, ""))?;
    Ok(Stored { content, position })
}

fn name() -> Result<Path, Failure> {
    Path::parse(RESOURCE).map_err(|error| Failure::Usage(error.to_string()))
}
