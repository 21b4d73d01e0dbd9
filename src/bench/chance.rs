//! Numbers that look random and cost nothing: the load generator must not be what is measured.

/// A xorshift generator (Marsaglia 2003). For load, never for secrets.
#[derive(Debug, Clone)]
pub(crate) struct Chance(u64);

impl Chance {
    /// A sequence of its own for each seed.
    pub(crate) const fn of(seed: u64) -> Self {
        // Zero would stay zero for ever; neighbouring seeds are drawn apart.
        Self(seed.wrapping_add(0x9E37_79B9_7F4A_7C15).wrapping_mul(0xBF58_476D_1CE4_E5B9) | 1)
    }

    /// The next 64 bits.
    pub(crate) const fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below `bound`; zero where the bound is.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        let wide = u128::from(self.next()) * u128::from(bound);
        u64::try_from(wide >> 64).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_below_the_bound_comes_about_as_often() {
        let mut chance = Chance::of(0);
        let mut counts = [0_u32; 10];
        for _ in 0..10_000 {
            counts[usize::try_from(chance.below(10)).unwrap()] += 1;
        }
        assert!(counts.iter().all(|count| (800..1_200).contains(count)), "{counts:?}");
        assert_eq!(chance.below(0), 0);
    }

    #[test]
    fn seeds_differ() {
        assert_ne!(Chance::of(1).next(), Chance::of(2).next());
    }
}
