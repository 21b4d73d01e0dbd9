//! Cells of `conditional` stores: content and stamp are written together, on a validator that was recorded, so the store
//! itself refuses what is stale. `Base::Unread` is never sent on.

use bytes::Bytes;
use hyper::Method as Verb;
use hyper::header::CONTENT_TYPE;
use sha2::{Digest as _, Sha256};

use super::Upstream;
use super::address::{hex, is_of_content, path_of_content, path_of_resource, with_query};
use super::headers;
use super::order::{Order, Sent};
use super::outgoing::Outgoing;
use super::pool::Fault;
use super::read::length_of;
use super::wire::{Draft, Whole, collected};
use crate::domain::cell::{PointerCell, stamp_text, stamped};
use crate::domain::document::ContentType;
use crate::domain::operation::Method;
use crate::domain::resource::ResourceName;
use crate::domain::store::StampPlace;
use crate::domain::upstream::{Base, Bulk, CellSeen, Payload, Stamp, Validator};
use crate::limits;

/// The media type of what the gateway writes itself.
const JSON: &str = "application/json";

/// Headers that describe the content and stay with it when only the stamp changes.
const OF_THE_CONTENT: [&str; 5] =
    ["content-type", "content-encoding", "content-language", "content-disposition", "cache-control"];

impl Upstream {
    fn cell_path(&self, resource: &ResourceName) -> String {
        path_of_resource(&self.pool.line.prefix, resource)
    }

    /// Content with its stamp, or a tombstone.
    pub(super) async fn send_cell(&self, place: &StampPlace, order: &Order) -> Sent {
        let resource = &order.address.resource;
        let Some(stamp) = &order.stamp else {
            return Sent::NotSent("no stamp was announced".to_owned());
        };
        if order.address.target.is_some() || matches!(order.method, Method::Post | Method::Patch) {
            return Sent::NotSent("a cell is one resource, and is put or deleted as a whole".to_owned());
        }
        if matches!(place, StampPlace::Pointer) && is_of_content(resource) {
            return Sent::NotSent("the name is kept for content objects".to_owned());
        }
        // Before anything is uploaded: a send without a base would upload for nothing.
        if matches!(order.base, Base::Unread) {
            return Sent::NotSent("the cell has not been read".to_owned());
        }
        let content_type = order.content_type.as_ref().map(ContentType::as_str);
        let draft = if stamp.kind.is_empty() {
            self.empty_cell(place, resource, &order.base, stamp)
        } else {
            match place {
                StampPlace::Header(name) => {
                    cell_put(self.cell_path(resource), &order.base, Outgoing::of(&order.payload))
                        .and_then(|draft| draft.of_type(content_type))
                        .and_then(|draft| draft.with(name, &stamp.to_string()))
                }
                StampPlace::Json(pointer) => self.json_cell(pointer, order, stamp).await,
                StampPlace::Pointer => match self.upload(order).await {
                    Ok(object) => self.pointer_cell(order, stamp, object),
                    Err(sent) => return sent,
                },
            }
        };
        self.put_cell(place, resource, self.as_the_caller_said(draft, order)).await
    }

    /// The caller's headers; a query would make another cell of it, so there is none.
    fn as_the_caller_said(&self, draft: Result<Draft, String>, order: &Order) -> Result<Draft, String> {
        let mut draft = draft?;
        if order.query.is_some() {
            return Err("a cell has no query".to_owned());
        }
        let mut all = hyper::HeaderMap::new();
        headers::forward(&order.headers, &self.store, &mut all)?;
        all.extend(draft.headers);
        draft.headers = all;
        Ok(draft.before(&order.deadline))
    }

    async fn put_cell(
        &self,
        place: &StampPlace,
        resource: &ResourceName,
        draft: Result<Draft, String>,
    ) -> Sent {
        match self.outcome(draft).await {
            Sent::Answered(answer) if answer.relayed.is_success() && answer.relayed.validator().is_none() => {
                self.read_back(place, resource, answer).await
            }
            sent @ (Sent::Answered(_) | Sent::NotSent(_) | Sent::Doubt(_)) => sent,
        }
    }

    /// A cell that reads show as nothing.
    fn empty_cell(
        &self,
        place: &StampPlace,
        resource: &ResourceName,
        base: &Base,
        stamp: &Stamp,
    ) -> Result<Draft, String> {
        let path = self.cell_path(resource);
        match place {
            StampPlace::Header(name) => {
                cell_put(path, base, Outgoing::none())?.with(name, &stamp.to_string())
            }
            StampPlace::Json(pointer) => {
                let body = stamped(b"{}", pointer, stamp).map_err(|why| why.to_string())?;
                cell_put(path, base, Outgoing::Whole(body.into()))?.of_type(Some(JSON))
            }
            StampPlace::Pointer => {
                let cell = PointerCell {
                    version: PointerCell::VERSION,
                    stamp: stamp.to_string(),
                    content: None,
                    content_type: None,
                };
                let body = Outgoing::Whole(cell.written().into());
                cell_put(path, base, body)?.of_type(Some(JSON))
            }
        }
    }

    async fn json_cell(&self, pointer: &str, order: &Order, stamp: &Stamp) -> Result<Draft, String> {
        let body = in_memory(&order.payload, limits::STAMPED_JSON_BYTES).await?;
        let body = stamped(&body, pointer, stamp).map_err(|why| why.to_string())?;
        let draft =
            cell_put(self.cell_path(&order.address.resource), &order.base, Outgoing::Whole(body.into()))?;
        draft.of_type(Some(order.content_type.as_ref().map_or(JSON, |kind| kind.as_str())))
    }

    fn pointer_cell(&self, order: &Order, stamp: &Stamp, object: String) -> Result<Draft, String> {
        let cell = PointerCell {
            version: PointerCell::VERSION,
            stamp: stamp.to_string(),
            content: Some(object),
            content_type: order.content_type.as_ref().map(|kind| kind.as_str().to_owned()),
        };
        let path = self.cell_path(&order.address.resource);
        cell_put(path, &order.base, Outgoing::Whole(cell.written().into()))?.of_type(Some(JSON))
    }

    /// Puts the content where nothing else ever is. A 412 means that an earlier attempt has done so.
    async fn upload(&self, order: &Order) -> Result<String, Sent> {
        let object = object_of(order);
        let path = path_of_content(&self.pool.line.prefix, &order.address.resource, &object);
        let draft = with_query(path, None)
            .map(|path| Draft::new(Verb::PUT, path, Outgoing::of(&order.payload)))
            .and_then(|draft| draft.with("if-none-match", "*"))
            .and_then(|draft| draft.of_type(order.content_type.as_ref().map(ContentType::as_str)));
        match self.outcome(draft).await {
            Sent::Answered(answer) if answer.relayed.is_success() || answer.relayed.status == 412 => {
                Ok(object)
            }
            sent @ (Sent::Answered(_) | Sent::NotSent(_) | Sent::Doubt(_)) => Err(sent),
        }
    }

    /// The same content with another stamp.
    pub(super) async fn rewrite(
        &self,
        place: &StampPlace,
        resource: &ResourceName,
        base: &Base,
        stamp: &Stamp,
    ) -> Sent {
        if stamp.kind.is_empty() {
            return self.put_cell(place, resource, self.empty_cell(place, resource, base, stamp)).await;
        }
        let Base::Recorded(validator) = base else {
            return Sent::NotSent("there is no content to keep".to_owned());
        };
        match self.kept(place, resource, validator, stamp).await {
            Ok(draft) => self.put_cell(place, resource, draft).await,
            Err(sent) => sent,
        }
    }

    /// The request that puts the present content again. What is not as recorded is a doubt: the caller looks at the cell.
    async fn kept(
        &self,
        place: &StampPlace,
        resource: &ResourceName,
        validator: &Validator,
        stamp: &Stamp,
    ) -> Result<Result<Draft, String>, Sent> {
        let path = self.cell_path(resource);
        let get = Draft::new(Verb::GET, path.clone(), Outgoing::none());
        let response = self.exchange(get).await.map_err(unread)?;
        let (head, body) = response.into_parts();
        let etag = headers::one(&head.headers, "etag").and_then(Validator::parse);
        if !head.status.is_success() || etag.as_ref() != Some(validator) {
            return Err(Sent::Doubt("the cell is not as it was recorded".to_owned()));
        }
        let length = length_of(&head.headers);
        let patience = self.store.timeout.duration();
        let base = Base::Recorded(validator.clone());
        let body = match place {
            StampPlace::Header(_) => match length {
                Some(length) => Outgoing::Piped(Box::new(body), length),
                None => Outgoing::Whole(
                    collected(body, self.store.max_response_bytes, None, patience).await.map_err(unread)?,
                ),
            },
            StampPlace::Json(pointer) => {
                let most = limits::STAMPED_JSON_BYTES;
                let old = collected(body, most, length, patience).await.map_err(unread)?;
                let new = stamped(&old, pointer, stamp).map_err(|why| Sent::Doubt(why.to_string()))?;
                Outgoing::Whole(new.into())
            }
            StampPlace::Pointer => {
                let most = limits::POINTER_CELL_BYTES;
                let old = collected(body, most, length, patience).await.map_err(unread)?;
                let cell = PointerCell::read(&old).filter(|cell| cell.content.is_some());
                let mut cell = cell.ok_or_else(|| Sent::Doubt("the cell names no content".to_owned()))?;
                cell.stamp = stamp.to_string();
                Outgoing::Whole(cell.written().into())
            }
        };
        let draft = cell_put(path, &base, body);
        let draft = draft.and_then(|mut draft| {
            self.describe(&head.headers, &mut draft);
            match place {
                StampPlace::Header(name) => draft.with(name, &stamp.to_string()),
                StampPlace::Json(_) | StampPlace::Pointer => Ok(draft),
            }
        });
        Ok(draft)
    }

    /// What describes the content goes with it.
    fn describe(&self, from: &hyper::HeaderMap, draft: &mut Draft) {
        for (name, value) in from {
            let both = |list: &[String]| list.iter().any(|listed| listed == name.as_str());
            let own = both(&self.store.forward_headers) && both(&self.store.return_headers);
            if OF_THE_CONTENT.contains(&name.as_str()) || (own && name.as_str() != CONTENT_TYPE.as_str()) {
                draft.headers.append(name, value.clone());
            }
        }
    }

    /// What a cell shows.
    pub(super) async fn look_at(
        &self,
        place: &StampPlace,
        resource: &ResourceName,
    ) -> Result<CellSeen, String> {
        let (verb, most) = match place {
            StampPlace::Header(_) => (Verb::HEAD, 0),
            StampPlace::Json(_) => (Verb::GET, limits::STAMPED_JSON_BYTES),
            StampPlace::Pointer => (Verb::GET, limits::POINTER_CELL_BYTES),
        };
        let draft = Draft::new(verb, self.cell_path(resource), Outgoing::none());
        let most = most.max(self.store.max_response_bytes);
        match self.look(draft, most, matches!(place, StampPlace::Header(_))).await {
            Ok(whole) => seen(place, &whole),
            Err(Fault::Unsent(why) | Fault::TimedOut(why) | Fault::Broken(why)) => Err(why),
        }
    }

    /// A HEAD announces the length of a body that does not come.
    async fn look(&self, draft: Draft, most: u64, head_only: bool) -> Result<Whole, Fault> {
        if !head_only {
            return self.whole(draft, most).await;
        }
        let (head, body) = self.exchange(draft).await?.into_parts();
        let body = collected(body, most, None, self.store.timeout.duration()).await?;
        Ok(Whole { status: head.status.as_u16(), headers: head.headers, body })
    }
}

/// A PUT of a cell on a base.
fn cell_put(path: String, base: &Base, body: Outgoing) -> Result<Draft, String> {
    let draft = Draft::new(Verb::PUT, path, body);
    match base {
        Base::Unread => Err("the cell has not been read".to_owned()),
        Base::Absent => draft.with("if-none-match", "*"),
        Base::Recorded(validator) => draft.with("if-match", validator.as_str()),
    }
}

/// The content could not be read, so nothing was written.
fn unread(fault: Fault) -> Sent {
    match fault {
        Fault::Unsent(why) => Sent::NotSent(why),
        Fault::TimedOut(why) | Fault::Broken(why) => Sent::Doubt(why),
    }
}

fn seen(place: &StampPlace, whole: &Whole) -> Result<CellSeen, String> {
    match whole.status {
        404 | 410 => return Ok(CellSeen::Absent),
        200 | 204 => {}
        status => return Err(format!("the cell was answered with {status}")),
    }
    let strange = |why: &str| Ok(CellSeen::Strange(why.to_owned()));
    let Some(validator) = whole.etag().and_then(Validator::parse) else {
        return strange("the cell has no strong validator");
    };
    let text = match place {
        StampPlace::Header(name) => {
            let value = whole.headers.get(name.as_str());
            value.map(|value| value.to_str().unwrap_or_default().to_owned())
        }
        // Content that is no JSON was not written by a gateway.
        StampPlace::Json(pointer) => stamp_text(&whole.body, pointer).unwrap_or_default(),
        StampPlace::Pointer => PointerCell::read(&whole.body).map(|cell| cell.stamp),
    };
    match text.map(|text| text.parse()) {
        None => Ok(CellSeen::Unstamped(validator)),
        Some(Ok(stamp)) => Ok(CellSeen::Stamped(validator, stamp)),
        Some(Err(_)) => strange("the cell has a stamp that cannot be read"),
    }
}

/// The name of the object with an operation's content. It depends on the content too: an operation that was refused is not
/// bound to its id, and the same id may come again with other bytes at the same position.
pub(super) fn object_of(order: &Order) -> String {
    let mut hash = Sha256::new();
    let kind = order.content_type.as_ref().map_or("", |kind| kind.as_str());
    for part in [order.operation_id.as_str().as_bytes(), order.payload.digest.as_bytes(), kind.as_bytes()] {
        hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
        hash.update(part);
    }
    let digest = hex(&hash.finalize());
    let short = digest.get(..32).unwrap_or(&digest);
    format!("{}-{}-{short}", order.incarnation, order.position)
}

/// The whole of a body that must be in memory.
async fn in_memory(payload: &Payload, most: u64) -> Result<Bytes, String> {
    if payload.length > most {
        return Err(format!("the body is larger than {most} bytes, so no stamp is put into it"));
    }
    match &payload.bulk {
        Bulk::Memory(bytes) => Ok(bytes.clone()),
        Bulk::Disk(file) => {
            let (file, length) = (file.clone(), usize::try_from(payload.length).unwrap_or(usize::MAX));
            let read = tokio::task::spawn_blocking(move || file.read_at(0, length)).await;
            let bytes = read.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
            if bytes.len() == length { Ok(bytes) } else { Err("the body on disk is cut off".to_owned()) }
        }
    }
}
