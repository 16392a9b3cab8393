//! Matrix descriptors of `wgmma`: where in shared memory the elements of an operand stand.
use std::ops::Range;

/// How 16-byte chunks are permuted within a pattern of 8 rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Swizzle {
    /// Not at all; core matrices of 8 x 16 bytes stand alone
    None,
    /// Rows of 32 bytes, pattern of 256
    Bytes32,
    /// Rows of 64 bytes, pattern of 512
    Bytes64,
    /// Rows of 128 bytes, pattern of 1024
    Bytes128,
}

impl Swizzle {
    /// Bytes of a row of the pattern; 16 without swizzle.
    pub const fn row_bytes(self) -> u32 {
        match self {
            Self::None => 16,
            Self::Bytes32 => 32,
            Self::Bytes64 => 64,
            Self::Bytes128 => 128,
        }
    }

    /// Exchanges the 16-byte chunk of an address for the one where the swizzle puts it.
    ///
    /// Address bits 4 to 6 are xored with bits 7 to 9, as many as the row has chunks: it is the address that counts, not the offset in
    /// the matrix. `first_row` is what bits 7 to 9 are where a pattern begins, 0 if patterns are aligned to their size.
    pub const fn apply(self, address: u32, first_row: u32) -> u32 {
        let chunks = self.row_bytes() / 16;
        let row = (address >> 7).wrapping_sub(first_row) & (chunks - 1);
        address ^ (row << 4)
    }
}

/// Which index of a matrix runs along contiguous bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Major {
    /// Elements of one row of A, or of one column of B, are neighbours: a transpose immediate of 0
    K,
    /// Elements of one column of A, or of one row of B, are neighbours: a transpose immediate of 1
    Mn,
}

/// A decoded matrix descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Descriptor {
    /// Shared-memory address of the first element, a multiple of 16.
    pub start: u32,
    /// Leading dimension byte offset.
    pub leading: u32,
    /// Stride dimension byte offset.
    pub stride: u32,
    /// Base offset: bits 7 to 9 of the address where a swizzle pattern begins.
    pub base_offset: u32,
    /// Swizzle.
    pub swizzle: Swizzle,
}

impl Descriptor {
    /// Takes the 64 bits apart. Each of the three addresses is kept without its lowest 4 bits, in 14.
    pub fn decode(bits: u64) -> Self {
        let address = |shift: u32| ((bits >> shift) as u32 & 0x3fff) << 4;
        Self {
            start: address(0),
            leading: address(16),
            stride: address(32),
            base_offset: (bits >> 49) as u32 & 7,
            swizzle: match bits >> 62 {
                0 => Swizzle::None,
                1 => Swizzle::Bytes128,
                2 => Swizzle::Bytes64,
                _ => Swizzle::Bytes32,
            },
        }
    }

    /// The reverse of [`Descriptor::decode`].
    pub fn encode(&self) -> u64 {
        let field = |address: u32| u64::from((address & 0x3_ffff) >> 4);
        let swizzle = match self.swizzle {
            Swizzle::None => 0,
            Swizzle::Bytes128 => 1,
            Swizzle::Bytes64 => 2,
            Swizzle::Bytes32 => 3,
        };
        field(self.start)
            | field(self.leading) << 16
            | field(self.stride) << 32
            | u64::from(self.base_offset & 7) << 49
            | swizzle << 62
    }

    /// The address of 16 bytes of a K-major operand: those of row (of A) or column (of B) `mn` that begin `16 chunk` bytes along `k`.
    pub fn k_major(&self, mn: u32, chunk: u32) -> u32 {
        let along_k = match self.swizzle {
            Swizzle::None => chunk * self.leading,
            Swizzle::Bytes32 | Swizzle::Bytes64 | Swizzle::Bytes128 => chunk * 16,
        };
        self.place(mn % 8 * self.swizzle.row_bytes() + mn / 8 * self.stride + along_k)
    }

    /// The address of 16 bytes of an MN-major operand: those at `k` that begin `16 chunk` bytes along rows (of A) or columns (of B).
    pub fn mn_major(&self, k: u32, chunk: u32) -> u32 {
        let row_bytes = self.swizzle.row_bytes();
        let chunks = row_bytes / 16;
        // Without swizzle the two offsets change places.
        let (between_patterns, between_octets) = match self.swizzle {
            Swizzle::None => (self.stride, self.leading),
            Swizzle::Bytes32 | Swizzle::Bytes64 | Swizzle::Bytes128 => (self.leading, self.stride),
        };
        self.place(
            chunk % chunks * 16
                + chunk / chunks * between_patterns
                + k % 8 * row_bytes
                + k / 8 * between_octets,
        )
    }

    fn place(&self, offset: u32) -> u32 {
        self.swizzle
            .apply(self.start.wrapping_add(offset), self.base_offset)
    }

    /// Calls `visit` with the address of every 16 bytes that an operand consists of: `mn` rows or columns by `k` elements of `bytes`.
    pub fn chunks(&self, major: Major, mn: u32, k: u32, bytes: u32, mut visit: impl FnMut(u32)) {
        match major {
            Major::K => (0..mn).for_each(|mn| {
                (0..k * bytes / 16).for_each(|chunk| visit(self.k_major(mn, chunk)));
            }),
            Major::Mn => (0..k).for_each(|k| {
                (0..mn * bytes / 16).for_each(|chunk| visit(self.mn_major(k, chunk)));
            }),
        }
    }

    /// The bytes that an operand consists of, as ranges in order that neither touch nor overlap.
    pub fn footprint(&self, major: Major, mn: u32, k: u32, bytes: u32) -> Vec<Range<u32>> {
        let mut starts = Vec::new();
        self.chunks(major, mn, k, bytes, |address| starts.push(address));
        starts.sort_unstable();
        let mut ranges: Vec<Range<u32>> = Vec::new();
        for start in starts {
            match ranges.last_mut() {
                Some(last) if start <= last.end => last.end = last.end.max(start + 16),
                _ => ranges.push(start..start + 16),
            }
        }
        ranges
    }
}

#[cfg(test)]
pub(super) mod tests;
