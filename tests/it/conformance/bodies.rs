//! Bodies of announced operations, in one piece and in several, from memory and from disk.

use bytes::Bytes;
use fencegate::domain::upstream::Payload;
use fencegate::protocol::command::Finding;
use fencegate::protocol::outcome::{Outcome, Settled};

use crate::support::engines::{Kind, Running, on_engines};
use crate::support::forwards::{Spool, announced, answered, bytes_of, draft, forward_body, settle, settled};

on_engines!([memory Memory, sqlite Sqlite, postgres Postgres], [
    a_body_comes_back_byte_for_byte,
    a_body_of_several_pieces_is_replaced_whole,
]);

const MIB: usize = 1_048_576;

/// Bytes in which no two pieces are alike.
fn body(length: usize) -> Bytes {
    let mut state = 0x9E37_79B9_u32;
    let byte = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    };
    std::iter::repeat_with(byte).take(length).collect::<Vec<u8>>().into()
}

/// After a crash the body is all that is left of the request. A large one is never in memory as a whole on its way into
/// the database.
async fn a_body_comes_back_byte_for_byte(kind: Kind) {
    let mut running = Running::start(kind).await;
    let mut before = None;
    for (number, length) in (1..).zip([0, 1, MIB, MIB + 1, 3 * MIB, 3 * MIB + 7]) {
        for spooled in [false, true] {
            let bytes = body(length);
            let spool = Spool::of(bytes.clone());
            let payload = if spooled { spool.payload() } else { Payload::of(bytes.clone()) };
            let name = format!("aware/{number}-{spooled}");
            let command = forward_body(&running.ledger, &draft(&name, "7", "publish", 1), payload, 1);
            let intent = announced(&running.ledger, command).await.intent;
            if kind != Kind::Memory {
                assert!(spool.most() <= MIB);
                running = running.restart().await;
            }
            let key = intent.key();
            let found = running.ledger.read(move |reader| reader.payload(key)).await.unwrap().unwrap();
            assert_eq!((found.length, found.digest), (intent.request.length, intent.request.digest));
            assert!(bytes_of(&found) == bytes, "{length} bytes are not what they were");
            // The one before it has no pieces left.
            if let Some(last) = before.replace(intent) {
                let decided = settled(&running.ledger, settle(&last, answered(200))).await;
                assert!(matches!(decided, Settled::Done(_)));
                let key = last.key();
                assert_eq!(running.ledger.read(move |reader| reader.payload(key)).await, Ok(None));
            }
        }
    }
    running.stop().await;
}

/// An id that was withdrawn comes with a new body: nothing of the old one may stay, however the two are batched.
async fn a_body_of_several_pieces_is_replaced_whole(kind: Kind) {
    let running = Running::start(kind).await;
    let ledger = &running.ledger;
    let publish = draft("aware/a", "7", "publish", 1);
    let first = body(3 * MIB);
    let mut intent = announced(ledger, forward_body(ledger, &publish, Payload::of(first), 1)).await.intent;
    for (claim, length) in (2..).zip([2 * MIB + 1, 5, 4 * MIB, MIB, 2 * MIB]) {
        let bytes = body(length);
        let busy = draft("aware/b", "7", &format!("op-{claim}"), claim);
        let commands = [
            forward_body(ledger, &busy, Payload::of(Bytes::new()), claim),
            settle(&intent, Finding::NotSent),
            forward_body(ledger, &publish, Payload::of(bytes.clone()), claim),
        ];
        let mut outcomes =
            futures_util::future::join_all(commands.map(|command| ledger.submit(command))).await;
        let Ok(Outcome::Announced(attempt)) = outcomes.pop().unwrap() else { panic!("{claim}") };
        let key = attempt.intent.key();
        let found = ledger.read(move |reader| reader.payload(key)).await.unwrap().unwrap();
        assert!(bytes_of(&found) == bytes, "{length} bytes are not what they were");
        let Ok(Outcome::Announced(other)) = outcomes.remove(0) else { panic!("{claim}") };
        settled(ledger, settle(&other.intent, answered(200))).await;
        intent = attempt.intent;
    }
    running.stop().await;
}
