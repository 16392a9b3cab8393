//! Copies of the TMA unit: boxes of a tensor, and runs of bytes.

use super::element::{Element, ReduceOp};
use super::tensor_map::{Fill, Swizzle, TensorMap};
use crate::check::race::Range;

#[cfg(test)]
mod tests;

/// Why a copy cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TmaError {
    /// A number of coordinates that is not the rank of the tensor.
    #[error("coordinates of a tensor copy: expected {expected}, found {found}")]
    Rank {
        /// Rank of the tensor.
        expected: usize,
        /// Number of coordinates.
        found: usize,
    },
    /// A shared address of the wrong alignment.
    #[error("shared address of a bulk copy: expected a multiple of {expected}, found {found:#x}")]
    SharedAlignment {
        /// The alignment.
        expected: u32,
        /// The address.
        found: u32,
    },
    /// A global address that is not a multiple of 16.
    #[error("global address of a bulk copy: expected a multiple of 16, found {found:#x}")]
    GlobalAlignment {
        /// The address.
        found: u64,
    },
    /// A size that is not a multiple of 16.
    #[error("size of a bulk copy: expected a multiple of 16 bytes, found {found}")]
    Size {
        /// The size.
        found: u32,
    },
    /// A reduction that the elements do not take.
    #[error("reduction {op:?} does not take elements of {element:?}")]
    Reduction {
        /// The operation.
        op: ReduceOp,
        /// Type of an element.
        element: Element,
    },
}

/// A run of bytes that lies together in shared memory, and in global memory if it lies in the tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Shared address.
    pub shared: u32,
    /// Global address; none outside the tensor, where a load fills and a store does nothing.
    pub global: Option<u64>,
    /// Number of bytes.
    pub len: u32,
}

/// The pieces of the box at `coordinates`, whose first byte lies at `shared`; those that join are joined.
///
/// # Errors
/// If the number of coordinates or the alignment of `shared` is wrong.
pub fn box_pieces(
    map: &TensorMap,
    coordinates: &[i32],
    shared: u32,
) -> Result<Vec<Piece>, TmaError> {
    if coordinates.len() != map.rank() {
        return Err(TmaError::Rank {
            expected: map.rank(),
            found: coordinates.len(),
        });
    }
    if !shared.is_multiple_of(128) {
        return Err(TmaError::SharedAlignment {
            expected: 128,
            found: shared,
        });
    }
    let mut pieces = Vec::new();
    let size = map.element.bytes();
    let row = map.box_sizes[0] * size;
    let rows: u32 = (1..map.rank()).map(|d| map.box_elements(d)).product();
    for r in 0..rows {
        let at = shared.wrapping_add(r * row);
        let first = i64::from(coordinates[0]);
        match row_address(map, coordinates, r) {
            Some(address) => {
                // Elements of the row that lie in the tensor: none, or a run of them.
                let begin = (-first).clamp(0, i64::from(map.box_sizes[0]));
                let end = (map.sizes[0] as i64 - first).clamp(begin, i64::from(map.box_sizes[0]));
                let (begin, end) = (begin as u32 * size, end as u32 * size);
                let global = address.wrapping_add_signed(first * i64::from(size));
                put(&mut pieces, map.swizzle, at, None, begin);
                put(
                    &mut pieces,
                    map.swizzle,
                    at + begin,
                    Some(global.wrapping_add(u64::from(begin))),
                    end - begin,
                );
                put(&mut pieces, map.swizzle, at + end, None, row - end);
            }
            None => put(&mut pieces, map.swizzle, at, None, row),
        }
    }
    Ok(pieces)
}

/// The address of index 0 of the innermost dimension in row `r` of a box; none if the row lies outside the tensor.
fn row_address(map: &TensorMap, coordinates: &[i32], r: u32) -> Option<u64> {
    let mut rest = r;
    let mut address = map.address;
    for (d, &coordinate) in coordinates.iter().enumerate().skip(1) {
        let n = map.box_elements(d);
        let index = i64::from(coordinate) + i64::from(rest % n) * i64::from(map.element_strides[d]);
        rest /= n;
        if index < 0 || index >= map.sizes[d] as i64 {
            return None;
        }
        address = address.wrapping_add((index as u64).wrapping_mul(map.strides[d - 1]));
    }
    Some(address)
}

/// Adds a run, cut at 16 bytes where it is swizzled.
fn put(pieces: &mut Vec<Piece>, swizzle: Swizzle, shared: u32, global: Option<u64>, len: u32) {
    let mut done = 0;
    while done < len {
        let at = shared + done;
        let n = if swizzle == Swizzle::None {
            len
        } else {
            (16 - at % 16).min(len - done)
        };
        let piece = Piece {
            shared: swizzle.apply(at),
            global: global.map(|g| g.wrapping_add(u64::from(done))),
            len: n,
        };
        done += n;
        if let Some(last) = pieces.last_mut() {
            let follows = match (last.global, piece.global) {
                (Some(a), Some(b)) => a.wrapping_add(u64::from(last.len)) == b,
                (None, None) => true,
                (Some(_), None) | (None, Some(_)) => false,
            };
            if follows && last.shared + last.len == piece.shared {
                last.len += n;
                continue;
            }
        }
        pieces.push(piece);
    }
}

/// The one piece of a copy of `size` bytes that are not a tensor.
///
/// # Errors
/// If an address or the size is not a multiple of 16.
pub fn linear_piece(shared: u32, global: u64, size: u32) -> Result<Piece, TmaError> {
    check_linear(shared, size)?;
    if !global.is_multiple_of(16) {
        return Err(TmaError::GlobalAlignment { found: global });
    }
    Ok(Piece {
        shared,
        global: Some(global),
        len: size,
    })
}

/// Checks the shared side of a copy of `size` bytes that are not a tensor.
///
/// # Errors
/// If the address or the size is not a multiple of 16.
pub fn check_linear(shared: u32, size: u32) -> Result<(), TmaError> {
    if !size.is_multiple_of(16) {
        return Err(TmaError::Size { found: size });
    }
    if !shared.is_multiple_of(16) {
        return Err(TmaError::SharedAlignment {
            expected: 16,
            found: shared,
        });
    }
    Ok(())
}

/// The shared memory that pieces touch, for a [`crate::check::race::Shadow`]: runs in order, joined across fills. With
/// `only_inside`, what lies outside the tensor is left out, which a store does not read.
pub fn shared_ranges(pieces: &[Piece], only_inside: bool) -> Vec<Range> {
    let mut ranges: Vec<Range> = Vec::new();
    let mut sorted: Vec<_> = pieces
        .iter()
        .filter(|p| p.len != 0 && (!only_inside || p.global.is_some()))
        .collect();
    sorted.sort_unstable_by_key(|p| p.shared);
    for piece in sorted {
        match ranges.last_mut() {
            Some(last) if last.start + last.len == piece.shared => last.len += piece.len,
            _ => ranges.push(Range {
                start: piece.shared,
                len: piece.len,
            }),
        }
    }
    ranges
}

/// The bytes that stand in the place of a piece outside the tensor.
pub fn fill(map: &TensorMap, len: u32) -> Vec<u8> {
    match map.fill {
        Fill::Zero => vec![0; len as usize],
        Fill::Nan => map
            .element
            .nan()
            .iter()
            .copied()
            .cycle()
            .take(len as usize)
            .collect(),
    }
}
