//! Chance that is the same in every run.

/// xorshift64*: the histories are the same in every run and on every machine.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % sides
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        let index = self.roll(u64::try_from(from.len()).unwrap());
        &from[usize::try_from(index).unwrap()]
    }
}
