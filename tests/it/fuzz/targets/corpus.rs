//! Corpora as text: one input in each line, what cannot be seen escaped, and comments for people.

/// The inputs of a corpus.
pub(crate) fn inputs(text: &str) -> Vec<Vec<u8>> {
    text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(input).collect()
}

/// What a line stands for.
pub(crate) fn input(line: &str) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::new(), line.bytes());
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        match rest.next() {
            Some(b'n') => bytes.push(b'\n'),
            Some(b'r') => bytes.push(b'\r'),
            Some(b't') => bytes.push(b'\t'),
            Some(b'x') => {
                let digits =
                    [rest.next(), rest.next()].map(|digit| char::from(digit.unwrap_or(b'0')).to_digit(16));
                let [high, low] = digits.map(Option::unwrap_or_default);
                bytes.push(u8::try_from(high * 16 + low).unwrap_or_default());
            }
            Some(other) => bytes.push(other),
            None => {}
        }
    }
    bytes
}

/// The line that stands for an input.
pub(crate) fn line(input: &[u8]) -> String {
    let mut line = String::new();
    for (at, byte) in input.iter().enumerate() {
        match byte {
            b'\n' => line.push_str("\\n"),
            b'\r' => line.push_str("\\r"),
            b'\t' => line.push_str("\\t"),
            b'\\' => line.push_str("\\\\"),
            b'#' if at == 0 => line.push_str("\\x23"),
            b' '..=b'~' => line.push(char::from(*byte)),
            _ => line.extend(['\\', 'x'].into_iter().chain([byte >> 4, byte & 15].map(digit))),
        }
    }
    line
}

fn digit(half: u8) -> char {
    char::from_digit(u32::from(half), 16).unwrap_or('0')
}
