//! Reads through the gateway. The bytes are given back as they come; what the gateway itself wrote into a cell is read
//! and not shown.

use hyper::Method as Verb;
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, ETAG, HeaderMap, RANGE};

use super::Upstream;
use super::address::{is_of_content, path_of, path_of_content, with_query};
use super::headers;
use super::incoming::ReadBody;
use super::order::{ReadAnswer, ReadFailed, ReadOrder};
use super::outgoing::Outgoing;
use super::pool::Fault;
use super::wire::{Draft, Whole};
use crate::domain::cell::{PointerCell, stamp_text};
use crate::domain::upstream::Stamp;
use crate::limits;

impl From<Fault> for ReadFailed {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Unsent(why) => Self::Unreachable(why),
            Fault::TimedOut(why) => Self::TimedOut(why),
            Fault::Broken(why) => Self::Broken(why),
        }
    }
}

/// The length that a message announces.
pub(super) fn length_of(headers: &HeaderMap) -> Option<u64> {
    headers::one(headers, CONTENT_LENGTH.as_str()).and_then(|text| text.parse().ok())
}

impl Upstream {
    fn reading(&self, verb: Verb, path: String, order: &ReadOrder) -> Result<Draft, ReadFailed> {
        let path = with_query(path, order.query.as_deref()).map_err(ReadFailed::Broken)?;
        let mut draft = Draft::new(verb, path, Outgoing::none());
        headers::forward(&order.headers, &self.store, &mut draft.headers).map_err(ReadFailed::Broken)?;
        Ok(draft)
    }

    const fn verb_of(order: &ReadOrder) -> Verb {
        if order.head { Verb::HEAD } else { Verb::GET }
    }

    /// One request, its answer as it comes; the stamp is in a header, or there is none.
    pub(super) async fn read_plain(
        &self,
        order: ReadOrder,
        stamp_header: Option<&str>,
    ) -> Result<ReadAnswer, ReadFailed> {
        let path = path_of(&self.pool.line.prefix, &order.address);
        let response = self.exchange(self.reading(Self::verb_of(&order), path, &order)?).await?;
        let (head, body) = response.into_parts();
        let stamp = stamp_header.and_then(|name| headers::one(&head.headers, name));
        Ok(ReadAnswer {
            status: head.status.as_u16(),
            headers: headers::passed(&head.headers, &self.store),
            etag: headers::one(&head.headers, ETAG.as_str()).map(str::to_owned),
            stamp: stamp.and_then(|text| text.parse().ok()),
            length: length_of(&head.headers),
            body,
        })
    }

    /// The stamp is inside the document, so all of it is read, also for a HEAD.
    pub(super) async fn read_json(&self, order: ReadOrder, pointer: &str) -> Result<ReadAnswer, ReadFailed> {
        let path = path_of(&self.pool.line.prefix, &order.address);
        let mut draft = self.reading(Verb::GET, path, &order)?;
        // In a part the stamp would not be found, and a tombstone would look like content.
        draft.headers.remove(RANGE);
        let whole = self.whole(draft, limits::STAMPED_JSON_BYTES).await?;
        let text = if whole.is_success() { stamp_text(&whole.body, pointer).ok().flatten() } else { None };
        Ok(self.of_whole(whole, text.and_then(|text| text.parse().ok()), order.head))
    }

    fn of_whole(&self, whole: Whole, stamp: Option<Stamp>, head: bool) -> ReadAnswer {
        let length = u64::try_from(whole.body.len()).ok();
        ReadAnswer {
            status: whole.status,
            headers: headers::passed(&whole.headers, &self.store),
            etag: whole.etag().map(str::to_owned),
            stamp,
            length,
            body: ReadBody::whole(if head { bytes::Bytes::new() } else { whole.body }),
        }
    }

    /// The cell, and then the object that it names. The caller's headers and query go with the second request only.
    pub(super) async fn read_pointed(&self, order: ReadOrder) -> Result<ReadAnswer, ReadFailed> {
        let resource = &order.address.resource;
        if is_of_content(resource) {
            return Err(ReadFailed::Broken("content objects are read through their cells".to_owned()));
        }
        let prefix = &self.pool.line.prefix;
        let draft = Draft::new(Verb::GET, path_of(prefix, &order.address), Outgoing::none());
        let whole = self.whole(draft, limits::POINTER_CELL_BYTES).await?;
        if !whole.is_success() {
            return Ok(self.of_whole(whole, None, order.head));
        }
        let cell = PointerCell::read(&whole.body);
        let cell = cell.ok_or_else(|| ReadFailed::Broken("the cell is none of the gateway's".to_owned()))?;
        let stamp: Option<Stamp> = cell.stamp.parse().ok();
        let Some(object) = cell.content else {
            return Ok(self.of_whole(Whole { body: bytes::Bytes::new(), ..whole }, stamp, order.head));
        };
        let path = path_of_content(prefix, resource, &object);
        let response = self.exchange(self.reading(Self::verb_of(&order), path, &order)?).await?;
        let (mut content, body) = response.into_parts();
        if content.status.as_u16() == 404 {
            return Err(ReadFailed::Broken("the cell names a content object that is not there".to_owned()));
        }
        if let Some(kind) = &cell.content_type {
            let set = headers::set(&mut content.headers, CONTENT_TYPE.as_str(), kind);
            set.map_err(ReadFailed::Broken)?;
        }
        Ok(ReadAnswer {
            status: content.status.as_u16(),
            headers: headers::passed(&content.headers, &self.store),
            etag: whole.etag().map(str::to_owned),
            stamp,
            length: length_of(&content.headers),
            body,
        })
    }
}
