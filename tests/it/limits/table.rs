//! The table of limits in the operators' guide, held against the limits themselves.

use fencegate::limits::{
    BODY_BYTES_A_SECOND, BODY_GRACE, BODY_TIMEOUT, CONNECTION_AGE, CONNECTIONS, EVENT_STREAMS,
    EVENT_STREAMS_EACH, HEADER_BYTES, HEADER_FIELDS, HEADER_TIMEOUT, QUEUE_COMMANDS, QUEUE_OPERATORS,
    QUEUE_RESERVED, READS_IN_FLIGHT, READS_RESERVED, STRANGER_BURST, STRANGER_RATE, WAITING_ATTEMPTS,
    WATCHERS, WATCHERS_EACH, WATCHERS_LOOKING, WATCHERS_PATIENCE, WRITE_TIMEOUT,
};

#[test]
fn the_guide_says_what_the_limits_are() {
    // Broken: a bound is changed and the guide goes on telling the old one. Must hold: each number stands in its row.
    let guide = include_str!("../../../docs/OPERATIONS.md");
    let thousands = |number: usize| {
        let text = number.to_string();
        let grouped: Vec<&str> =
            text.as_bytes().rchunks(3).rev().map(|three| std::str::from_utf8(three).unwrap()).collect();
        grouped.join(",")
    };
    let seconds = |time: std::time::Duration| format!("{} s", time.as_secs());
    let rows: [(&str, Vec<String>); 12] = [
        ("connections", vec![thousands(CONNECTIONS)]),
        ("age of a connection", vec![format!("{} h", CONNECTION_AGE.as_secs() / 3_600)]),
        (
            "head of a request",
            vec![
                format!("{HEADER_FIELDS} fields"),
                format!("{} KiB", HEADER_BYTES / 1_024),
                seconds(HEADER_TIMEOUT),
            ],
        ),
        ("between two requests", vec![seconds(HEADER_TIMEOUT)]),
        (
            "pace of a body",
            vec![seconds(BODY_TIMEOUT), seconds(BODY_GRACE), format!("{} KiB", BODY_BYTES_A_SECOND / 1_024)],
        ),
        ("taking an answer", vec![seconds(WRITE_TIMEOUT)]),
        (
            "commands in the queue",
            vec![
                thousands(QUEUE_COMMANDS),
                format!("{QUEUE_RESERVED} more for renewals"),
                format!("{QUEUE_RESERVED} more for outcomes"),
                format!("{QUEUE_OPERATORS} more for operators"),
            ],
        ),
        ("streams of events", vec![EVENT_STREAMS.to_string(), format!("{EVENT_STREAMS_EACH} of one")]),
        (
            "watchers: streams of leases and long polls",
            vec![
                thousands(WATCHERS),
                format!("{} of one", thousands(WATCHERS_EACH)),
                format!("{WATCHERS_LOOKING} of them look"),
                seconds(WATCHERS_PATIENCE),
            ],
        ),
        ("reads at once", vec![READS_IN_FLIGHT.to_string(), READS_RESERVED.to_string()]),
        ("attempts of callers that wait", vec![WAITING_ATTEMPTS.to_string()]),
        ("wrong credentials from one address", vec![STRANGER_BURST.to_string(), STRANGER_RATE.to_string()]),
    ];
    for (name, numbers) in rows {
        let beginning = format!("| {name} |");
        let row = guide.lines().find(|line| line.starts_with(&beginning));
        let row = row.unwrap_or_else(|| panic!("no row {name:?} in the table of limits"));
        for number in numbers {
            assert!(row.contains(&number), "{number:?} is not in: {row}");
        }
    }
}
