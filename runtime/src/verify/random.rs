//! Repeatable numbers: the same seed and stream give the same checks.

/// `SplitMix64` (Steele, Lea and Flood 2014), which needs no warming up and has no bad seed.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Random {
    /// Numbers for one purpose: streams of one seed do not depend on one another.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        Self(mix(seed ^ mix(stream.wrapping_add(STEP))))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }

    /// A number below `n`, or 0 if `n` is 0. The bias of the product is below 2^-32 for the ranges used here.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }

    /// A number of `low..=high`.
    pub(crate) fn within(&mut self, low: i64, high: i64) -> i64 {
        let span = high.wrapping_sub(low) as u64;
        match span.checked_add(1) {
            Some(n) => low.wrapping_add(self.below(n) as i64),
            None => self.next() as i64,
        }
    }

    /// A float of `-4..4`.
    pub(crate) fn small_float(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1 << 21) as f32 - 4.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_in_their_ranges_and_repeat() {
        let (mut a, mut b) = (Random::new(7, 1), Random::new(7, 1));
        for n in 1..2000 {
            assert!(a.below(n) < n);
            b.below(n);
            let float = a.small_float();
            assert!((-4.0..4.0).contains(&float));
            assert_eq!(float, b.small_float());
            assert!((-3..=5).contains(&a.within(-3, 5)));
            b.within(-3, 5);
        }
        assert_ne!(Random::new(7, 1).next(), Random::new(7, 2).next());
        assert_eq!(a.below(0), 0);
        assert_eq!(a.within(4, 4), 4);
        a.within(i64::MIN, i64::MAX);
    }
}
