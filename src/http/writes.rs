//! Batches: fenced writes as JSON, all or none, and the dry run that explains and changes nothing.

use axum::http::StatusCode;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;

use crate::access::Caller;
use crate::domain::counter::{CommitNo, Incarnation, Sequence};
use crate::domain::document::ContentType;
use crate::domain::namespaces::{NamespaceRules, Namespaces};
use crate::domain::operation::{Effect, Method, OperationId};
use crate::domain::permission::Permission;
use crate::domain::position::Position;
use crate::domain::precondition::{EntityTag, Preconditions, TagList};
use crate::ledger::Ledger;
use crate::limits::{BODY_TIMEOUT, MAX_BODY_BYTES};
use crate::protocol::command::{MAX_MEMBERS, Member, Write};
use crate::protocol::outcome::{MemberVerdict, Verdict, Written};
use crate::protocol::rows::Done;
use crate::protocol::{Command, Outcome};

use super::body::{Allowance, Payload, worked};
use super::decide::Subject;
use super::fenced::written;
use super::json::{Object, invalid, shown};
use super::member::{Content, Draft, Words};
use super::problem::{self, Code, Problem};
use super::wire::{self, Shown};
use super::{Asked, extract, gate, relay, warning};

const FIELDS: &[&str] = &[
    "method",
    "resource",
    "fencing_token",
    "operation_id",
    "sequence",
    "incarnation",
    "if_match",
    "if_none_match",
    "content_type",
    "body",
    "body_base64",
];

const WORDS: Words = Words { token: "fencing_token", operation_id: "operation_id", sequence: "sequence" };

#[derive(Serialize)]
struct AppliedJson<'a> {
    effect: &'static str,
    members: Vec<MemberJson<'a>>,
}

#[derive(Serialize)]
struct MemberJson<'a> {
    operation_id: &'a str,
    resource: String,
    status: u16,
    effect: &'static str,
    replayed: bool,
    position: Shown<Position>,
    sequence: Option<Shown<Sequence>>,
    commit: Option<Shown<CommitNo>>,
    etag: Option<Shown<EntityTag>>,
}

#[derive(Serialize)]
struct ExplainedJson<'a> {
    members: Vec<VerdictJson<'a>>,
}

#[derive(Serialize)]
struct VerdictJson<'a> {
    operation_id: &'a str,
    resource: String,
    verdict: &'static str,
    status: u16,
    code: Option<&'static str>,
    row: Option<u8>,
    why: String,
}

/// `POST /v1/writes`.
pub(super) async fn apply(asked: Asked<'_>, payload: &mut Payload) -> Result<Response, Problem> {
    asked.require_any(Permission::Write)?;
    let dry_run = dry_run(&asked)?;
    extract::is_json(asked.headers())?;
    extract::said_in_body(asked.headers())?;
    // The members' own limits are checked one by one; together, bodies of MAX_MEMBERS may not pass what one may have.
    let allowance = Allowance { limit: MAX_BODY_BYTES, whose: "this call".to_owned(), copies: 2 };
    let held = payload.read(&allowance, &asked.hall.bodies, BODY_TIMEOUT).await?;
    let (ledger, body, caller) = (asked.hall.door.ledger.clone(), held.bytes, asked.caller.clone());
    let members = worked(body.len(), move || members(&body, &ledger, &caller)).await??;
    let methods: Vec<Method> = members.iter().map(|member| member.method).collect();
    if !dry_run {
        own_store(&members, asked.hall.namespaces())?;
    }
    let subject = subject(&members);
    let write =
        Write::new(members, dry_run).map_err(|error| Problem::new(Code::InvalidField, error.to_string()))?;
    let outcome = asked.decide(Command::Write(write), subject, Some(held.memory)).await?;
    if dry_run {
        return explained(&outcome, &methods);
    }
    match written(outcome)? {
        Ok(members) => Ok(applied(&members)),
        Err(members) => {
            Err(problem::refused_write(&members, true).unwrap_or_else(Problem::fault_without_change))
        }
    }
}

/// All or none is a promise that only the gateway's own database can keep.
fn own_store(members: &[Member], namespaces: &Namespaces) -> Result<(), Problem> {
    for (index, member) in members.iter().enumerate() {
        let resource = &member.address.resource;
        let class = namespaces.rules(&resource.namespace()).and_then(|rules| rules.definition.store.class());
        if class.is_some() {
            let detail = format!(
                "writes[{index}]: {resource} is kept by an upstream, which takes no batches; send it by itself to /fenced/{resource}"
            );
            return Err(Problem::new(Code::BatchUnsupported, detail).about(resource));
        }
    }
    Ok(())
}

fn dry_run(asked: &Asked<'_>) -> Result<bool, Problem> {
    let read = |text: &str| match text {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    };
    Ok(asked.query.word("dry_run", &["true", "false"], read)?.unwrap_or_default())
}

/// A write of one operation can be asked for by name; one of several is looked up member by member.
fn subject(members: &[Member]) -> Subject {
    match members {
        [one] => Subject {
            resource: Some(one.address.resource.clone()),
            position: Some(one.claim.position),
            operation: Some(one.operation_id.clone()),
        },
        _ => Subject::default(),
    }
}

fn members(body: &[u8], ledger: &Ledger, caller: &Caller) -> Result<Vec<Member>, Problem> {
    let mut object = Object::read(body)?;
    object.only(&["writes"])?;
    let Some(writes) = object.list("writes")? else {
        return Err(object.refuse("writes", "it is missing; give a list of 1 to 100 writes"));
    };
    if writes.is_empty() || writes.len() > MAX_MEMBERS {
        let reason = format!("it has {} members; give 1 to {MAX_MEMBERS}", writes.len());
        return Err(object.refuse("writes", &reason));
    }
    let numbered = writes.into_iter().enumerate();
    numbered.map(|(index, value)| member(value, &format!("writes[{index}]"), ledger, caller)).collect()
}

/// One member, completed as the same request to the data plane would be.
fn member(value: Value, place_of: &str, ledger: &Ledger, caller: &Caller) -> Result<Member, Problem> {
    let within = format!("{place_of}: ");
    let mut object = Object::within(value, place_of)?;
    object.only(FIELDS)?;
    let method = method(&mut object)?;
    let draft = draft(&mut object, method, &ledger.setting().namespaces, caller)?;
    let resource = draft.place.address.resource.clone();
    draft.complete(ledger, WORDS).map_err(|problem| problem.within(&within).about(&resource))
}

fn method(object: &mut Object) -> Result<Method, Problem> {
    let Some(word) = object.text("method")? else {
        return Err(object.refuse("method", "it is missing; give PUT, POST or DELETE"));
    };
    Method::from_word(&word).filter(|method| *method != Method::Patch).ok_or_else(|| {
        object.refuse("method", &format!("it is {:?}; it is one of PUT, POST, DELETE", shown(&word)))
    })
}

fn draft(object: &mut Object, method: Method, known: &Namespaces, caller: &Caller) -> Result<Draft, Problem> {
    let Some(name) = object.text("resource")? else {
        return Err(object.refuse("resource", "it is missing; name what to write, as namespace/name"));
    };
    let place = gate::named(caller, known, &name, Permission::Write)
        .map_err(|problem| problem.within(&object.name("resource: ")))?;
    if let Some(class) = place.rules.definition.store.class() {
        relay::fits(class, method, None)?;
    }
    let token = object.text("fencing_token")?;
    let token_name = object.name("fencing_token");
    let issuer = place.rules.definition.issuer;
    let token = token.map(|text| extract::token_of(&text, issuer, &token_name)).transpose()?;
    let sequence = object.text("sequence")?;
    let sequence_name = object.name("sequence");
    let resource = place.address.resource.as_str();
    Ok(Draft {
        may_raise: caller.rules().allow(resource, Permission::Advance),
        method,
        token,
        operation_id: operation_id(object)?,
        sequence: sequence.map(|text| extract::sequence_of(&text, &sequence_name)).transpose()?,
        incarnation: read(object, "incarnation", Incarnation::parse)?,
        preconditions: Preconditions {
            if_match: read(object, "if_match", TagList::parse)?,
            if_none_match: read(object, "if_none_match", TagList::parse)?,
        },
        content_type: read(object, "content_type", ContentType::parse)?,
        content: Content::Document(content(object, &place.rules)?),
        place,
    })
}

fn operation_id(object: &mut Object) -> Result<Option<OperationId>, Problem> {
    let Some(text) = object.text("operation_id")? else { return Ok(None) };
    OperationId::parse(&text).map(Some).map_err(|error| {
        Problem::new(Code::InvalidOperationId, format!("{}: {error}", object.name("operation_id")))
    })
}

fn read<T, E: std::fmt::Display>(
    object: &mut Object,
    field: &str,
    parse: impl FnOnce(&str) -> Result<T, E>,
) -> Result<Option<T>, Problem> {
    let Some(text) = object.text(field)? else { return Ok(None) };
    parse(&text).map(Some).map_err(|error| object.refuse(field, &error.to_string()))
}

/// The bytes of a member, within its namespace's limit.
fn content(object: &mut Object, rules: &NamespaceRules) -> Result<Bytes, Problem> {
    let body = match (object.text("body")?, object.text("body_base64")?) {
        (None, None) => Bytes::new(),
        (Some(text), None) => Bytes::from(text),
        (None, Some(encoded)) => Bytes::from(decoded(&encoded, &object.name("body_base64"))?),
        (Some(_), Some(_)) => {
            return Err(object.refuse("body_base64", "body is given too; send the content in one of the two"));
        }
    };
    let limit = rules.max_body_bytes;
    if u64::try_from(body.len()).unwrap_or(u64::MAX) > limit {
        let detail = format!(
            "{}: the content has {} bytes; its namespace takes at most {limit}",
            object.name("body"),
            body.len()
        );
        return Err(Problem::new(Code::BodyTooLarge, detail));
    }
    Ok(body)
}

/// One grammar: the standard alphabet, with padding.
fn decoded(text: &str, field: &str) -> Result<Vec<u8>, Problem> {
    let odd = |found: &char| !(found.is_ascii_alphanumeric() || matches!(found, '+' | '/' | '='));
    if let Some((index, found)) = text.chars().enumerate().find(|(_, found)| odd(found)) {
        let at = index.saturating_add(1);
        return Err(invalid(
            field,
            &format!(
                "character {found:?} at position {at} is not base64; use A-Z a-z 0-9 + / and = as padding"
            ),
        ));
    }
    STANDARD.decode(text).map_err(|error| invalid(field, &format!("it is not base64 with padding: {error}")))
}

fn applied(applied: &[Written]) -> Response {
    let members = applied.iter().map(|written| MemberJson {
        operation_id: written.operation_id.as_str(),
        resource: written.address.full(),
        status: problem::status_saved(&written.response).as_u16(),
        effect: Effect::Applied.word(),
        replayed: written.replayed,
        position: Shown(written.position),
        sequence: written.sequence.map(Shown),
        commit: written.response.commit.map(Shown),
        etag: written.response.etag.map(Shown),
    });
    let answer = AppliedJson { effect: Effect::Applied.word(), members: members.collect() };
    let resources = applied.iter().map(|written| &written.address.resource);
    warning::about(wire::json(StatusCode::OK, &answer), resources)
}

fn explained(outcome: &Outcome, methods: &[Method]) -> Result<Response, Problem> {
    let Outcome::Explained(judged) = outcome else { return Err(Problem::fault_without_change()) };
    let members = judged.iter().zip(methods).map(|(member, method)| explain(member, *method)).collect();
    let resources = judged.iter().map(|member| &member.address.resource);
    Ok(warning::about(wire::json(StatusCode::OK, &ExplainedJson { members }), resources))
}

fn explain(member: &MemberVerdict, method: Method) -> VerdictJson<'_> {
    let (verdict, status, code, row, why) = match &member.verdict {
        Verdict::Admit { replaces } => {
            let status = problem::status_of(done(method, *replaces));
            ("admit", status, None, Some(19), "nothing stands against it".to_owned())
        }
        Verdict::Replay(written) => {
            let status = problem::status_saved(&written.response);
            let why = format!("the operation is in the store already, under position {}", written.position);
            ("replay", status, None, Some(2), why)
        }
        Verdict::Refuse(refusal) => {
            let problem = problem::refused_member(member, refusal);
            let code = problem.code();
            ("refuse", code.status(), Some(code.word()), refusal.row(), problem.detail().to_owned())
        }
    };
    VerdictJson {
        operation_id: member.operation_id.as_str(),
        resource: member.address.full(),
        verdict,
        status: status.as_u16(),
        code,
        row,
        why,
    }
}

const fn done(method: Method, replaces: bool) -> Done {
    match (method, replaces) {
        (Method::Delete, _) => Done::Removed,
        (Method::Put | Method::Post | Method::Patch, true) => Done::Replaced,
        (Method::Put | Method::Post | Method::Patch, false) => Done::Created,
    }
}
