//! `fencegate write`.

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;

use clap::Args;
use reqwest::header::{CONTENT_TYPE, IF_MATCH, IF_NONE_MATCH};
use reqwest::{Method, RequestBuilder};
use serde_json::{Map, Value};

use super::client::{Client, Delivered, encoded};
use super::failure::Failure;
use super::output::{self, Output};
use super::table;
use super::words::{self, TokenText};
use crate::domain::counter::{Incarnation, Sequence};
use crate::domain::document::ContentType;
use crate::domain::operation::OperationId;
use crate::domain::resource::Path;
use crate::limits::MAX_BODY_BYTES;

/// What `write` takes.
#[derive(Args)]
pub(super) struct Write {
    /// The name, target included
    #[arg(value_parser = words::name)]
    resource: Path,
    /// The content; - is standard input
    #[arg(value_name = "FILE", required_unless_present = "delete", conflicts_with = "delete")]
    file: Option<PathBuf>,
    /// The fencing token that acquire returned
    #[arg(long, env = "FENCING_TOKEN", hide_env_values = true, value_parser = words::token)]
    token: Option<TokenText>,
    /// The tokens of a lease over several resources, as `fencegate run` exports them
    #[arg(long, env = "FENCING_TOKENS", hide = true)]
    tokens: Option<String>,
    /// Name of this logical write: the same for all its retries, and for nothing else
    #[arg(long, value_name = "ID", value_parser = words::operation)]
    operation: OperationId,
    /// Order inside the position, under the policy ordered
    #[arg(long, value_name = "N", value_parser = words::sequence)]
    sequence: Option<Sequence>,
    /// Refuse it in any other incarnation
    #[arg(long, value_name = "N", value_parser = words::incarnation)]
    incarnation: Option<Incarnation>,
    /// Refuse it unless the content has this entity tag, such as 1.2
    #[arg(long, value_name = "ETAG", value_parser = words::tags)]
    if_match: Option<String>,
    /// Refuse it if the content has this entity tag; * refuses to replace anything
    #[arg(long, value_name = "ETAG", value_parser = words::tags)]
    if_none_match: Option<String>,
    /// Kept with the content and given back with it
    #[arg(long, value_name = "TYPE", value_parser = words::content_type, conflicts_with = "delete")]
    content_type: Option<ContentType>,
    /// Delete instead of writing
    #[arg(long)]
    delete: bool,
}

impl Write {
    pub(super) async fn run(self, client: &Client, output: &Output) -> Result<(), Failure> {
        let again = format!(
            "Run the same command again with the same operation id {:?}: it is applied at most once",
            self.operation.as_str()
        );
        match client.deliver(self.request(client)?, &again).await? {
            Delivered::Gateway(answer) => output.answer(&answer.raw, || told(&answer.json)),
            Delivered::Store(relayed) => output.answer(&output::json(&relayed.as_json()), || relayed.told()),
        }
    }

    /// The token given, or the one among several that is for this resource or for what the name lies below.
    fn own_token(&self) -> Result<String, Failure> {
        if let Some(token) = &self.token {
            return Ok(token.0.clone());
        }
        let name = self.resource.as_str();
        let all: Option<Map<String, Value>> =
            self.tokens.as_deref().and_then(|text| serde_json::from_str(text).ok());
        let covers = |resource: &String| {
            name.strip_prefix(resource.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let found = all.iter().flatten().find(|(resource, _)| covers(resource));
        let token = found.and_then(|(_, token)| token.as_str()).and_then(|token| words::token(token).ok());
        token.map(|token| token.0).ok_or_else(|| {
            let missing = match all {
                None => "give --token, or set FENCING_TOKEN".to_owned(),
                Some(_) => format!("FENCING_TOKENS has no token for {name}"),
            };
            Failure::Usage(missing)
        })
    }

    fn request(&self, client: &Client) -> Result<RequestBuilder, Failure> {
        let path = format!("/fenced/{}", encoded(&self.resource));
        let request = match &self.file {
            None => client.request(Method::DELETE, &path),
            Some(file) => client.request(Method::PUT, &path).body(content(file)?),
        };
        let optional = [
            ("fencing-sequence", self.sequence.map(|sequence| sequence.to_string())),
            ("fencing-incarnation", self.incarnation.map(|incarnation| incarnation.to_string())),
            (IF_MATCH.as_str(), self.if_match.clone()),
            (IF_NONE_MATCH.as_str(), self.if_none_match.clone()),
            (CONTENT_TYPE.as_str(), self.content_type.as_ref().map(|kind| kind.as_str().to_owned())),
        ];
        let request = request
            .header("fencing-token", self.own_token()?)
            .header("idempotency-key", quoted(self.operation.as_str()));
        Ok(optional
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)))
            .fold(request, |request, (name, value)| request.header(name, value)))
    }
}

/// An operation id as a structured-field string: bare, one that begins with a quote would be read as another.
pub(super) fn quoted(operation: &str) -> String {
    format!("\"{}\"", operation.replace('\\', "\\\\").replace('"', "\\\""))
}

/// The whole content, bounded: no gateway takes more.
fn content(file: &PathBuf) -> Result<Vec<u8>, Failure> {
    let unusable = |why: String| Failure::Usage(format!("cannot read {}: {why}", file.display()));
    let source: Box<dyn Read> = if file.as_os_str() == "-" {
        Box::new(io::stdin().lock())
    } else {
        Box::new(File::open(file).map_err(|error| unusable(error.to_string()))?)
    };
    let mut bytes = Vec::new();
    source
        .take(MAX_BODY_BYTES.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(|error| unusable(error.to_string()))?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > MAX_BODY_BYTES {
        return Err(unusable(format!("it is larger than {MAX_BODY_BYTES} bytes, which no gateway takes")));
    }
    Ok(bytes)
}

fn told(receipt: &Value) -> String {
    table::facts(
        receipt,
        &[
            ("resource", "/resource"),
            ("target", "/target"),
            ("operation", "/operation_id"),
            ("effect", "/effect"),
            ("incarnation", "/incarnation"),
            ("position", "/position"),
            ("sequence", "/sequence"),
            ("commit", "/commit"),
            ("etag", "/etag"),
            ("applied at", "/applied_at"),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_id_is_quoted_so_that_any_id_arrives_as_itself() {
        assert_eq!(quoted("publish-1"), "\"publish-1\"");
        assert_eq!(quoted("\"a\\b\""), "\"\\\"a\\\\b\\\"\"");
    }

    #[test]
    fn content_without_end_is_not_read_to_its_end() {
        let told = content(&PathBuf::from("/dev/zero")).unwrap_err().told();
        assert!(told.contains("larger than 67108864 bytes"), "{told}");
    }
}
