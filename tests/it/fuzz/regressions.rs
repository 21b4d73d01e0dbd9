//! What was found by feeding, each told by its name. What is a matter of one function has its test beside that.

use fencegate::domain::resource::ResourceName;
use fencegate::ledger::fuzzing::{Table, Value};

use super::child::corpus;

/// The row of a table that stands first in the corpus, with other values in some columns.
fn changed(table: Table, columns: &[(usize, Value)]) -> Result<Option<Vec<Value>>, String> {
    let name = format!("{table:?}").to_lowercase();
    let rows = corpus("rows");
    let row = rows.iter().find(|row| row.starts_with(name.as_bytes())).unwrap();
    let mut values = super::targets::row_values(row);
    for (at, value) in columns {
        values[*at] = value.clone();
    }
    table.again(&ResourceName::parse("pages/a").unwrap(), &values)
}

/// Broken: half a value in a row is taken for none, and so a record is read that nobody wrote. Must hold: it is unreadable, which
/// stops that request and is told.
#[test]
fn half_a_value_in_a_row_is_no_value() {
    let number = Value::Integer(1);
    assert!(changed(Table::Operations, &[]).is_ok() && changed(Table::Refusals, &[]).is_ok());
    // The tag of an operation, the position that was refused, and the bucket of a lease that is not there.
    assert!(changed(Table::Operations, &[(16, Value::Null)]).is_err());
    assert!(changed(Table::Operations, &[(15, Value::Null)]).is_err());
    assert!(changed(Table::Refusals, &[(4, Value::Null)]).is_err());
    assert!(changed(Table::Resources, &[(17, Value::Null), (20, number)]).is_err());
    // An answer that is not there is not an empty one, and headers that are not there are not none.
    assert!(changed(Table::Controls, &[(1, Value::Null)]).is_err());
    assert!(changed(Table::Intents, &[(16, Value::Null)]).is_err());
}

/// Broken: a flag that is neither 0 nor 1 is taken for 1. Must hold: a value that the rules cannot hold is never guessed.
#[test]
fn a_flag_in_a_row_is_zero_or_one() {
    assert!(changed(Table::Intents, &[(21, Value::Integer(1))]).is_ok());
    for other in [2, -1, i64::MAX] {
        assert!(changed(Table::Intents, &[(21, Value::Integer(other))]).is_err(), "{other}");
    }
}
