//! Tensor maps: what a TMA copy knows of a tensor in global memory.
//!
//! A device's driver makes 128 opaque bytes of the same facts (`cuTensorMapEncodeTiled`); these bytes are our own, with
//! a magic number and a checksum, so that a kernel that uses anything else is found out.

use super::element::Element;

/// The largest rank of a tensor.
pub const MAX_RANK: usize = 5;

/// `"maskTMA1"`
const MAGIC: u64 = u64::from_le_bytes(*b"maskTMA1");

/// Where in the 128 bytes the checksum stands.
const CHECKSUM_AT: usize = 124;

/// How rows of a box are permuted in shared memory, so that columns fall into different banks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Swizzle {
    /// Not at all.
    #[default]
    None,
    /// 16-byte chunks within 32 bytes.
    B32,
    /// 16-byte chunks within 64 bytes.
    B64,
    /// 16-byte chunks within 128 bytes.
    B128,
    /// 32-byte chunks within 128 bytes.
    B128Atom32,
}

const SWIZZLES: [Swizzle; 5] = [
    Swizzle::None,
    Swizzle::B32,
    Swizzle::B64,
    Swizzle::B128,
    Swizzle::B128Atom32,
];

impl Swizzle {
    /// Where the byte of a shared address lands: chunk bits, exclusive-or the bits from 128 bytes up.
    #[inline]
    pub fn apply(self, address: u32) -> u32 {
        match self {
            Self::None => address,
            Self::B32 => address ^ (address >> 7 & 1) << 4,
            Self::B64 => address ^ (address >> 7 & 3) << 4,
            Self::B128 => address ^ (address >> 7 & 7) << 4,
            Self::B128Atom32 => address ^ (address >> 7 & 3) << 5,
        }
    }

    /// Bytes within which chunks are permuted, the most that a row of a box may have; 0 without.
    pub fn span(self) -> u32 {
        match self {
            Self::None => 0,
            Self::B32 => 32,
            Self::B64 => 64,
            Self::B128 | Self::B128Atom32 => 128,
        }
    }
}

/// What stands in the place of elements outside the tensor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fill {
    /// Zeros.
    #[default]
    Zero,
    /// Not-a-number, of floating-point elements.
    Nan,
}

/// Why a tensor map is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TensorMapError {
    /// Bytes that are not a tensor map of this emulator.
    #[error(
        "these 128 bytes are no tensor map: expected the emulator's encoding, found {found:#018x} at their start"
    )]
    NotAMap {
        /// The first 8 bytes.
        found: u64,
    },
    /// Bytes whose checksum does not fit.
    #[error("tensor map is damaged: expected checksum {expected:#010x}, found {found:#010x}")]
    Damaged {
        /// The checksum of the bytes.
        expected: u32,
        /// The checksum they carry.
        found: u32,
    },
    /// A map at an address that is not a multiple of 64.
    #[error("address of a tensor map: expected a multiple of 64, found {found:#x}")]
    MapAlignment {
        /// The address.
        found: u64,
    },
    /// No dimension, or more than five.
    #[error("rank of a tensor: expected 1 to 5, found {found}")]
    Rank {
        /// The rank.
        found: usize,
    },
    /// Lists whose lengths do not fit the rank.
    #[error("expected {expected} {what} for this rank, found {found}")]
    Lengths {
        /// Which list.
        what: &'static str,
        /// Its length by the rank.
        expected: usize,
        /// Its length.
        found: usize,
    },
    /// A global address that is not a multiple of 16.
    #[error("global address of a tensor: expected a multiple of 16, found {found:#x}")]
    Address {
        /// The address.
        found: u64,
    },
    /// A size of 0, or past 2^32.
    #[error("size of dimension {dimension}: expected 1 to 2^32, found {found}")]
    Size {
        /// The dimension, from the innermost.
        dimension: usize,
        /// The size.
        found: u64,
    },
    /// A stride that is not a multiple of 16 bytes, or not below 2^40.
    #[error(
        "stride of dimension {dimension}: expected a multiple of 16 bytes below 2^40, found {found}"
    )]
    Stride {
        /// The dimension, from the innermost, which has no stride of its own.
        dimension: usize,
        /// The stride.
        found: u64,
    },
    /// A side of the box that is 0 or past 256.
    #[error("box of dimension {dimension}: expected 1 to 256, found {found}")]
    Box {
        /// The dimension, from the innermost.
        dimension: usize,
        /// The side.
        found: u32,
    },
    /// A row of the box that is not a multiple of 16 bytes.
    #[error("row of a box: expected a multiple of 16 bytes, found {found}")]
    Row {
        /// Bytes of the row.
        found: u32,
    },
    /// A row of the box that does not fit the span of its swizzle.
    #[error("row of a box: expected at most the {span} bytes of its swizzle, found {found}")]
    SwizzleSpan {
        /// The span.
        span: u32,
        /// Bytes of the row.
        found: u32,
    },
    /// An element stride of 0, or past 8.
    #[error("element stride of dimension {dimension}: expected 1 to 8, found {found}")]
    ElementStride {
        /// The dimension, from the innermost.
        dimension: usize,
        /// The stride.
        found: u32,
    },
    /// Not-a-number among integers.
    #[error("fill of a tensor of {element:?}: expected zeros, found not-a-number")]
    FillNan {
        /// The type of an element.
        element: Element,
    },
}

/// A tensor in global memory, and the box of it that one copy moves. Dimensions go from the innermost outwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorMap {
    /// Type of an element.
    pub element: Element,
    /// Global address of the first element.
    pub address: u64,
    /// Size of each dimension, in elements.
    pub sizes: Vec<u64>,
    /// Bytes from one index to the next, of each dimension but the innermost.
    pub strides: Vec<u64>,
    /// The box: elements that it spans in each dimension.
    pub box_sizes: Vec<u32>,
    /// Of each dimension, every how many elements one is copied; that of the innermost is ignored.
    pub element_strides: Vec<u32>,
    /// How the box lies in shared memory.
    pub swizzle: Swizzle,
    /// What stands in the place of elements outside the tensor.
    pub fill: Fill,
}

impl TensorMap {
    /// A contiguous tensor, without swizzle, filled with zeros.
    pub fn contiguous(element: Element, address: u64, sizes: &[u64], box_sizes: &[u32]) -> Self {
        let mut stride = u64::from(element.bytes());
        let strides = sizes
            .iter()
            .take(sizes.len().saturating_sub(1))
            .map(|size| {
                stride = stride.saturating_mul(*size);
                stride
            });
        Self {
            element,
            address,
            strides: strides.collect(),
            sizes: sizes.to_vec(),
            box_sizes: box_sizes.to_vec(),
            element_strides: vec![1; sizes.len()],
            swizzle: Swizzle::None,
            fill: Fill::Zero,
        }
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.sizes.len()
    }

    /// Elements of a box along a dimension, which element strides thin out.
    pub fn box_elements(&self, dimension: usize) -> u32 {
        let stride = if dimension == 0 {
            1
        } else {
            self.element_strides[dimension]
        };
        self.box_sizes[dimension].div_ceil(stride)
    }

    /// Bytes that a box takes in shared memory, which is also what its copy reports to an `mbarrier`.
    pub fn box_bytes(&self) -> u32 {
        (0..self.rank())
            .map(|d| self.box_elements(d))
            .product::<u32>()
            * self.element.bytes()
    }

    /// Checks what a device's driver checks.
    ///
    /// # Errors
    /// The first rule that does not hold.
    pub fn validate(&self) -> Result<(), TensorMapError> {
        let rank = self.rank();
        if rank == 0 || rank > MAX_RANK {
            return Err(TensorMapError::Rank { found: rank });
        }
        for (what, expected, found) in [
            ("strides", rank - 1, self.strides.len()),
            ("box sizes", rank, self.box_sizes.len()),
            ("element strides", rank, self.element_strides.len()),
        ] {
            if found != expected {
                return Err(TensorMapError::Lengths {
                    what,
                    expected,
                    found,
                });
            }
        }
        if !self.address.is_multiple_of(16) {
            return Err(TensorMapError::Address {
                found: self.address,
            });
        }
        for (dimension, &found) in self.sizes.iter().enumerate() {
            if found == 0 || found > 1 << 32 {
                return Err(TensorMapError::Size { dimension, found });
            }
        }
        for (i, &found) in self.strides.iter().enumerate() {
            if !found.is_multiple_of(16) || found >= 1 << 40 {
                return Err(TensorMapError::Stride {
                    dimension: i + 1,
                    found,
                });
            }
        }
        for (dimension, &found) in self.box_sizes.iter().enumerate() {
            if found == 0 || found > 256 {
                return Err(TensorMapError::Box { dimension, found });
            }
        }
        for (dimension, &found) in self.element_strides.iter().enumerate() {
            if found == 0 || found > 8 {
                return Err(TensorMapError::ElementStride { dimension, found });
            }
        }
        let row = self.box_sizes[0] * self.element.bytes();
        if !row.is_multiple_of(16) {
            return Err(TensorMapError::Row { found: row });
        }
        if self.swizzle != Swizzle::None && row > self.swizzle.span() {
            return Err(TensorMapError::SwizzleSpan {
                span: self.swizzle.span(),
                found: row,
            });
        }
        if self.fill == Fill::Nan && !self.element.is_float() {
            return Err(TensorMapError::FillNan {
                element: self.element,
            });
        }
        Ok(())
    }

    /// The bytes that a kernel of the emulator takes as a `CUtensorMap`.
    ///
    /// # Errors
    /// If the map is not valid.
    pub fn to_bytes(&self) -> Result<[u8; 128], TensorMapError> {
        self.validate()?;
        let mut bytes = [0; 128];
        bytes[0..8].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.address.to_le_bytes());
        for d in 0..self.rank() {
            bytes[16 + 4 * d..20 + 4 * d]
                .copy_from_slice(&((self.sizes[d] - 1) as u32).to_le_bytes());
            bytes[76 + d] = (self.box_sizes[d] - 1) as u8;
            bytes[81 + d] = self.element_strides[d] as u8;
        }
        for (d, stride) in self.strides.iter().enumerate() {
            bytes[36 + 8 * d..44 + 8 * d].copy_from_slice(&stride.to_le_bytes());
        }
        bytes[86] = self.rank() as u8;
        bytes[87] = self.element.code();
        bytes[88] = SWIZZLES
            .iter()
            .position(|&s| s == self.swizzle)
            .expect("every swizzle is listed") as u8;
        bytes[89] = u8::from(self.fill == Fill::Nan);
        let sum = checksum(&bytes[..CHECKSUM_AT]);
        bytes[CHECKSUM_AT..].copy_from_slice(&sum.to_le_bytes());
        Ok(bytes)
    }

    /// The map that [`TensorMap::to_bytes`] made bytes of.
    ///
    /// # Errors
    /// If they are something else.
    pub fn from_bytes(bytes: &[u8; 128]) -> Result<Self, TensorMapError> {
        let u32_at = |i: usize| u32::from_le_bytes(std::array::from_fn(|k| bytes[i + k]));
        let u64_at = |i: usize| u64::from_le_bytes(std::array::from_fn(|k| bytes[i + k]));
        if u64_at(0) != MAGIC {
            return Err(TensorMapError::NotAMap { found: u64_at(0) });
        }
        let (expected, found) = (checksum(&bytes[..CHECKSUM_AT]), u32_at(CHECKSUM_AT));
        let rank = usize::from(bytes[86]);
        let element = Element::from_code(bytes[87]);
        let swizzle = SWIZZLES.get(usize::from(bytes[88])).copied();
        let (Some(element), Some(swizzle), true, true) =
            (element, swizzle, rank <= MAX_RANK, expected == found)
        else {
            return Err(TensorMapError::Damaged { expected, found });
        };
        let map = Self {
            element,
            address: u64_at(8),
            sizes: (0..rank)
                .map(|d| u64::from(u32_at(16 + 4 * d)) + 1)
                .collect(),
            strides: (0..rank.saturating_sub(1))
                .map(|d| u64_at(36 + 8 * d))
                .collect(),
            box_sizes: (0..rank).map(|d| u32::from(bytes[76 + d]) + 1).collect(),
            element_strides: (0..rank).map(|d| u32::from(bytes[81 + d])).collect(),
            swizzle,
            fill: if bytes[89] == 1 {
                Fill::Nan
            } else {
                Fill::Zero
            },
        };
        map.validate()?;
        Ok(map)
    }
}

/// FNV-1a.
fn checksum(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |sum: u32, &byte| {
        (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The chunk, of each 128-byte line, in which each 16 bytes of that line land.
    fn chunks(swizzle: Swizzle, lines: u32) -> Vec<String> {
        let chunk = |line: u32, i: u32| {
            char::from(b'0' + (swizzle.apply(line * 128 + i * 16) % 128 / 16) as u8)
        };
        (0..lines)
            .map(|line| (0..8).map(|i| chunk(line, i)).collect())
            .collect()
    }

    #[test]
    fn swizzles_are_those_of_the_manual() {
        assert_eq!(
            chunks(Swizzle::B128, 9),
            [
                "01234567", "10325476", "23016745", "32107654", "45670123", "54761032", "67452301",
                "76543210", "01234567"
            ]
        );
        assert_eq!(
            chunks(Swizzle::B64, 5),
            ["01234567", "10325476", "23016745", "32107654", "01234567"]
        );
        assert_eq!(
            chunks(Swizzle::B32, 3),
            ["01234567", "10325476", "01234567"]
        );
        assert_eq!(
            chunks(Swizzle::B128Atom32, 5),
            ["01234567", "23016745", "45670123", "67452301", "01234567"]
        );
        assert_eq!(chunks(Swizzle::None, 2), ["01234567", "01234567"]);
    }

    fn map() -> TensorMap {
        TensorMap {
            strides: vec![256, 4096],
            element_strides: vec![1, 2, 1],
            swizzle: Swizzle::B128,
            fill: Fill::Nan,
            ..TensorMap::contiguous(Element::Bf16, 0x1000, &[100, 1 << 32, 3], &[64, 256, 1])
        }
    }

    #[test]
    fn bytes_come_back() {
        let m = map();
        assert_eq!(TensorMap::from_bytes(&m.to_bytes().unwrap()), Ok(m.clone()));
        assert_eq!(m.box_bytes(), 64 * 128 * 2);
        for rank in 1..=5 {
            let m = TensorMap::contiguous(Element::U8, 16, &[16; 5][..rank], &[16; 5][..rank]);
            assert_eq!(TensorMap::from_bytes(&m.to_bytes().unwrap()), Ok(m));
        }
    }

    #[test]
    fn other_bytes_do_not() {
        let mut bytes = map().to_bytes().unwrap();
        bytes[8] ^= 16;
        assert!(matches!(
            TensorMap::from_bytes(&bytes),
            Err(TensorMapError::Damaged { .. })
        ));
        assert!(matches!(
            TensorMap::from_bytes(&[7; 128]),
            Err(TensorMapError::NotAMap { .. })
        ));
    }

    #[track_caller]
    fn refused(change: impl Fn(&mut TensorMap)) -> TensorMapError {
        let mut m = map();
        change(&mut m);
        m.to_bytes().unwrap_err()
    }

    #[test]
    fn what_a_driver_refuses_is_refused() {
        use TensorMapError as E;
        assert_eq!(refused(|m| m.address = 8), E::Address { found: 8 });
        assert_eq!(
            refused(|m| m.strides[1] = 8),
            E::Stride {
                dimension: 2,
                found: 8
            }
        );
        assert_eq!(
            refused(|m| m.sizes[0] = 0),
            E::Size {
                dimension: 0,
                found: 0
            }
        );
        assert_eq!(
            refused(|m| m.box_sizes[1] = 257),
            E::Box {
                dimension: 1,
                found: 257
            }
        );
        assert_eq!(refused(|m| m.box_sizes[0] = 65), E::Row { found: 130 });
        assert_eq!(
            refused(|m| m.box_sizes[0] = 72),
            E::SwizzleSpan {
                span: 128,
                found: 144
            }
        );
        assert_eq!(
            refused(|m| m.element_strides[1] = 9),
            E::ElementStride {
                dimension: 1,
                found: 9
            }
        );
        assert_eq!(
            refused(|m| m.element = Element::U16),
            E::FillNan {
                element: Element::U16
            }
        );
        assert_eq!(refused(|m| m.sizes.clear()), E::Rank { found: 0 });
        assert_eq!(
            refused(|m| m.strides.clear()),
            E::Lengths {
                what: "strides",
                expected: 2,
                found: 0
            }
        );
    }
}
