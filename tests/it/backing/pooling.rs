//! Connections: used again, bounded, never for `serial`, and given up when they are no good.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fencegate::backing::{Deadline, Order, Upstream};
use fencegate::domain::time::Millis;
use futures_util::future::join_all;

use super::{answered, bytes, is_unsent, order, pair, pair_with, reading, store};
use crate::support::upstream::{Fault, Gate, Kind};
use fencegate::domain::upstream::Class;

#[tokio::test]
async fn a_connection_is_used_again() {
    let (scripted, upstream) = pair(Kind::FenceAware);
    for number in 0..5 {
        answered(upstream.send(&order("n/r", 1, &format!("op-{number}"), "x")).await);
    }
    bytes(upstream.read(reading("n/r")).await.unwrap()).await;
    answered(upstream.send(&order("n/r", 1, "after-a-read", "x")).await);
    assert!(scripted.log().iter().all(|arrival| arrival.connection == 1), "{:?}", scripted.log());
}

#[tokio::test]
async fn a_serial_store_gets_a_fresh_connection_each_time() {
    let (scripted, upstream) = pair(Kind::Serial);
    for number in 0..3 {
        answered(upstream.send(&order("n/r", 1, &format!("op-{number}"), "x")).await);
    }
    let connections: Vec<usize> = scripted.log().iter().map(|arrival| arrival.connection).collect();
    assert_eq!(connections, [1, 2, 3]);
}

#[tokio::test]
async fn a_connection_that_the_store_closed_while_it_was_idle_costs_nothing() {
    let (scripted, upstream) = pair(Kind::FenceAware);
    for number in 0..20 {
        scripted.fault(Fault::AnswerAndClose);
        answered(upstream.send(&order("n/r", 1, &format!("closes-{number}"), "x")).await);
        // The news of it takes a moment.
        tokio::time::sleep(Duration::from_millis(10)).await;
        answered(upstream.send(&order("n/r", 1, &format!("next-{number}"), "x")).await);
    }
    assert_eq!(scripted.log().len(), 40);
}

#[tokio::test]
async fn an_answer_that_nobody_asked_for_is_never_taken_for_the_next_one() {
    let (scripted, upstream) = pair(Kind::FenceAware);
    let two =
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged";
    scripted.fault(Fault::Raw(two.to_vec()));
    answered(upstream.send(&order("n/r", 1, "one", "x")).await);
    tokio::time::sleep(Duration::from_millis(20)).await;
    let answer = answered(upstream.send(&order("n/r", 1, "two", "x")).await);
    assert_eq!(&answer.relayed.body[..], b"written 2");
    assert_eq!(scripted.log().last().unwrap().connection, 2);
}

#[tokio::test]
async fn a_read_that_is_dropped_half_way_closes_its_connection() {
    let (scripted, upstream) = pair(Kind::FenceAware);
    answered(upstream.send(&order("n/r", 1, "one", &"x".repeat(4_000_000))).await);
    drop(upstream.read(reading("n/r")).await.unwrap());
    answered(upstream.send(&order("n/r", 1, "two", "x")).await);
    let connections: Vec<usize> = scripted.log().iter().map(|arrival| arrival.connection).collect();
    assert_eq!(connections, [1, 1, 2]);
}

#[tokio::test]
async fn many_at_once_each_get_their_own_answer() {
    let (scripted, upstream) = pair(Kind::Idempotent);
    let upstream = Arc::new(upstream);
    let orders: Vec<_> = (0..200).map(|n| order("n/r", 1, &format!("op-{n}"), &format!("{n}"))).collect();
    let sent = join_all(orders.iter().map(|order| upstream.send(order))).await;
    let mut bodies: Vec<_> = sent.into_iter().map(|sent| answered(sent).relayed.body).collect();
    bodies.sort();
    bodies.dedup();
    assert_eq!((bodies.len(), scripted.log().len()), (200, 200));
}

#[tokio::test]
async fn a_store_that_takes_no_connection_is_not_sent_to_in_bounded_time() {
    // A socket that listens and whose queue is full takes connections no further.
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let mut settings = store(Class::Serial, &format!("https://{}/", listener.local_addr().unwrap()));
    settings.connect_timeout = Millis::new(100);
    // TLS that never answers is a connection that never stood.
    let upstream = Upstream::open(settings).unwrap();
    is_unsent(&upstream.send(&order("n/r", 1, "op", "x")).await);
}

/// Whoever was stopped while a connection came to stand must not write to it when he wakes.
#[tokio::test]
async fn a_connection_that_stands_too_late_is_not_written_to() {
    for over in [true, false] {
        let (scripted, _) = pair(Kind::Serial);
        let mut gate = Gate::before(scripted.port());
        let mut settings = store(Class::Serial, &gate.url());
        settings.connect_timeout = Millis::new(20_000);
        let upstream = Upstream::open(settings).unwrap();
        gate.shut().await;
        let slept = Arc::new(AtomicBool::new(false));
        let (clock, limit) = (slept.clone(), Duration::from_secs(1));
        let time = move || if clock.load(Ordering::SeqCst) { 2 * limit } else { Duration::ZERO };
        let deadline = Deadline::at(limit, Arc::new(time));
        let sending =
            tokio::spawn(
                async move { upstream.send(&Order { deadline, ..order("n/r", 1, "op", "x") }).await },
            );
        tokio::time::sleep(Duration::from_millis(50)).await;
        slept.store(over, Ordering::SeqCst);
        gate.open();
        let sent = sending.await.unwrap();
        if over {
            is_unsent(&sent);
            assert!(scripted.log().is_empty());
        } else {
            answered(sent);
        }
    }
}

#[tokio::test]
async fn more_requests_than_connections_wait_for_their_turn_and_not_for_ever() {
    let (scripted, upstream) = pair_with(Kind::FenceAware, |store| {
        store.connect_timeout = Millis::new(1_500);
        store.timeout = Millis::new(8_000);
    });
    let most = fencegate::limits::UPSTREAM_CONNECTIONS;
    (0..most).for_each(|_| scripted.fault(Fault::NeverAnswer));
    let orders: Vec<_> = (0..=most).map(|n| order("n/r", 1, &format!("op-{n}"), "x")).collect();
    let busy = join_all(orders[..most].iter().map(|order| upstream.send(order)));
    let last = async {
        while scripted.log().len() < most {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        upstream.send(&orders[most]).await
    };
    tokio::select! {
        sent = last => { is_unsent(&sent); }
        sent = busy => panic!("the busy ones ended first: {:?}", sent.first()),
    }
}
