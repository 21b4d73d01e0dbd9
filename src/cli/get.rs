//! `fencegate get`: the bytes of a document, whole or not at all where that can be helped.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path as FilePath, PathBuf};

use bytes::Bytes;
use clap::Args;
use reqwest::header::{CONTENT_TYPE, ETAG, HeaderMap};
use reqwest::{Method, Response};
use serde_json::json;

use super::client::{Client, encoded};
use super::failure::Failure;
use super::inspect::ASK_AGAIN;
use super::output::{self, Output};
use super::words;
use crate::domain::resource::Path;
use crate::limits::MAX_BODY_BYTES;

/// What `get` takes.
#[derive(Args)]
pub(super) struct Get {
    /// The name, target included
    #[arg(value_parser = words::name)]
    resource: Path,
    /// File to write to; it appears when all of it is there
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Get {
    pub(super) async fn run(self, client: Client, output: &Output) -> Result<(), Failure> {
        let path = format!("/fenced/{}", encoded(&self.resource));
        let response = client.open(client.request(Method::GET, &path), ASK_AGAIN).await?;
        let mut body = Body { client, response, bytes: 0 };
        match &self.output {
            Some(file) => {
                save(&mut body, file).await?;
                report(&body, file, output)
            }
            None if output.is_terminal() => show(&mut body, output).await,
            None => {
                while let Some(chunk) = body.next().await? {
                    output.raw(&chunk)?;
                }
                Ok(())
            }
        }
    }
}

/// A body on its way.
struct Body {
    client: Client,
    response: Response,
    bytes: u64,
}

impl Body {
    async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        let again = format!("It was cut off after {} bytes. {ASK_AGAIN}", self.bytes);
        let chunk = self.response.chunk().await.map_err(|error| self.client.failed(&error, &again))?;
        let length = chunk.as_ref().map_or(0, Bytes::len);
        self.bytes = self.bytes.saturating_add(u64::try_from(length).unwrap_or(u64::MAX));
        Ok(chunk)
    }
}

/// Writes into a neighbour first and then gives it the name, so that a cut answer leaves no half file under it. What
/// is no plain file (a pipe, /dev/stdout) is written to directly.
async fn save(body: &mut Body, file: &FilePath) -> Result<(), Failure> {
    if fs::metadata(file).is_ok_and(|found| !found.is_file()) {
        return copy(body, file).await;
    }
    let mut part = file.as_os_str().to_owned();
    part.push(format!(".{}.part", std::process::id()));
    let part = PathBuf::from(part);
    let saved = match copy(body, &part).await {
        Ok(()) => fs::rename(&part, file).map_err(|error| unusable(file, &error)),
        Err(failure) => Err(failure),
    };
    if saved.is_err() && part.exists() {
        fs::remove_file(&part).map_err(|error| unusable(&part, &error))?;
    }
    saved
}

async fn copy(body: &mut Body, file: &FilePath) -> Result<(), Failure> {
    let mut to = File::create(file).map_err(|error| unusable(file, &error))?;
    while let Some(chunk) = body.next().await? {
        to.write_all(&chunk).map_err(|error| unusable(file, &error))?;
    }
    Ok(())
}

fn unusable(file: &FilePath, error: &std::io::Error) -> Failure {
    Failure::Usage(format!("cannot write {}: {error}", file.display()))
}

/// Says on a terminal or for a program what was saved; a script that asked for nothing hears nothing.
fn report(body: &Body, file: &FilePath, output: &Output) -> Result<(), Failure> {
    let headers = body.response.headers();
    if output.asked_for_json() {
        let json = json!({
            "file": file.display().to_string(),
            "size": body.bytes,
            "etag": text(headers, ETAG.as_str()),
            "content_type": text(headers, CONTENT_TYPE.as_str()),
            "position": text(headers, "fencing-position"),
        });
        return output.answer(&output::json(&json), String::new);
    }
    if output.is_for_people() {
        let etag = text(headers, ETAG.as_str()).unwrap_or("none");
        return output.line(&format!("{} bytes in {}, etag {etag}", body.bytes, file.display()));
    }
    Ok(())
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// Shows a text on a terminal. What is no plain text could command the terminal, and is not shown.
async fn show(body: &mut Body, output: &Output) -> Result<(), Failure> {
    let mut bytes = Vec::new();
    while let Some(chunk) = body.next().await? {
        bytes.extend_from_slice(&chunk);
        if body.bytes > MAX_BODY_BYTES {
            return Err(Failure::Usage("it is too large for a terminal; give a file with -o".to_owned()));
        }
    }
    if !is_plain(&bytes) {
        return Err(Failure::Usage(
            "it is not plain text; give a file with -o, or pipe it somewhere".to_owned(),
        ));
    }
    output.raw(&bytes)
}

fn is_plain(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes)
        .is_ok_and(|text| text.chars().all(|c| !c.is_control() || matches!(c, '\n' | '\r' | '\t')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_text_reaches_a_terminal() {
        assert!(is_plain("line\r\n\tünïcode\n".as_bytes()));
        assert!(is_plain(b""));
        assert!(!is_plain(b"%PDF-1.4\n%\xe2\xe3"));
        assert!(!is_plain(b"\x1b[2J"));
    }
}
