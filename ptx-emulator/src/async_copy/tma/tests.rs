//! Boxes of the TMA unit, piece by piece.

use super::*;

/// Runs a load on a small model of both memories; global byte `i` holds `i as u8`.
fn load(map: &TensorMap, coordinates: &[i32], shared: u32, len: usize) -> Vec<u8> {
    let mut memory = vec![0xee; len];
    for p in box_pieces(map, coordinates, shared).unwrap() {
        let bytes = match p.global {
            Some(g) => (g..g + u64::from(p.len)).map(|i| i as u8).collect(),
            None => fill(map, p.len),
        };
        memory[p.shared as usize..][..bytes.len()].copy_from_slice(&bytes);
    }
    memory
}

/// The same, element by element, as the manual has it.
fn load_slowly(map: &TensorMap, coordinates: &[i32], shared: u32, len: usize) -> Vec<u8> {
    let mut memory = vec![0xee; len];
    let size = map.element.bytes();
    let counts: Vec<u32> = (0..map.rank()).map(|d| map.box_elements(d)).collect();
    for i in 0..counts.iter().product() {
        let (mut rest, mut address, mut inside) = (i, map.address, true);
        for d in 0..map.rank() {
            let step = if d == 0 { 1 } else { map.element_strides[d] };
            let index = i64::from(coordinates[d]) + i64::from(rest % counts[d] * step);
            rest /= counts[d];
            inside &= 0 <= index && index < map.sizes[d] as i64;
            let stride = if d == 0 {
                u64::from(size)
            } else {
                map.strides[d - 1]
            };
            address = address.wrapping_add_signed(index.wrapping_mul(stride as i64));
        }
        for b in 0..size {
            let at = map.swizzle.apply(shared + i * size + b);
            let nan = map.element.nan();
            memory[at as usize] = match (inside, map.fill) {
                (true, _) => (address + u64::from(b)) as u8,
                (false, Fill::Zero) => 0,
                (false, Fill::Nan) => nan[b as usize],
            };
        }
    }
    memory
}

#[track_caller]
fn check(map: &TensorMap, coordinates: &[i32], shared: u32) {
    map.validate().unwrap();
    let len = (shared + map.box_bytes() + 128) as usize;
    assert_eq!(
        load(map, coordinates, shared, len),
        load_slowly(map, coordinates, shared, len),
        "{map:?} {coordinates:?}"
    );
}

#[test]
fn a_box_of_each_rank_inside_and_at_every_edge() {
    let sizes = [40, 7, 5, 4, 3];
    let boxes = [16, 3, 2, 3, 2];
    for rank in 1..=5 {
        let mut map = TensorMap::contiguous(Element::U16, 0x1000, &sizes[..rank], &boxes[..rank]);
        for stride in &mut map.strides {
            *stride = stride.next_multiple_of(16) + 16;
        }
        check(&map, &[8, 1, 1, 1, 1][..rank], 128);
        check(&map, &[-3, -1, -1, -2, -1][..rank], 0);
        check(&map, &[33, 5, 4, 2, 2][..rank], 256);
        check(&map, &[100, 0, 0, 0, 0][..rank], 0);
        check(&map, &[i32::MIN, 0, 0, 0, 0][..rank], 0);
        check(&map, &[0, 0, 0, 0, 0][..rank], 0);
    }
}

#[test]
fn swizzles_lie_on_the_bits_of_the_shared_address() {
    for (swizzle, columns) in [
        (Swizzle::B128, 64),
        (Swizzle::B64, 32),
        (Swizzle::B32, 16),
        (Swizzle::B128Atom32, 64),
        (Swizzle::B128, 32),
    ] {
        let map = TensorMap {
            swizzle,
            ..TensorMap::contiguous(Element::Bf16, 0, &[64, 40], &[columns, 16])
        };
        for shared in [0, 128, 384, 1024] {
            check(&map, &[0, 0], shared);
            check(&map, &[-5, 30], shared);
        }
    }
    // By hand: row 1 of a 128-byte box begins with its second chunk, and row 9 as well.
    let map = TensorMap {
        swizzle: Swizzle::B128,
        ..TensorMap::contiguous(Element::U8, 0, &[128, 64], &[128, 16])
    };
    let got = load(&map, &[0, 0], 1024, 4096);
    assert_eq!(
        [got[1024 + 128], got[1024 + 128 + 16], got[1024 + 9 * 128]],
        [128 + 16, 128, 128 + 16]
    );
}

#[test]
fn element_strides_thin_out_all_but_the_innermost_dimension() {
    let map = TensorMap {
        element_strides: vec![2, 3, 2],
        ..TensorMap::contiguous(Element::U32, 0x100, &[8, 20, 9], &[4, 7, 4])
    };
    assert_eq!(
        (
            map.box_elements(0),
            map.box_elements(1),
            map.box_elements(2)
        ),
        (4, 3, 2)
    );
    check(&map, &[1, 2, 3], 0);
    check(&map, &[1, 16, 7], 0);
}

#[test]
fn nan_fills_floats() {
    for element in [Element::F16, Element::Bf16, Element::F32, Element::F64] {
        let map = TensorMap {
            fill: Fill::Nan,
            ..TensorMap::contiguous(element, 0, &[16, 4], &[8, 4])
        };
        check(&map, &[-3, 2], 0);
    }
}

#[test]
fn pieces_that_join_are_joined() {
    let map = TensorMap::contiguous(Element::U8, 0, &[64, 64], &[64, 64]);
    assert_eq!(
        box_pieces(&map, &[0, 0], 0),
        Ok(vec![Piece {
            shared: 0,
            global: Some(0),
            len: 4096
        }])
    );
    assert_eq!(
        box_pieces(&map, &[0, 64], 0),
        Ok(vec![Piece {
            shared: 0,
            global: None,
            len: 4096
        }])
    );
    let map = TensorMap {
        swizzle: Swizzle::B64,
        ..map
    };
    let pieces = box_pieces(&map, &[0, 0], 0).unwrap();
    assert_eq!(
        shared_ranges(&pieces, true),
        [Range {
            start: 0,
            len: 4096
        }]
    );
    let half = box_pieces(&map, &[0, 32], 0).unwrap();
    assert_eq!(
        shared_ranges(&half, true),
        [Range {
            start: 0,
            len: 2048
        }]
    );
    assert_eq!(
        shared_ranges(&half, false),
        [Range {
            start: 0,
            len: 4096
        }]
    );
}

#[test]
fn operands_are_checked() {
    let map = TensorMap::contiguous(Element::U8, 0, &[64, 64], &[64, 64]);
    assert_eq!(
        box_pieces(&map, &[0], 0),
        Err(TmaError::Rank {
            expected: 2,
            found: 1
        })
    );
    assert_eq!(
        box_pieces(&map, &[0, 0], 64),
        Err(TmaError::SharedAlignment {
            expected: 128,
            found: 64
        })
    );
    assert_eq!(
        linear_piece(16, 32, 48),
        Ok(Piece {
            shared: 16,
            global: Some(32),
            len: 48
        })
    );
    assert_eq!(
        linear_piece(8, 32, 48),
        Err(TmaError::SharedAlignment {
            expected: 16,
            found: 8
        })
    );
    assert_eq!(
        linear_piece(16, 40, 48),
        Err(TmaError::GlobalAlignment { found: 40 })
    );
    assert_eq!(linear_piece(16, 32, 40), Err(TmaError::Size { found: 40 }));
}
