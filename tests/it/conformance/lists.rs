//! Lists of operations that were decided at once, decided late in any order, and not decided at all.

use fencegate::domain::operation::OperationState;
use fencegate::ledger::Ledger;
use fencegate::ledger::read::{OperationFilter, OperationPlace};
use fencegate::protocol::command::Finding;
use fencegate::protocol::rows::OperationRecord;

use crate::support::commands::resource;
use crate::support::engines::{Kind, Running, on_engines};
use crate::support::forwards::{announced, answered, draft, forward, settle, settled};

on_engines!([memory Memory, sqlite Sqlite, postgres Postgres], [a_list_is_in_the_order_of_time_whatever_is_decided]);

/// All operations in this state, in pages of this size.
pub(super) async fn listed(
    ledger: &Ledger,
    name: &str,
    state: Option<OperationState>,
    limit: u32,
) -> Vec<OperationRecord> {
    let (mut all, mut after): (Vec<OperationRecord>, Option<OperationPlace>) = (Vec::new(), None);
    loop {
        let filter = OperationFilter { resource: resource(name), state, after, limit };
        let page = ledger.read(move |reader| reader.operations(filter)).await.unwrap();
        let full = u32::try_from(page.len()).unwrap() == limit;
        all.extend(page);
        let Some(last) = all.last().filter(|_| full) else { return all };
        after = Some(OperationPlace {
            created_at: last.created_at,
            incarnation: last.incarnation,
            operation_id: last.operation_id.clone(),
        });
    }
}

/// A page that went by the order in which operations were decided would leave out what was decided late.
async fn a_list_is_in_the_order_of_time_whatever_is_decided(kind: Kind) {
    let running = Running::start(kind).await;
    let ledger = &running.ledger;
    let (mut waiting, mut ids) = (Vec::new(), Vec::new());
    for number in 1..=60_u64 {
        let id = format!("op-{number:02}");
        let intent = announced(ledger, forward(ledger, &draft("aware/a", &number.to_string(), &id, 1), 1))
            .await
            .intent;
        ids.push(id);
        // Some are decided in the millisecond in which they were announced, others later and in another order, and some
        // never.
        match number % 5 {
            0 | 1 => {
                let finding = if number % 2 == 0 { answered(200) } else { answered(400) };
                settled(ledger, settle(&intent, finding)).await;
            }
            _ => waiting.push(intent),
        }
        if waiting.len() > 12 {
            for at in [5, 0, 7, 2, 3] {
                let finding = if at == 0 { answered(422) } else { answered(201) };
                settled(ledger, settle(&waiting.remove(at), finding)).await;
            }
        }
        if number % 3 == 0 {
            running.clock.advance(number);
        }
    }
    settled(ledger, settle(&waiting[0], Finding::Doubt)).await;
    ids.reverse();
    let whole = listed(ledger, "aware/a", None, 1_000).await;
    let found: Vec<&str> = whole.iter().map(|record| record.operation_id.as_str()).collect();
    assert_eq!(found, ids);
    let undecided = whole.iter().filter(|record| record.state == OperationState::Intent).count();
    assert_eq!(undecided, waiting.len());
    for state in
        [None, Some(OperationState::Applied), Some(OperationState::Refused), Some(OperationState::Intent)]
    {
        let wanted: Vec<OperationRecord> =
            whole.iter().filter(|record| state.is_none_or(|state| record.state == state)).cloned().collect();
        for limit in [1, 2, 3, 7, 59, 60, 61] {
            assert_eq!(listed(ledger, "aware/a", state, limit).await, wanted, "{state:?} by {limit}");
        }
    }
    running.stop().await;
}
