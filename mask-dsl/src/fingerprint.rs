//! What a block mask was built from: a rule and the captured values, as a short hash.

use crate::bind::BoundRule;
use crate::capture::{BufferData, CaptureValue, CapturedBuffer};

/// A hash of a rule's meaning and of the values that it captured.
///
/// A block mask carries the one of the rule that it was built from, so that a mask of other rules, or of yesterday's
/// documents, is refused instead of believed. It guards against mistakes, not against forgery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint([u64; 2]);

impl Fingerprint {
    /// The fingerprint of a bound rule. Scalars in the slots of which `may_change` holds are left out.
    pub fn of(bound: &BoundRule, may_change: impl Fn(usize) -> bool) -> Self {
        let mut hash = Hasher::default();
        for word in bound.rule().identity().chunks_exact(8) {
            hash.add(u64::from_le_bytes(
                word.try_into().expect("a chunk has eight bytes"),
            ));
        }
        for (slot, value) in bound.bindings().values.iter().enumerate() {
            match value {
                CaptureValue::Scalar(_) if may_change(slot) => hash.add(0),
                CaptureValue::Scalar(value) => hash.add(value.key().1),
                CaptureValue::Buffer(buffer) => hash.add_buffer(buffer),
            }
        }
        for dim in &bound.bindings().dims {
            hash.add(*dim as u64);
        }
        hash.finish()
    }

    /// The two words, to be stored.
    pub fn to_words(self) -> [u64; 2] {
        self.0
    }

    /// A fingerprint that was stored.
    pub fn from_words(words: [u64; 2]) -> Self {
        Self(words)
    }
}

/// Two multiplicative hashes side by side: millions of captured values take well under a millisecond.
struct Hasher([u64; 2]);

impl Default for Hasher {
    fn default() -> Self {
        Self([0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344])
    }
}

impl Hasher {
    fn add(&mut self, word: u64) {
        let [a, b] = self.0;
        self.0 = [
            (a ^ word)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .rotate_left(29),
            (b.rotate_left(23) ^ word).wrapping_mul(0xc2b2_ae3d_27d4_eb4f),
        ];
    }

    fn add_buffer(&mut self, buffer: &CapturedBuffer) {
        for extent in buffer.shape() {
            self.add(*extent as u64);
        }
        // The one case that is large and common: a contiguous row of 32-bit integers.
        if let (BufferData::I32(v), [1], [len]) = (buffer.data(), buffer.strides(), buffer.shape())
        {
            let v = &v[buffer.offset()..buffer.offset() + len];
            let mut pairs = v.chunks_exact(2);
            for pair in &mut pairs {
                self.add(u64::from(pair[0] as u32) | u64::from(pair[1] as u32) << 32);
            }
            for last in pairs.remainder() {
                self.add(u64::from(*last as u32));
            }
            return;
        }
        buffer.for_each_element(|at| self.add(buffer.data().load(at).key().1));
    }

    fn finish(self) -> Fingerprint {
        let mix = |mut word: u64| {
            word = (word ^ (word >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
            word ^ (word >> 32)
        };
        Fingerprint(self.0.map(mix))
    }
}
