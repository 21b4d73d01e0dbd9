//! Lists that stand in one column: the queue of a resource, the further resources of a lease, headers, and how a doubt was
//! ended. They are read and written as a whole, with the row that they belong to.

use std::num::NonZeroU64;

use crate::domain::counter::{Epoch, Token, parse_decimal};
use crate::domain::position::Position;
use crate::domain::resource::ResourceName;
use crate::domain::time::Timestamp;
use crate::domain::upstream::Field;
use crate::protocol::queue::{Queue, Ticket};
use crate::protocol::rows::{LeaseMember, Resolution};

/// Bytes of one ticket: its number, its key, its end, and its claim.
const TICKET_BYTES: usize = 40;

/// Why a column cannot be read.
const UNREADABLE: &str = "a list that this version cannot read";

/// A queue; none where nobody waits.
pub(super) fn queue_bytes(queue: &Queue) -> Option<Vec<u8>> {
    if queue.tickets().is_empty() {
        return None;
    }
    let mut bytes = Vec::with_capacity(queue.tickets().len().saturating_mul(TICKET_BYTES));
    for ticket in queue.tickets() {
        bytes.extend_from_slice(&ticket.number.to_be_bytes());
        bytes.extend_from_slice(&ticket.key);
        bytes.extend_from_slice(&ticket.until.ms().to_be_bytes());
        bytes.extend_from_slice(&ticket.claim.map_or(0, NonZeroU64::get).to_be_bytes());
    }
    Some(bytes)
}

/// A queue as a column holds it.
pub(super) fn queue(bytes: Option<&[u8]>) -> Result<Queue, &'static str> {
    let (tickets, rest) = bytes.unwrap_or_default().as_chunks::<TICKET_BYTES>();
    if !rest.is_empty() {
        return Err(UNREADABLE);
    }
    tickets.iter().map(ticket).collect::<Option<Vec<Ticket>>>().map(Queue::of).ok_or(UNREADABLE)
}

fn ticket(bytes: &[u8; TICKET_BYTES]) -> Option<Ticket> {
    let (number, rest) = bytes.split_first_chunk::<8>()?;
    let (key, rest) = rest.split_first_chunk::<16>()?;
    let (until, rest) = rest.split_first_chunk::<8>()?;
    let claim = rest.first_chunk::<8>()?;
    Some(Ticket {
        number: u64::from_be_bytes(*number),
        key: *key,
        until: Timestamp::from_ms(i64::from_be_bytes(*until)),
        claim: NonZeroU64::new(u64::from_be_bytes(*claim)),
    })
}

/// Further resources, one in each line: position, space, name. No name has a line break.
pub(super) fn members_text(members: &[LeaseMember]) -> Option<String> {
    if members.is_empty() {
        return None;
    }
    let lines = members.iter().map(|member| format!("{} {}", member.position, member.resource));
    Some(lines.collect::<Vec<_>>().join("\n"))
}

/// Further resources as a column holds them.
pub(super) fn members(text: Option<&str>) -> Result<Vec<LeaseMember>, &'static str> {
    text.map_or_else(
        || Ok(Vec::new()),
        |text| text.split('\n').map(member).collect::<Option<_>>().ok_or(UNREADABLE),
    )
}

fn member(line: &str) -> Option<LeaseMember> {
    let (position, name) = line.split_once(' ')?;
    let (epoch, token) = position.split_once('.')?;
    let position = Position::new(Epoch::parse(epoch).ok()?, Token::parse(token).ok()?);
    Some(LeaseMember { resource: ResourceName::parse(name).ok()?, position })
}

/// Headers. Each text has its length before it, so whatever stands in a value it never becomes another header.
pub(super) fn fields_bytes(fields: &[Field]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for text in fields.iter().flat_map(|(name, value)| [name, value]) {
        // A name or value is part of a message head, which is far smaller than this holds.
        let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
        bytes.extend_from_slice(&length.to_be_bytes());
        bytes.extend_from_slice(text.as_bytes());
    }
    bytes
}

/// Headers as a column holds them.
pub(super) fn fields(bytes: &[u8]) -> Result<Vec<Field>, &'static str> {
    let (mut rest, mut fields) = (bytes, Vec::new());
    while !rest.is_empty() {
        let name = counted(&mut rest).ok_or(UNREADABLE)?;
        let value = counted(&mut rest).ok_or(UNREADABLE)?;
        fields.push((name, value));
    }
    Ok(fields)
}

fn counted(rest: &mut &[u8]) -> Option<String> {
    let (length, behind) = rest.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
    let (text, behind) = behind.split_at_checked(length)?;
    *rest = behind;
    String::from_utf8(text.to_vec()).ok()
}

/// The words that say who ended a doubt.
const SAID: &str = "said";
const ASSUMED: &str = "assumed";

/// How a doubt was ended: the word, the length of the evidence, a line break, the evidence, and the reason.
pub(super) fn resolution_text(resolution: &Resolution) -> String {
    let Resolution { assumed, evidence, reason } = resolution;
    let word = if *assumed { ASSUMED } else { SAID };
    format!("{word} {}\n{evidence}{reason}", evidence.len())
}

/// How a doubt was ended, as a column holds it.
pub(super) fn resolution(text: &str) -> Result<Resolution, &'static str> {
    read_resolution(text).ok_or(UNREADABLE)
}

fn read_resolution(text: &str) -> Option<Resolution> {
    let (head, texts) = text.split_once('\n')?;
    let (word, length) = head.split_once(' ')?;
    let assumed = match word {
        SAID => false,
        ASSUMED => true,
        _ => return None,
    };
    let length = usize::try_from(parse_decimal(length).ok()?).ok()?;
    let (evidence, reason) = texts.split_at_checked(length)?;
    Some(Resolution { assumed, evidence: evidence.to_owned(), reason: reason.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::time::Millis;
    use crate::protocol::rows::RequestKey;

    #[test]
    fn a_queue_comes_back_as_it_was() {
        let (mut one, now) = (Queue::default(), Timestamp::from_ms(5));
        assert_eq!(queue_bytes(&one), None);
        one.join(&RequestKey([7; 32]), NonZeroU64::MIN, true, now.plus(Millis::new(10)), now);
        one.join(&RequestKey([9; 32]), NonZeroU64::MAX, true, now.plus(Millis::new(20)), now);
        one.leave(&RequestKey([7; 32]), NonZeroU64::MIN, true, now);
        let bytes = queue_bytes(&one).unwrap();
        assert_eq!(bytes.len(), 80);
        assert_eq!(queue(Some(&bytes)), Ok(one));
        assert_eq!(queue(Some(&bytes[1..])), Err(UNREADABLE));
    }

    #[test]
    fn members_come_back_as_they_were() {
        let text = "0.9223372036854775807 a/b c\n3.1 s/x";
        let found = members(Some(text)).unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!(members_text(&found).as_deref(), Some(text));
        assert_eq!(members(Some("0.1")), Err(UNREADABLE));
        assert_eq!(members(None), Ok(Vec::new()));
    }

    #[test]
    fn headers_come_back_as_they_were() {
        let sent = [("x-a", "1"), ("x-a", ""), ("content-language", "de, en\tfr\r\nx-b: 2")];
        let sent: Vec<Field> = sent.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let bytes = fields_bytes(&sent);
        assert_eq!(fields(&bytes), Ok(sent));
        assert_eq!(fields(&bytes[1..]), Err(UNREADABLE));
        assert_eq!(fields(&[]), Ok(Vec::new()));
    }

    #[test]
    fn the_end_of_a_doubt_comes_back_as_it_was() {
        for (assumed, evidence, reason) in
            [(false, "seen in\nthe log, 5 bytes", "ticket 7"), (true, "", ""), (false, "", "é\n")]
        {
            let said = Resolution { assumed, evidence: evidence.to_owned(), reason: reason.to_owned() };
            assert_eq!(resolution(&resolution_text(&said)), Ok(said));
        }
        for text in ["", "said", "said 1\n", "told 0\n", "said 1\né", "said +0\n", "said 00\n"] {
            assert_eq!(resolution(text), Err(UNREADABLE), "{text}");
        }
    }
}
