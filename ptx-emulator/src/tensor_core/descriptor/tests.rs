//! Addresses against the ISA's table of canonical layouts, written as the table writes them, and against its worked examples.
use super::*;

/// `Swizzle<bits, 4, 3>` as `CuTe` defines it, on byte addresses.
pub(in crate::tensor_core) fn cute_swizzle(bits: u32, address: u32) -> u32 {
    address ^ ((address >> 3) & (((1 << bits) - 1) << 4))
}

/// The byte offset of element `(mn, k)` in the canonical layout, with offsets in bytes as in the descriptor.
///
/// The table's `T` is the number of elements in 16 bytes and `s` the number of 16-byte chunks in a row of the pattern:
/// - K-major, none: `((8,m),(T,2k)):((1T,SBO),(1,LBO))`; swizzled: `((8,m),(T,2k)):((sT,SBO),(1,T))`
/// - MN-major, none: `((T,1,m),(8,k)):((1,T,SBO),(1T,LBO))`; swizzled: `((T,s,m),(8,k)):((1,T,LBO),(sT,SBO))`
pub(in crate::tensor_core) fn canonical(
    descriptor: &Descriptor,
    major: Major,
    bytes: u32,
    mn: u32,
    k: u32,
) -> u32 {
    let t = 16 / bytes;
    let (lbo, sbo) = (descriptor.leading / bytes, descriptor.stride / bytes);
    let (bits, s) = match descriptor.swizzle {
        Swizzle::None => (0, 1),
        Swizzle::Bytes32 => (1, 2),
        Swizzle::Bytes64 => (2, 4),
        Swizzle::Bytes128 => (3, 8),
    };
    let elements = match (major, descriptor.swizzle) {
        (Major::K, Swizzle::None) => mn % 8 * t + mn / 8 * sbo + k % t + k / t * lbo,
        (Major::K, _) => mn % 8 * s * t + mn / 8 * sbo + k % t + k / t * t,
        (Major::Mn, Swizzle::None) => mn % t + mn / t * sbo + k % 8 * t + k / 8 * lbo,
        (Major::Mn, _) => mn % t + mn / t % s * t + mn / t / s * lbo + k % 8 * s * t + k / 8 * sbo,
    };
    cute_swizzle(bits, descriptor.start + elements * bytes)
}

fn descriptor(swizzle: Swizzle, start: u32, leading: u32, stride: u32) -> Descriptor {
    Descriptor {
        start,
        leading,
        stride,
        base_offset: 0,
        swizzle,
    }
}

/// The address of element `(mn, k)` by the functions under test.
fn address(descriptor: &Descriptor, major: Major, bytes: u32, mn: u32, k: u32) -> u32 {
    let t = 16 / bytes;
    match major {
        Major::K => descriptor.k_major(mn, k / t) + k % t * bytes,
        Major::Mn => descriptor.mn_major(k, mn / t) + mn % t * bytes,
    }
}

#[test]
fn every_layout_is_the_canonical_one() {
    for swizzle in [
        Swizzle::None,
        Swizzle::Bytes32,
        Swizzle::Bytes64,
        Swizzle::Bytes128,
    ] {
        for bytes in [1, 2, 4] {
            for (leading, stride) in [(128, 256), (1024, 8192), (16, 1024), (4096, 512)] {
                // Starts in the middle of a row of the pattern are how kernels step along k.
                for start in [0, 32, 64, 96, 0x400, 0x2460] {
                    let descriptor = descriptor(swizzle, start, leading, stride);
                    for major in [Major::K, Major::Mn] {
                        for (mn, k) in (0..64).flat_map(|mn| (0..32 / bytes).map(move |k| (mn, k)))
                        {
                            assert_eq!(
                                address(&descriptor, major, bytes, mn, k),
                                canonical(&descriptor, major, bytes, mn, k),
                                "{descriptor:?} {major:?}, {bytes} bytes, ({mn}, {k})"
                            );
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn the_manuals_examples_come_out() {
    // Exact layouts of the ISA's examples, in elements, before the swizzle.
    let k_none_tf32 = descriptor(Swizzle::None, 0, 64 * 4, 32 * 4);
    assert_eq!(
        (
            k_none_tf32.encode() >> 16 & 0x3fff,
            k_none_tf32.encode() >> 32 & 0x3fff
        ),
        (16, 8)
    );
    let k_32_tf32 = descriptor(Swizzle::Bytes32, 0, 16, 64 * 4);
    assert_eq!(
        (
            k_32_tf32.encode() >> 16 & 0x3fff,
            k_32_tf32.encode() >> 32 & 0x3fff
        ),
        (1, 16)
    );
    for (mn, k) in (0..16).flat_map(|mn| (0..8).map(move |k| (mn, k))) {
        // ((8,2),(4,4)):((4,32),(1,64)) and Swizzle<1,4,3> o ((8,2),(4,4)):((8,64),(1,4))
        assert_eq!(
            address(&k_none_tf32, Major::K, 4, mn, k),
            4 * (mn % 8 * 4 + mn / 8 * 32 + k % 4 + k / 4 * 64)
        );
        assert_eq!(
            address(&k_32_tf32, Major::K, 4, mn, k),
            cute_swizzle(1, 4 * (mn % 8 * 8 + mn / 8 * 64 + k % 4 + k / 4 * 4))
        );
    }
    let mn_none = descriptor(Swizzle::None, 0, 128 * 2, 64 * 2);
    let mn_32 = descriptor(Swizzle::Bytes32, 0, 128 * 2, 256 * 2);
    let mn_64 = descriptor(Swizzle::Bytes64, 0, 256 * 2, 512 * 2);
    for k in 0..16 {
        for mn in 0..16 {
            // ((8,1,2),(8,2)):((1,8,64),(8,128))
            assert_eq!(
                address(&mn_none, Major::Mn, 2, mn, k),
                2 * (mn % 8 + mn / 8 * 64 + k % 8 * 8 + k / 8 * 128)
            );
        }
        for mn in 0..32 {
            // Swizzle<1,4,3> o ((8,2,2),(8,2)):((1,8,128),(16,256))
            let plain = mn % 8 + mn / 8 % 2 * 8 + mn / 16 * 128 + k % 8 * 16 + k / 8 * 256;
            assert_eq!(
                address(&mn_32, Major::Mn, 2, mn, k),
                cute_swizzle(1, 2 * plain)
            );
        }
        for mn in 0..64 {
            // Swizzle<2,4,3> o ((8,4,2),(8,2)):((1,8,256),(32,512))
            let plain = mn % 8 + mn / 8 % 4 * 8 + mn / 32 * 256 + k % 8 * 32 + k / 8 * 512;
            assert_eq!(
                address(&mn_64, Major::Mn, 2, mn, k),
                cute_swizzle(2, 2 * plain)
            );
        }
    }
}

#[test]
fn a_128_byte_swizzle_xors_the_chunk_with_the_row() {
    let descriptor = descriptor(Swizzle::Bytes128, 0x800, 16, 1024);
    for (row, chunk) in (0..64).flat_map(|row| (0..8).map(move |chunk| (row, chunk))) {
        assert_eq!(
            descriptor.k_major(row, chunk),
            0x800 + row * 128 + (chunk ^ (row % 8)) * 16
        );
    }
    // A step of 16 elements of 16 bits along k is 2 in the encoded start, as kernels do it.
    let step = Descriptor::decode(descriptor.encode() + 2);
    assert_eq!(step.k_major(5, 1), descriptor.k_major(5, 3));
}

#[test]
fn descriptors_of_an_independent_compiler_decode() {
    // Triton builds a tile of 64 x 64 bf16 with this constant and the address shifted right by 4; it needs no leading offset.
    let bits = 0x4000_0040_0000_0000 | (0x8000 >> 4);
    let decoded = Descriptor::decode(bits);
    assert_eq!(decoded, descriptor(Swizzle::Bytes128, 0x8000, 0, 1024));
    assert_eq!(decoded.encode(), bits);
}

#[test]
fn all_fields_survive_a_round_trip() {
    for (index, swizzle) in [
        Swizzle::None,
        Swizzle::Bytes32,
        Swizzle::Bytes64,
        Swizzle::Bytes128,
    ]
    .into_iter()
    .enumerate()
    {
        let descriptor = Descriptor {
            start: 0x3_fff0,
            leading: 0x1230,
            stride: 0x2_4560,
            base_offset: 2 * index as u32,
            swizzle,
        };
        assert_eq!(Descriptor::decode(descriptor.encode()), descriptor);
    }
}

#[test]
fn a_base_offset_moves_the_beginning_of_the_pattern() {
    // A pattern that begins at 0x180 has base offset 3, and its row r xors with r all the same.
    let moved = Descriptor {
        start: 0x180,
        leading: 16,
        stride: 1024,
        base_offset: 0x180 >> 7 & 7,
        swizzle: Swizzle::Bytes128,
    };
    for (row, chunk) in (0..8).flat_map(|row| (0..8).map(move |chunk| (row, chunk))) {
        assert_eq!(
            moved.k_major(row, chunk),
            0x180 + row * 128 + (chunk ^ row) * 16
        );
    }
}

#[test]
fn a_footprint_covers_exactly_what_is_read() {
    let whole = descriptor(Swizzle::Bytes128, 0x400, 16, 1024);
    // Two chunks of every row, at xored places: four rows of a pattern touch each pair of chunks.
    let ranges = whole.footprint(Major::K, 64, 16, 2);
    assert_eq!(
        ranges
            .iter()
            .map(|range| range.end - range.start)
            .sum::<u32>(),
        64 * 32
    );
    assert_eq!(ranges[0], 0x400..0x420);
    assert!(ranges.windows(2).all(|pair| pair[0].end < pair[1].start));
    // MN-major, 64 columns by 16 k: two whole patterns.
    assert_eq!(whole.footprint(Major::Mn, 64, 16, 2), vec![0x400..0xc00]);
    let mut count = 0;
    whole.chunks(Major::Mn, 64, 16, 2, |_| count += 1);
    assert_eq!(count, 128);
}
