//! Changed copies of inputs. The same seed makes the same ones.

/// Places where numbers change their size or their sign, and bytes that mean something to many grammars.
const BYTES: [u8; 24] =
    [0, 1, 9, 10, 13, 32, 34, 37, 38, 44, 45, 46, 47, 48, 57, 58, 61, 92, 127, 128, 191, 192, 254, 255];

/// A sequence of numbers (`SplitMix64`).
pub(super) struct Dice(u64);

impl Dice {
    pub(super) const fn of(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, or zero.
    fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).unwrap().max(1);
        usize::try_from(self.next() % bound).unwrap()
    }

    fn one_of<'a, T: ?Sized>(&mut self, all: &[&'a T]) -> &'a T {
        all[self.below(all.len())]
    }

    /// A copy of one of these inputs with a few changes, no longer than `longest`.
    pub(super) fn changed(&mut self, corpus: &[Vec<u8>], words: &[&str], longest: usize) -> Vec<u8> {
        let mut input = corpus.get(self.below(corpus.len())).cloned().unwrap_or_default();
        for _ in 0..=self.below(4) {
            self.change(&mut input, corpus, words);
        }
        input.truncate(longest);
        input
    }

    fn change(&mut self, input: &mut Vec<u8>, corpus: &[Vec<u8>], words: &[&str]) {
        let at = self.below(input.len() + 1);
        let end = (at + 1 + self.below(16)).min(input.len());
        match self.below(10) {
            0 if at < input.len() => input[at] ^= 1 << self.below(8),
            1 if at < input.len() => input[at] = BYTES[self.below(BYTES.len())],
            2 => input.insert(at, BYTES[self.below(BYTES.len())]),
            3 if at < end => drop(input.drain(at..end)),
            4 if at < end => {
                let piece = input[at..end].to_vec();
                let times = 1 + self.below(8);
                input.splice(at..at, piece.repeat(times));
            }
            5 if at < input.len() => drop(input.splice(at..=at, self.next().to_string().into_bytes())),
            6 => {
                let other = corpus.get(self.below(corpus.len())).cloned().unwrap_or_default();
                let from = self.below(other.len() + 1);
                input.truncate(at);
                input.extend_from_slice(&other[from..]);
            }
            7 if at < end => drop(input.splice(at..end, self.one_of(words).bytes())),
            _ => drop(input.splice(at..at, self.one_of(words).bytes())),
        }
    }
}
