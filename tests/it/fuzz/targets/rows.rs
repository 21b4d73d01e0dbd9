//! Rows as a database may hold them: any values in the columns are read whole or refused, never guessed, and what was read is
//! written as it stood there.

use fencegate::domain::resource::ResourceName;
use fencegate::ledger::fuzzing::{Table, Value};

use super::{Met, Target, cut};

pub(super) const TARGET: Target = Target {
    name: "rows",
    run,
    longest: 1_500,
    words: &[
        "n",
        "i0",
        "i1",
        "i-1",
        "i9223372036854775807",
        "t",
        "tlive",
        "tpages/a",
        "tpublish-1",
        "tPUT",
        "tapplied",
        "tprepared",
        "t0.1 pages/a",
        "x",
        "x00",
        "x0000000000000000000000000000000000000000000000000000000000000000",
        "x00000000000000000000000000000000",
        "x0000000000000000",
        "x00000001610000000162",
        "t\"1\"",
        "tunread",
        "tabsent",
        "tsaid 1",
        "texpired",
        "treleased",
        "tcreated",
        "\n",
        "\\n",
    ],
    meets: &[
        "resources read",
        "leases read",
        "targets read",
        "operations read",
        "intents read",
        "controls read",
        "namespaces read",
        "everywhere read",
        "audit read",
        "refusals read",
        "resources refused",
        "a neighbour read",
        "a neighbour refused",
    ],
};

/// The table in the first line, a column in each of the others: `n` for NULL, `i` and a number, `t` and a text, `x` and bytes.
fn run(data: &[u8], met: &mut Met) {
    let (name, rest) = cut(data, b'\n');
    let named = |table: &&Table| format!("{table:?}").to_lowercase().as_bytes() == name;
    let Some(table) = Table::ALL.iter().find(named) else { return met.note("no table") };
    let values = values(rest);
    let read = hold(*table, &values);
    met.read(&format!("{table:?}").to_lowercase(), &read);
    if read.is_err() {
        return;
    }
    // A row that is one: so is none of its neighbours that has an odd value in one column, or it is another one.
    let odd =
        [Value::Null, Value::Integer(-1), Value::Integer(0), Value::Integer(2), Value::Integer(i64::MAX)];
    let odd =
        odd.into_iter().chain([Value::Text(String::new()), Value::Blob(Vec::new()), Value::Blob(vec![0; 7])]);
    for other in odd {
        for at in 0..values.len() {
            let mut changed = values.clone();
            changed[at] = other.clone();
            let read = hold(*table, &changed);
            met.read("a neighbour", &read);
        }
    }
}

/// Reads a row and writes it again, which must come to the same.
fn hold(table: Table, values: &[Value]) -> Result<(), String> {
    let resource = ResourceName::parse("pages/a").expect("a name");
    let Some(written) = table.again(&resource, values)? else { return Ok(()) };
    let again = table.again(&resource, &written);
    let again = again.as_ref().ok().and_then(Option::as_ref);
    assert_eq!(again, Some(&written), "what is written reads and is written so again");
    for (at, (was, is)) in values.iter().zip(&written).enumerate() {
        assert!(was == is || is_another_spelling(table, at, was), "column {at}: {was:?} was read as {is:?}");
    }
    Ok(())
}

/// The few columns that have two spellings for one meaning; a gateway writes one of them.
fn is_another_spelling(table: Table, at: usize, was: &Value) -> bool {
    match table {
        // The bucket of a lease that lies in the resource's own, a queue with nobody in it, and a barrier that is none.
        Table::Resources => {
            at == 20
                || (at == 21 && *was == Value::Blob(Vec::new()))
                || (at >= 25 && *was == Value::Integer(0))
        }
        // Entity tags with other blanks between.
        Table::Intents => at == 13 || at == 14,
        Table::Operations
        | Table::Namespaces
        | Table::Everywhere
        | Table::Leases
        | Table::Targets
        | Table::Controls
        | Table::Audit
        | Table::Refusals => false,
    }
}

pub(super) fn values(lines: &[u8]) -> Vec<Value> {
    lines.split(|byte| *byte == b'\n').map(value).collect()
}

fn value(line: &[u8]) -> Value {
    let (kind, rest) = line.split_at(line.len().min(1));
    let text = String::from_utf8_lossy(rest);
    match kind {
        b"i" => text.parse().map_or(Value::Null, Value::Integer),
        b"t" => Value::Text(text.replace("\\n", "\n")),
        b"x" => Value::Blob(rest.chunks(2).map(byte).collect()),
        _ => Value::Null,
    }
}

fn byte(pair: &[u8]) -> u8 {
    std::str::from_utf8(pair).ok().and_then(|digits| u8::from_str_radix(digits, 16).ok()).unwrap_or(0xff)
}
