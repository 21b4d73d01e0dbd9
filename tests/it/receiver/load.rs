//! Many at once, and kill -9 in between.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::task::JoinSet;

use super::on_receivers;
use super::write::{RESOURCE, Write, stale};
use crate::support::client::{Answer, Client};
use crate::support::postgres::patience;
use crate::support::stores::receiver::Receiver;

const WRITERS: u64 = 16;

on_receivers!([
    sixteen_writers_race_and_the_log_never_goes_back,
    what_was_acknowledged_is_there_after_kills_under_load,
]);

/// What the number-th write of a writer presents: all over the place, and each position by several.
fn position(writer: u64, number: u64) -> u64 {
    (writer * 31 + number * 17) % 40 + number + 1
}

async fn sixteen_writers_race_and_the_log_never_goes_back(receiver: Receiver) {
    const WRITES: u64 = 8;
    let client = receiver.client();
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let client = client.clone();
        writers.spawn(async move {
            let mut applied = Vec::new();
            for number in 0..WRITES {
                let operation = format!("{writer}-{number}");
                let position = format!("0.{}", position(writer, number));
                let write = Write::post(&position, &operation, "x");
                // Each is sent twice at once: the network doubles, too.
                let (one, two) = tokio::join!(write.send(&client), write.send(&client));
                assert_eq!((one.status, &one.bytes), (two.status, &two.bytes));
                match one.status {
                    200 | 201 => applied.push(operation),
                    412 => {}
                    other => panic!("{other}: {}", one.text()),
                }
            }
            applied
        });
    }
    let applied: BTreeSet<String> = writers.join_all().await.into_iter().flatten().collect();
    let log = receiver.log(RESOURCE);
    assert!(log.windows(2).all(|pair| pair[0].position <= pair[1].position), "{log:?}");
    assert!(log.iter().zip(1..).all(|(effect, number)| effect.number == number), "{log:?}");
    assert_eq!(log.iter().map(|effect| effect.operation.clone()).collect::<BTreeSet<_>>(), applied);
    assert_eq!(client.get("/one").await.bytes.len(), log.len());
    // The highest was taken whenever it came, so it is what is held.
    let presented = (0..WRITERS).flat_map(|writer| (0..WRITES).map(move |number| position(writer, number)));
    let highest = presented.max().unwrap();
    assert_eq!(log.last().unwrap().position, (0, highest));
    stale(&Write::post("0.1", "late", "x").send(&client).await, &format!("0.{highest}"));
}

/// A writer with a document of its own: what it was told, and what it does not know.
struct Worker {
    name: String,
    sent: u64,
    told: Vec<(Write, Answer)>,
    /// Sent and not answered.
    open: Option<Write>,
    /// The highest position of which it was told that it is held.
    held: u64,
}

impl Worker {
    fn write(&self, position: u64, number: u64) -> Write {
        let (text, operation) = (format!("0.{position}"), format!("{}-{number}", self.name));
        Write::post(&text, &operation, &format!("{number};"))
            .to(&format!("orders/{}", self.name), &format!("/{}", self.name))
    }

    fn advance(&self, position: u64) -> Write {
        Write::advance(&format!("0.{position}"))
            .to(&format!("orders/{}", self.name), &format!("/{}", self.name))
    }

    /// Writes and advances in turn, each at a higher position, until nobody answers.
    async fn work(mut self, client: Client, acknowledged: Arc<AtomicUsize>) -> Self {
        loop {
            let (position, number) = (self.held + 1, self.sent);
            let write = self.write(position, number);
            self.sent += 1;
            let Some(answer) = write.try_send(&client).await else {
                self.open = Some(write);
                return self;
            };
            assert!(matches!(answer.status, 200 | 201), "{}", answer.text());
            self.told.push((write, answer));
            self.held = position;
            acknowledged.fetch_add(1, Ordering::SeqCst);
            let Some(answer) = self.advance(position + 1).try_send(&client).await else { return self };
            assert_eq!(answer.status, 200, "{}", answer.text());
            self.held = position + 1;
        }
    }

    /// Everything that it was told still holds, and what it does not know is done once.
    async fn check(&mut self, client: &Client) {
        for (write, answer) in &self.told {
            let again = write.send(client).await;
            assert_eq!((again.status, &again.bytes), (answer.status, &answer.bytes), "{write:?}");
        }
        if self.held > 1 {
            let below = self.write(self.held - 1, u64::MAX).send(client).await;
            assert_eq!(below.status, 412, "{}: below {} it was let in", self.name, self.held);
            let held = below.header("fencing-position").unwrap().trim_start_matches("0.").parse::<u64>();
            assert!(held.unwrap() >= self.held, "{} of {}", below.text(), self.held);
        }
        if let Some(write) = self.open.take() {
            let answer = write.send(client).await;
            assert!(matches!(answer.status, 200 | 201), "{write:?}: {}", answer.text());
            self.told.push((write, answer));
            // Its position was the next one; an advance may have been on its way.
            self.held += 1;
        } else {
            assert_eq!(self.advance(self.held + 1).send(client).await.status, 200);
            self.held += 1;
        }
        let expected = (0..self.sent).map(|number| format!("{number};")).collect::<Vec<_>>().concat();
        assert_eq!(client.get(&format!("/{}", self.name)).await.text(), expected);
    }
}

async fn what_was_acknowledged_is_there_after_kills_under_load(mut receiver: Receiver) {
    const KILLS: usize = 3;
    const BETWEEN: usize = 60;
    let mut workers: Vec<Worker> = (0..8)
        .map(|number| Worker { name: format!("w{number}"), sent: 0, told: Vec::new(), open: None, held: 0 })
        .collect();
    // Some are struck in the middle of a write, the others in the middle of an advance.
    let mut struck = 0;
    for _ in 0..KILLS {
        let (client, acknowledged) = (receiver.client(), Arc::new(AtomicUsize::new(0)));
        let mut working = JoinSet::new();
        for worker in workers.drain(..) {
            working.spawn(worker.work(client.clone(), acknowledged.clone()));
        }
        patience::until("enough was acknowledged", 60, async || {
            (acknowledged.load(Ordering::SeqCst) >= BETWEEN).then_some(())
        })
        .await;
        receiver.kill();
        workers = working.join_all().await;
        struck += workers.iter().filter(|worker| worker.open.is_some()).count();
        receiver.start_again();
        let client = receiver.client();
        for worker in &mut workers {
            worker.check(&client).await;
        }
    }
    assert!(struck > 0, "no kill struck a write");
    for worker in &workers {
        let log = receiver.log(&format!("orders/{}", worker.name));
        assert!(log.windows(2).all(|pair| pair[0].position <= pair[1].position), "{log:?}");
        assert_eq!(log.len(), worker.told.len(), "{}", worker.name);
    }
}
