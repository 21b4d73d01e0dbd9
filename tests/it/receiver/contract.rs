//! Every sentence of the contract that a caller can see.

use reqwest::Method;

use super::on_receivers;
use super::write::{PATH, RESOURCE, Write, stale};
use crate::support::stores::receiver::Receiver;

on_receivers!([
    a_lower_position_is_refused_and_told_what_is_held,
    positions_are_compared_as_numbers_and_the_epoch_first,
    a_known_operation_gets_its_answer_whatever_the_position,
    a_known_operation_with_another_content_is_refused_and_changes_nothing,
    a_refused_operation_is_not_bound_to_its_id,
    one_owner_writes_many_times_at_one_position,
    an_advance_raises_without_an_effect,
    a_refusal_of_its_own_raises_and_is_saved,
    the_resource_is_named_by_its_header_and_not_by_the_path,
    a_new_life_inherits_no_answers_and_no_lower_position,
    the_sequence_is_not_compared,
    reads_change_nothing,
]);

async fn a_lower_position_is_refused_and_told_what_is_held(receiver: Receiver) {
    // Broken without: the older owner's write replaces the newer one's. Must hold: nothing of it is left.
    let client = receiver.client();
    assert_eq!(Write::put("0.2", "newer", "two").send(&client).await.status, 201);
    for write in
        [Write::put("0.1", "older", "one"), Write::post("0.1", "older", "one"), Write::delete("0.1", "d")]
    {
        stale(&write.send(&client).await, "0.2");
    }
    assert_eq!(client.get(PATH).await.text(), "two");
    let log = receiver.log(RESOURCE);
    assert_eq!((log.len(), log[0].position, log[0].operation.as_str()), (1, (0, 2), "newer"));
}

async fn positions_are_compared_as_numbers_and_the_epoch_first(receiver: Receiver) {
    let client = receiver.client();
    let rising = ["0.9", "0.10", "0.9223372036854775806", "0.9223372036854775807", "1.1", "10.1"];
    let mut held: Vec<&str> = Vec::new();
    for position in rising {
        let answer = Write::put(position, position, position).send(&client).await;
        assert!(matches!(answer.status, 200 | 201), "{position}: {}", answer.text());
        for lower in &held {
            stale(&Write::put(lower, "late", "late").send(&client).await, position);
        }
        held.push(position);
    }
    stale(&Write::put("9.9223372036854775807", "late", "late").send(&client).await, "10.1");
}

async fn a_known_operation_gets_its_answer_whatever_the_position(receiver: Receiver) {
    // The answer was lost; the owner, or its replacement, asks again. It must learn that the work was done, once.
    let client = receiver.client();
    let first = Write::post("0.2", "a", "once ").send(&client).await;
    assert_eq!(first.status, 201);
    for position in ["0.2", "0.1", "0.7"] {
        let again = Write::post(position, "a", "once ").send(&client).await;
        assert_eq!((again.status, &again.bytes), (first.status, &first.bytes), "{position}");
        assert_eq!(again.header("content-type"), first.header("content-type"));
    }
    // The replay at 0.7 raised nothing, and one at 0.2 is answered after somebody else came.
    assert_eq!(Write::post("0.3", "b", "twice").send(&client).await.status, 200);
    let late = Write::post("0.2", "a", "once ").send(&client).await;
    assert_eq!((late.status, &late.bytes), (first.status, &first.bytes));
    assert_eq!(client.get(PATH).await.text(), "once twice");
    assert_eq!(receiver.log(RESOURCE).len(), 2);
}

async fn a_known_operation_with_another_content_is_refused_and_changes_nothing(receiver: Receiver) {
    let client = receiver.client();
    let first = Write::post("0.2", "a", "one");
    let answer = first.send(&client).await;
    assert_eq!(answer.status, 201);
    let others = [
        Write::post("0.2", "a", "two"),
        Write::post("0.9", "a", "two"),
        Write::post("0.1", "a", "two"),
        Write::put("0.2", "a", "one"),
        Write::post("0.2", "a", "one").header("content-type", "text/html"),
        Write::post("0.2", "a", "one").to(RESOURCE, "/another"),
    ];
    for other in others {
        let refused = other.send(&client).await;
        assert_eq!(refused.status, 422, "{other:?}: {}", refused.text());
    }
    assert_eq!(client.get(PATH).await.text(), "one");
    assert_eq!(client.get("/another").await.status, 404);
    assert_eq!(first.send(&client).await.bytes, answer.bytes);
    // The one at 0.9 raised nothing.
    assert_eq!(Write::post("0.3", "b", " two").send(&client).await.status, 200);
}

async fn a_refused_operation_is_not_bound_to_its_id(receiver: Receiver) {
    let client = receiver.client();
    assert_eq!(Write::put("0.2", "a", "one").send(&client).await.status, 201);
    stale(&Write::put("0.1", "b", "two").send(&client).await, "0.2");
    // The same work under a newer position, and even other work under the same id.
    assert_eq!(Write::put("0.3", "b", "two").send(&client).await.status, 200);
    stale(&Write::put("0.1", "c", "three").send(&client).await, "0.3");
    assert_eq!(Write::put("0.3", "c", "four").send(&client).await.status, 200);
    assert_eq!(client.get(PATH).await.text(), "four");
}

async fn one_owner_writes_many_times_at_one_position(receiver: Receiver) {
    let client = receiver.client();
    for number in 0..5 {
        let answer = Write::post("0.4", &format!("write-{number}"), &number.to_string()).send(&client).await;
        assert!(matches!(answer.status, 200 | 201), "{}", answer.text());
    }
    assert_eq!(client.get(PATH).await.text(), "01234");
}

async fn an_advance_raises_without_an_effect(receiver: Receiver) {
    // A new owner is told "you own it" after this: from then on nothing older gets in, although it has written nothing.
    let client = receiver.client();
    assert_eq!(Write::put("0.2", "a", "one").send(&client).await.status, 201);
    for _ in 0..2 {
        assert_eq!(Write::advance("0.5").send(&client).await.status, 200);
    }
    stale(&Write::advance("0.4").send(&client).await, "0.5");
    stale(&Write::put("0.4", "b", "two").send(&client).await, "0.5");
    assert_eq!(client.get(PATH).await.text(), "one");
    assert_eq!(receiver.log(RESOURCE).len(), 1);
    assert_eq!(Write::put("0.5", "b", "two").send(&client).await.status, 200);
    // Before the first write there is something to fence already.
    let new = |write: Write| write.to("orders/new", "/new");
    assert_eq!(new(Write::advance("0.3")).send(&client).await.status, 200);
    assert_eq!(client.get("/new").await.status, 404);
    stale(&new(Write::put("0.2", "a", "one")).send(&client).await, "0.3");
    assert_eq!(Write::advance("0.6").method(Method::PUT).send(&client).await.status, 400);
    assert_eq!(Write::advance("0.6").header("fencing-advance", "yes").send(&client).await.status, 400);
    let mut with_body = Write::advance("0.6");
    with_body.body = "x".into();
    assert_eq!(with_body.send(&client).await.status, 400);
    assert_eq!(Write::put("0.5", "c", "three").send(&client).await.status, 200);
}

async fn a_refusal_of_its_own_raises_and_is_saved(receiver: Receiver) {
    // Broken without: the caller is told "no effect", and a late copy of the request has one.
    let client = receiver.client();
    let removal = Write::delete("0.3", "remove");
    let refused = removal.send(&client).await;
    assert_eq!(refused.status, 404);
    stale(&Write::put("0.2", "a", "one").send(&client).await, "0.3");
    assert_eq!(Write::put("0.3", "b", "two").send(&client).await.status, 201);
    let again = removal.send(&client).await;
    assert_eq!((again.status, again.bytes), (404, refused.bytes));
    assert_eq!(client.get(PATH).await.text(), "two");
}

async fn the_resource_is_named_by_its_header_and_not_by_the_path(receiver: Receiver) {
    let client = receiver.client();
    let write = |position: &str, operation: &str, resource: &str, path: &str| {
        Write::put(position, operation, operation).to(resource, path)
    };
    assert_eq!(write("0.2", "a", "orders/one", "/one/x").send(&client).await.status, 201);
    stale(&write("0.1", "b", "orders/one", "/one/y").send(&client).await, "0.2");
    // Another resource has a position of its own, and operations of its own.
    assert_eq!(write("0.1", "a", "orders/two", "/two").send(&client).await.status, 201);
    assert_eq!(write("0.2", "c", "orders/one", "/one/y").send(&client).await.status, 201);
    assert_eq!((receiver.log("orders/one").len(), receiver.log("orders/two").len()), (2, 1));
}

async fn a_new_life_inherits_no_answers_and_no_lower_position(receiver: Receiver) {
    let client = receiver.client();
    let publish = |position: &str, incarnation: &str| {
        Write::post(position, "publish", "text").header("fencing-incarnation", incarnation)
    };
    let first = publish("0.1", "1").send(&client).await;
    assert_eq!(first.status, 201);
    assert_eq!(Write::delete("0.2", "remove").send(&client).await.status, 200);
    assert_eq!(client.get(PATH).await.status, 404);
    // What is deleted stays fenced.
    stale(&Write::put("0.1", "late", "late").send(&client).await, "0.2");
    let second = publish("0.3", "2").send(&client).await;
    assert_eq!(second.status, 201);
    assert_ne!(second.bytes, first.bytes, "it is an effect of its own");
    assert_eq!(publish("0.1", "1").send(&client).await.bytes, first.bytes);
    assert_eq!(publish("0.3", "2").send(&client).await.bytes, second.bytes);
    assert_eq!(client.get(PATH).await.text(), "text");
}

async fn the_sequence_is_not_compared(receiver: Receiver) {
    let client = receiver.client();
    for (operation, sequence) in [("a", "2"), ("b", "1"), ("c", "9223372036854775807")] {
        let answer =
            Write::post("0.1", operation, operation).header("fencing-sequence", sequence).send(&client).await;
        assert!(matches!(answer.status, 200 | 201), "{}", answer.text());
    }
    assert_eq!(client.get(PATH).await.text(), "abc");
    // A copy may name another one: it is no part of what the operation was.
    let copy = Write::post("0.1", "a", "a").header("fencing-sequence", "7").send(&client).await;
    assert_eq!(copy.status, 201);
}

async fn reads_change_nothing(receiver: Receiver) {
    let client = receiver.client();
    assert_eq!(client.get(PATH).await.status, 404);
    assert_eq!(Write::put("0.1", "a", "one").send(&client).await.status, 201);
    let read = client.get(PATH).await;
    assert_eq!(
        (read.status, read.text().as_str(), read.header("content-type")),
        (200, "one", Some("text/plain"))
    );
    let head = Write::put("0.9", "b", "").method(Method::HEAD).send(&client).await;
    assert_eq!((head.status, head.header("content-length"), head.bytes.len()), (200, Some("3"), 0));
    assert_eq!(Write::put("0.1", "c", "two").send(&client).await.status, 200, "a read raised the position");
}
