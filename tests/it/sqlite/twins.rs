//! The embedded engine beside the reference engine: the same commands, in the same batches and at the same times, get
//! the same outcomes and leave the same rows.

use fencegate::domain::counter::Incarnation;
use fencegate::domain::lease::{AcquisitionHash, Holder};
use fencegate::domain::operation::OperationId;
use fencegate::domain::position::PresentedToken;
use fencegate::domain::principal::PrincipalName;
use fencegate::domain::resource::{Bucket, Namespace};
use fencegate::ledger::Ledger;
use fencegate::ledger::read::{OperationFilter, Reader, Reading, ResourceFilter};
use fencegate::protocol::command::{Acquire, Advance, Release, Renew};
use fencegate::protocol::rows::Life;
use fencegate::protocol::{Command, Outcome};
use uuid::Uuid;

use super::place::{Draft, Place, Running, address, delete, name, put, together};

const WRITTEN: [&str; 4] = ["free/a", "free/b", "owned/a", "bound/a"];
const TREE: [&str; 4] = ["tree/a", "tree/a//x", "tree/a//x/y", "tree/b//x"];

/// A small generator of numbers: the same seed tells the same story.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[usize::try_from(self.below(u64::try_from(of.len()).unwrap())).unwrap()]
    }
}

/// What earlier outcomes have told the workers.
#[derive(Default)]
struct Known {
    tokens: Vec<(String, String)>,
    leases: Vec<(Bucket, AcquisitionHash)>,
    /// Batches so far: numbers that come from outside grow with them.
    rounds: u64,
}

impl Known {
    fn learn(&mut self, outcome: &Outcome) {
        if let Outcome::Granted(grant) = outcome {
            self.tokens.push((grant.view.lease.resource.to_string(), grant.fencing_tokens[0].0.clone()));
            self.leases.push((grant.acquisition_id.bucket(), grant.acquisition_id.hash()));
        }
    }

    fn number(&self, dice: &mut Dice) -> String {
        (self.rounds / 8 + dice.below(4) + 1).to_string()
    }

    /// A token for a resource: one of its own leases, mostly a late one, or a number.
    fn token(&self, dice: &mut Dice, resource: &str) -> String {
        let own: Vec<&String> =
            self.tokens.iter().filter(|(of, _)| of == resource).map(|(_, token)| token).collect();
        match own.as_slice() {
            [.., last] if dice.below(4) > 0 => (*last).clone(),
            [] => self.number(dice),
            _ => dice.one(&own).clone(),
        }
    }
}

fn draft(dice: &mut Dice, known: &Known, name: &str) -> Draft {
    let token = known.token(dice, name.split("//").next().unwrap_or_default());
    let sequence = if name.starts_with("owned/") { 0 } else { dice.below(9) + 1 };
    let operation = format!("op-{}", dice.below(60));
    let made = if dice.below(6) == 0 {
        delete(name, &operation, &token, sequence)
    } else {
        put(name, &operation, &token, sequence)
    };
    let named = dice.below(8);
    made.incarnation(if named == 0 { Some(dice.below(3) + 1) } else { None })
}

fn command(dice: &mut Dice, known: &Known, ledger: &Ledger) -> Command {
    match dice.below(12) {
        0 | 1 => Command::Acquire(Acquire {
            resources: vec![name(dice.one(&["owned/a", "bound/a", "owned/b", "free/a"]))],
            wait: None,
            holder: Holder::parse(dice.one(&["alice", "bob"])).ok(),
            ttl_ms: dice.one(&[None, Some(1_000), Some(4_000)]),
            request_id: Uuid::from_u128(u128::from(dice.below(30))),
            principal: PrincipalName::anonymous(),
            nonce: u128::from(dice.below(u64::MAX)).to_be_bytes(),
        }),
        2 | 3 if !known.leases.is_empty() => {
            let (bucket, acquisition) = dice.one(&known.leases);
            if dice.below(2) == 0 {
                Command::Release(Release { bucket, acquisition })
            } else {
                Command::Renew(Renew { bucket, acquisition, ttl_ms: dice.one(&[None, Some(2_000)]) })
            }
        }
        4 => {
            let resource = name(dice.one(&WRITTEN));
            let token = PresentedToken::parse(&known.token(dice, resource.as_str())).unwrap();
            let claim = ledger.claim(&resource, &token);
            Command::Advance(Advance { resource, claim, reason: "a test".to_owned() })
        }
        5 => {
            let token = known.number(dice);
            let (sequence, first) = (dice.below(9) + 1, dice.below(50));
            let drafts: Vec<Draft> = TREE[1..3]
                .iter()
                .zip(first..)
                .map(|(target, index)| put(target, &format!("op-{index}"), &token, sequence))
                .collect();
            together(ledger, &drafts)
        }
        6 | 7 => {
            let target = dice.one(&TREE);
            draft(dice, known, target).command(ledger)
        }
        _ => {
            let written = dice.one(&WRITTEN);
            draft(dice, known, written).command(ledger)
        }
    }
}

/// Asks both the same.
async fn same<T, F>(twins: [&Running; 2], ask: F)
where
    T: PartialEq + std::fmt::Debug + Send + 'static,
    F: for<'a> Fn(&'a dyn Reader) -> Reading<'a, T> + Clone + Send + 'static,
{
    let [one, other] = twins;
    let told: Result<T, _> = one.ledger.read(ask.clone()).await;
    assert!(told.is_ok());
    assert_eq!(told, other.ledger.read(ask).await);
}

async fn compare(twins: [&Running; 2], known: &Known) {
    same(twins, |reader| reader.namespaces()).await;
    for life in [None, Some(Life::Active), Some(Life::Deleted)] {
        for (namespace, prefix) in
            [(None, None), (Some("tree"), None), (None, Some("o")), (Some("free"), Some("free/b"))]
        {
            let filter = ResourceFilter {
                namespace: namespace.and_then(|name| Namespace::parse(name).ok()),
                prefix: prefix.map(str::to_owned),
                life,
                after: None,
                limit: 50,
            };
            same(twins, move |reader| reader.resources(filter.clone())).await;
        }
    }
    let watched: Vec<_> = WRITTEN.iter().chain(&["owned/b", "free/never"]).map(|at| name(at)).collect();
    same(twins, move |reader| reader.watched(watched.clone())).await;
    for at in WRITTEN.iter().chain(&TREE).chain(&["owned/b"]) {
        let resource = address(at).resource;
        same(twins, |reader| reader.document(address(at), true)).await;
        let asked = resource.clone();
        same(twins, move |reader| reader.resource(asked.clone())).await;
        let filter = OperationFilter { resource: resource.clone(), state: None, after: None, limit: 500 };
        same(twins, move |reader| reader.operations(filter.clone())).await;
        for index in 0..60 {
            let (resource, id) = (resource.clone(), OperationId::parse(&format!("op-{index}")).unwrap());
            let named = if index % 3 == 0 { Incarnation::new(1) } else { None };
            same(twins, move |reader| reader.operation(resource.clone(), id.clone(), named)).await;
        }
    }
    for (bucket, acquisition) in known.leases.iter().copied() {
        same(twins, move |reader| reader.lease(bucket, acquisition)).await;
    }
}

/// One story of batches; every so often the embedded one is closed and opened again.
async fn story(seed: u64) {
    let place = Place::new();
    let memory = Running::in_memory(place.clock.clone());
    let mut sqlite = place.run().await;
    let (mut dice, mut known) = (Dice(seed), Known::default());
    for round in 0..90 {
        known.rounds = round;
        let members = dice.one(&[1, 1, 2, 5, 12]);
        let mut batch: Vec<Command> =
            (0..members).map(|_| command(&mut dice, &known, &memory.ledger)).collect();
        batch.sort_by_key(|command| !crate::support::commands::goes_first(command));
        let wanted = memory.answers(batch.clone()).await;
        let found = sqlite.answers(batch.clone()).await;
        for ((command, wanted), found) in batch.iter().zip(&wanted).zip(&found) {
            assert_eq!(found, wanted, "seed {seed}, round {round}: {command:?}");
            known.learn(wanted.as_ref().unwrap());
        }
        place.clock.forward(u32::try_from(dice.below(900)).unwrap());
        if round % 40 == 39 {
            sqlite.close().await;
            sqlite = place.run().await;
        }
    }
    compare([&memory, &sqlite], &known).await;
    memory.close().await;
    sqlite.close().await;
    place.check().await;
}

#[tokio::test]
async fn both_engines_tell_the_same_story() {
    for seed in 1..=12 {
        story(seed * 0x0E37_79B9_7F4A_7C15).await;
    }
}
