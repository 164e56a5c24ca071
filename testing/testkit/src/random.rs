//! Random choices that can be repeated.

use std::{
    hash::{BuildHasher, RandomState},
    time::Duration,
};

/// Variable with the seed of a run that is to be repeated.
const VARIABLE: &str = "PETSTORE_TEST_SEED";

/// Pseudo-random numbers of a seed (splitmix64).
#[derive(Clone, Debug)]
pub struct Random {
    seed: u64,
    state: u64,
}

impl Random {
    /// Returns the numbers of the seed in `PETSTORE_TEST_SEED`, and of a new one without it. Print the seed,
    /// and name it in every failure.
    pub fn of_this_run() -> Self {
        let given = std::env::var(VARIABLE).ok();
        let seed =
            given.map_or_else(|| RandomState::new().hash_one(0_u8), |seed| seed.parse().expect(VARIABLE));
        Self { seed, state: seed }
    }

    /// Returns other numbers, which this seed repeats too.
    pub fn fork(&mut self) -> Self {
        let state = self.below(usize::MAX) as u64;
        Self { state, ..*self }
    }

    /// Returns the seed that repeats these numbers.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Returns a number below the bound.
    pub fn below(&mut self, bound: usize) -> usize {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut number = self.state;
        number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((number ^ (number >> 31)) % bound as u64).expect("below the bound")
    }

    /// Returns one of these.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        *choices.get(self.below(choices.len())).expect("one of them")
    }

    /// Returns a time from `least` to `most`, in milliseconds.
    pub fn between(&mut self, least: Duration, most: Duration) -> Duration {
        let span = usize::try_from(most.saturating_sub(least).as_millis()).expect("a short time");
        least + Duration::from_millis(self.below(span + 1) as u64)
    }
}
