//! W3C trace context (<https://www.w3.org/TR/trace-context/>, version 00): to which trace a request belongs, and under which
//! span. It is passed on and shown; nothing is decided by it.

use std::fmt;

/// A trace, and the span in it that is going on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trace {
    id: [u8; 16],
    span: [u8; 8],
    sampled: bool,
}

impl Trace {
    /// Reads `traceparent`; one that is not well formed is none. Of a version to come the part that this one has is read.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        let (version, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let [version] = bytes(version)?;
        let [flags] = bytes(flags)?;
        let (trace, span) = (bytes(trace)?, bytes(span)?);
        let ends = version != 0 || parts.next().is_none();
        let whole = ends && version != 0xff && trace != [0; 16] && span != [0; 8];
        whole.then_some(Self { id: trace, span, sampled: flags & 1 == 1 })
    }

    /// A new trace, named by 16 bytes that no other has.
    #[must_use]
    pub fn begun(name: u128, sampled: bool) -> Self {
        let trace = if name == 0 { 1 } else { name };
        let begun = Self { id: trace.to_be_bytes(), span: [0; 8], sampled };
        begun.below(0)
    }

    /// The same, with or without its spans being wanted.
    #[must_use]
    pub const fn with_sampling(self, sampled: bool) -> Self {
        Self { sampled, ..self }
    }

    /// A span below this one; another number gives another span.
    #[must_use]
    pub fn below(&self, number: u64) -> Self {
        let (_, low) = self.id.split_at(8);
        let seed =
            [u64::from_be_bytes(self.span), number, u64::from_be_bytes(low.try_into().unwrap_or_default())];
        let mixed = seed.into_iter().fold(0, |so_far: u64, next| mixed(so_far ^ next));
        Self { span: mixed.max(1).to_be_bytes(), ..*self }
    }

    /// Whether whoever began it wants to see its spans.
    #[must_use]
    pub const fn is_sampled(&self) -> bool {
        self.sampled
    }

    /// The trace.
    #[must_use]
    pub const fn trace(&self) -> [u8; 16] {
        self.id
    }

    /// The span.
    #[must_use]
    pub const fn span(&self) -> [u8; 8] {
        self.span
    }

    /// The trace's name, as it is shown.
    #[must_use]
    pub const fn id(&self) -> TraceId {
        TraceId(self.id)
    }

    /// As it is sent on.
    #[must_use]
    pub fn header(&self) -> String {
        let span = u64::from_be_bytes(self.span);
        format!("00-{}-{span:016x}-{:02x}", self.id(), u8::from(self.sampled))
    }
}

/// The name of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceId([u8; 16]);

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

/// Spreads a number over all bits, and no two to the same (the finalizer of `SplitMix64`).
const fn mixed(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Lower-case hexadecimal digits, and no others.
fn bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    if text.len() != N.checked_mul(2)? || !text.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f')) {
        return None;
    }
    let mut bytes = [0; N];
    for (index, byte) in bytes.iter_mut().enumerate() {
        let at = index.checked_mul(2)?;
        *byte = u8::from_str_radix(text.get(at..at.checked_add(2)?)?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIVEN: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_trace_is_taken_over_only_when_it_is_well_formed() {
        let trace = Trace::parse(GIVEN).unwrap();
        assert_eq!(trace.id().to_string(), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert!(trace.is_sampled());
        assert_eq!(trace.header(), GIVEN);
        for (flags, sampled) in [("00", false), ("02", false), ("03", true), ("ff", true)] {
            let flagged = Trace::parse(&GIVEN.replace("-01", &format!("-{flags}"))).unwrap();
            assert_eq!(flagged.is_sampled(), sampled, "{flags}");
        }
        assert!(Trace::parse("01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more").is_some());
        for bad in [
            "secret",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e47é-00f067aa0ba902b7-01",
        ] {
            assert_eq!(Trace::parse(bad), None, "{bad}");
        }
    }

    /// Broken: an upstream takes two attempts for one span, or the caller's span for ours. Must hold: each span below
    /// another has a name of its own in the same trace.
    #[test]
    fn spans_below_another_have_names_of_their_own() {
        let trace = Trace::parse(GIVEN).unwrap();
        let spans = [trace, trace.below(0), trace.below(1), trace.below(0).below(1)];
        for (index, one) in spans.iter().enumerate() {
            assert_eq!(one.id(), trace.id());
            assert!(spans[index + 1..].iter().all(|other| other.span() != one.span()), "{one:?}");
        }
        // Two replicas that carry one operation name its spans alike.
        assert_eq!(trace.below(0).span(), 0x98eb_a1e7_c990_4749_u64.to_be_bytes());
        assert_eq!(trace.below(1).span(), 0x0205_eb39_6ea9_c6a1_u64.to_be_bytes());
        assert_eq!(trace.trace(), 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736_u128.to_be_bytes());
        assert!(!trace.with_sampling(false).is_sampled() && trace.with_sampling(false).id() == trace.id());
        let begun = Trace::begun(7, false);
        assert_eq!(begun.span(), 0xd3c8_201d_52fd_2df4_u64.to_be_bytes());
        assert_eq!(Trace::begun(0, true).header(), format!("00-{:032x}-2f32a78496c67c60-01", 1));
        assert_eq!(begun.header(), format!("00-{:032x}-{:016x}-00", 7, u64::from_be_bytes(begun.span())));
    }
}
