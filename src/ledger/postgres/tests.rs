//! What needs no server: texts and forms of what is sent, and what is made of an answer.

use crate::domain::counter::{Epoch, Token};
use crate::domain::policy::Definition;
use crate::domain::position::Position;
use crate::domain::resource::ResourceName;
use crate::protocol::rows::{EverywhereRow, NamespaceRow, ResourceRow};

use super::super::cells::WriteCells;
use super::super::changeset::{ChangeSet, RowChange};
use super::load::Places;
use super::tuples::{Shape, Tuples};
use super::{Address, OpenError, apply, reader};

const SCHEMA: &str = concat!(
    include_str!("../../../migrations/postgres/0001_ledger.sql"),
    include_str!("../../../migrations/postgres/0002_leases.sql"),
    include_str!("../../../migrations/postgres/0003_upstreams.sql"),
    include_str!("../../../migrations/postgres/0004_time.sql"),
    include_str!("../../../migrations/postgres/0005_audit.sql")
);

/// Fields of a type of the schema.
fn fields(name: &str) -> Vec<(String, String)> {
    let (_, rest) = SCHEMA.split_once(&format!("CREATE TYPE {name} AS (")).unwrap();
    let (list, _) = rest.split_once(");").unwrap();
    let field = |field: &str| {
        let mut words = field.split_whitespace();
        (words.next().unwrap().to_owned(), words.next().unwrap().to_owned())
    };
    list.split(',').map(field).collect()
}

/// A row that lacks a value, or has one too many, is refused by the server, for every batch.
#[test]
fn every_shape_is_as_wide_as_its_type() {
    for shape in Shape::ALL {
        let found = fields(shape.name());
        assert_eq!(i32::try_from(found.len()), Ok(shape.width()), "{}: {found:?}", shape.name());
    }
    // Those of the version before this one stand beside those that took their place.
    let names = SCHEMA.split("CREATE TYPE ").skip(1).filter_map(|rest| rest.split_once("_v"));
    let kinds: std::collections::BTreeSet<&str> = names.map(|(kind, _)| kind).collect();
    assert_eq!(kinds.len(), Shape::ALL.len(), "the schema has a type that nobody sends");
}

/// What is inserted whole must list the columns of its table in the order of the type.
#[test]
fn a_row_goes_into_the_columns_that_its_type_lists() {
    for part in apply::parts() {
        let Some((columns, _)) = part.1.split_once(") SELECT v.* FROM") else { continue };
        let (_, columns) = columns.split_once('(').unwrap();
        let columns: Vec<String> = columns.split(',').map(|column| column.trim().to_owned()).collect();
        let found: Vec<String> = fields(part.0.name()).into_iter().map(|field| field.0).collect();
        assert_eq!(columns, found, "{}", part.0.name());
    }
}

/// Whatever else a write does, no statement may let a register go back.
#[test]
fn the_fence_stands_in_the_predicate() {
    let parts = apply::parts();
    let (_, update) = parts.iter().find(|(shape, _)| *shape == Shape::ChangedResource).unwrap();
    for fence in [
        "(r.floor_epoch, r.floor_token) <= (v.floor_epoch, v.floor_token)",
        "(r.issued_epoch, r.issued_token) <= (v.issued_epoch, v.issued_token)",
        "r.commit_no <= v.commit_no",
        "r.incarnation <= v.incarnation",
    ] {
        assert!(update.contains(fence), "{fence}");
    }
    for (field, _) in fields(Shape::ChangedResource.name()) {
        assert!(update.contains(&format!("v.{field}")), "{field} is sent and not used");
    }
}

fn heard_of(name: &str) -> ChangeSet {
    let resource = ResourceName::parse(name).unwrap();
    let namespace =
        NamespaceRow::first_use(resource.namespace(), Definition::default(), &EverywhereRow::default());
    let mut after = ResourceRow::unheard(resource.clone(), &namespace);
    after.floor = Position::new(Epoch::ZERO, Token::ONE);
    let mut changes = ChangeSet::default();
    changes.namespaces.insert(namespace.namespace.clone(), RowChange { before: None, after: namespace });
    changes.resources.insert(resource, RowChange { before: None, after });
    changes
}

/// One statement for a whole batch, and none for what does not change.
#[test]
fn a_batch_is_one_statement() {
    assert!(apply::prepare(&ChangeSet::default(), &Places::default(), Vec::new()).is_empty());
    let work = apply::prepare(&heard_of("jobs/a"), &Places::default(), Vec::new());
    let [one] = work.as_slice() else { panic!("{} statements", work.len()) };
    let text = one.statement();
    assert!(text.starts_with("WITH p1 AS (INSERT INTO namespaces"), "{text}");
    assert!(text.contains("unnest($1)") && text.contains("unnest($2)") && !text.contains("$3"), "{text}");
    assert!(
        text.contains(" SELECT (SELECT count(*) FROM p1), (SELECT count(*) FROM p2), pg_current_xact_id()"),
        "{text}"
    );
}

/// Content is cleared away before new content comes: in one statement no part sees what another one did.
#[test]
fn removals_are_a_statement_of_their_own() {
    let mut changes = heard_of("jobs/a");
    changes.cleared.push(ResourceName::parse("jobs/a").unwrap());
    let work = apply::prepare(&changes, &Places::default(), Vec::new());
    let texts: Vec<String> = work.iter().map(apply::Work::statement).collect();
    assert_eq!(texts.len(), 2);
    assert!(texts[0].starts_with("WITH p1 AS (DELETE FROM targets"), "{}", texts[0]);
}

/// A read that walks through a table is fast in every test and slow in every use: each begins with a key, or with a
/// place in the list of names.
#[test]
fn every_read_begins_with_a_key() {
    for text in reader::texts() {
        let begins = [
            "bucket = $1 AND ",
            // What a namespace has used is counted bucket by bucket, each as a whole.
            "bucket = $1 GROUP BY 1",
            "bucket = 0",
            "bucket = k.bucket AND ",
            "r.resource >= $1 AND r.resource < $2",
            // Through the index of leases that are held, that of those that wait, and that of what is due.
            "l.state = 'held' AND l.expires_ms <= $1 ORDER BY l.expires_ms LIMIT $2",
            "l.state = 'pending_barrier' AND l.expires_ms > $1 ",
            "a.due_ms <= $1 AND a.due_ms >= $2 AND ",
            // Through the index of operations by the hour, and that of control calls by their time.
            "(o.created_ms / 3600000, o.bucket) >= ($1, $2) AND ",
            "o.created_ms / 3600000 = $1 AND o.bucket = $2 AND ",
            "c.at_ms < $1 ORDER BY c.at_ms LIMIT $2",
            "a.at_ms < $1 LIMIT 1",
            // Through the index of lines by their time, and those of what happened by transaction.
            "u.at_ms >= $1 AND u.at_ms < $4 AND ",
            "u.transaction_id BETWEEN $1 AND $3 AND ",
            "o.transaction_id BETWEEN $1 AND $2 ORDER BY o.transaction_id ",
            "u.transaction_id <= v.last ORDER BY u.transaction_id DESC LIMIT 1",
            "a.state = 'uncertain' AND a.resource = k.name",
        ];
        assert!(begins.iter().any(|begin| text.contains(begin)) || !text.contains(" FROM "), "{text}");
        let bounded = text.contains("LIMIT")
            || text.contains("FETCH FIRST")
            || text.contains(" = $")
            || !text.contains(" FROM ");
        assert!(bounded || text.contains("bucket = 0"), "{text}");
    }
}

/// A row with another number of values than its type is noticed here, where it can be told what was wrong.
#[test]
fn a_row_of_the_wrong_width_is_refused() {
    let mut tuples = Tuples::new(Shape::KeyNamed);
    tuples.row(|cells| cells.text("jobs/a"));
    assert_eq!(tuples.refusal(), Some("key_named_v1 was given 1 values"));
    let mut tuples = Tuples::new(Shape::KeyHashed);
    tuples.row(|cells| {
        cells.ordinal(0);
        cells.whole(u64::MAX);
        cells.blob(b"");
    });
    assert!(tuples.refusal().is_some());
}

/// An address holds a password; it must not get into a log or a message.
#[test]
fn an_address_never_shows_its_password() {
    let urls = ["postgres://alice:s3cret@db.example:5433/ledger", "postgres://alice:s3cret@other/ledger"];
    let address = Address::of(&urls).unwrap();
    assert_eq!(address.to_string(), "db.example:5433/ledger, other:5432/ledger");
    assert!(!format!("{address:?}").contains("s3cret"));
    let broken = ["postgres://alice:s3cret@db.example:what/ledger"];
    let refused = Address::of(&broken).unwrap_err();
    assert_eq!(refused, OpenError::Address { number: 1 });
    assert!(!format!("{refused} {refused:?}").contains("s3cret"));
    assert!(Address::of(&[""; 0]).is_err());
}
