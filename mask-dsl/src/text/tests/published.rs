//! Hard masks from published code (named above each), against rows that independent programs computed with torch.

use super::*;

/// Checks every cell of every batch row and head, row after row.
#[track_caller]
fn check(
    text: &str,
    consts: &[(&str, i64)],
    values: &[CaptureValue],
    dims: &[i32],
    (batch, heads): (i32, i32),
    expected: &str,
) {
    let rule = rule_with(text, consts);
    let bindings = bindings(values, dims);
    let expected: Vec<&str> = expected.split_whitespace().collect();
    let sizes = Sizes {
        batch,
        num_q_heads: heads,
        q_len: expected.len() as i32 / (batch * heads),
        kv_len: expected[0].len() as i32,
    };
    let mut evaluator = ScalarEvaluator::new(&rule, &bindings, sizes);
    let mut rows = expected.iter();
    for b in 0..batch {
        for h in 0..heads {
            for q_idx in 0..sizes.q_len {
                let found: String = (0..sizes.kv_len)
                    .map(|kv_idx| {
                        let point = Point {
                            b,
                            h,
                            q_idx,
                            kv_idx,
                            score: 0.0,
                        };
                        match evaluator.eval(&point) {
                            Ok(Const::Bool(true)) => '1',
                            Ok(_) => '0',
                            Err(error) => panic!("at {point:?}: {error}"),
                        }
                    })
                    .collect();
                assert_eq!(
                    Some(&found.as_str()),
                    rows.next(),
                    "b {b}, h {h}, q {q_idx}"
                );
            }
        }
    }
}

// SHI-Labs/NATTEN:src/natten/backends/flex.py
#[test]
fn natten_2d() {
    check(
        r"fn axis(x: i32, y: i32, n: i32, kern: i32, step: i32, dil: i32, causal: bool) -> bool {
    let qi = x / dil;
    let ki = y / dil;
    let group = x % dil;
    let group_n = n / dil + (group < n % dil) as i32;
    if y % dil != group { return false; }
    if causal {
        let lead = min((qi / step) * step + step - 1, group_n - 1);
        return ki <= qi && lead - ki < kern;
    }
    let left = kern / 2;
    let right = kern - 1 - left;
    let centre = min((qi / step) * step + step / 2, group_n - 1).clamp(left, group_n - 1 - right);
    centre - left <= ki && ki <= centre + right
}
mask natten_2d(shape0: i32, shape1: i32, kern0: i32, kern1: i32, stride0: i32, stride1: i32, dil0: i32, dil1: i32, causal0: bool, causal1: bool) = axis(q / shape1, kv / shape1, shape0, kern0, stride0, dil0, causal0)
    && axis(q % shape1, kv % shape1, shape1, kern1, stride1, dil1, causal1)",
        &[],
        &[
            scalar(5),
            scalar(6),
            scalar(3),
            scalar(2),
            scalar(1),
            scalar(1),
            scalar(1),
            scalar(2),
            CaptureValue::Scalar(Const::Bool(false)),
            CaptureValue::Scalar(Const::Bool(false)),
        ],
        &[],
        (1, 1),
        r"
        101000101000101000000000000000
        010100010100010100000000000000
        101000101000101000000000000000
        010100010100010100000000000000
        001010001010001010000000000000
        000101000101000101000000000000
        101000101000101000000000000000
        010100010100010100000000000000
        101000101000101000000000000000
        010100010100010100000000000000
        001010001010001010000000000000
        000101000101000101000000000000
        000000101000101000101000000000
        000000010100010100010100000000
        000000101000101000101000000000
        000000010100010100010100000000
        000000001010001010001010000000
        000000000101000101000101000000
        000000000000101000101000101000
        000000000000010100010100010100
        000000000000101000101000101000
        000000000000010100010100010100
        000000000000001010001010001010
        000000000000000101000101000101
        000000000000101000101000101000
        000000000000010100010100010100
        000000000000101000101000101000
        000000000000010100010100010100
        000000000000001010001010001010
        000000000000000101000101000101
        ",
    );
}

// SandAI-org/MagiAttention:docs/source/blog/magi_attn.md
#[test]
fn slices() {
    check(
        r"mask slices(slices: [i32; n, 5], const n_slices: i32) = any(i in 0..n_slices, {
    let t = slices[i, 4];
    slices[i, 0] <= q && q < slices[i, 1] && slices[i, 2] <= kv && kv < slices[i, 3]
        && match t { 0 | 2 => true, _ => kv - slices[i, 3] <= q - slices[i, 1] }
        && match t { 0..=1 => true, _ => kv - slices[i, 2] >= q - slices[i, 0] }
})",
        &[("n_slices", 3)],
        &[buffer(
            BufferData::I32(vec![0, 4, 0, 4, 0, 4, 10, 0, 8, 1, 6, 9, 6, 12, 3].into()),
            &[3, 5],
        )],
        &[3],
        (1, 1),
        r"
        111100000000
        111100000000
        111100000000
        111100000000
        111000000000
        111100000000
        111110111100
        111111011110
        111111101111
        111111110000
        ",
    );
}

// lucidrains/transfusion-pytorch:transfusion_pytorch/transfusion.py
#[test]
fn transfusion() {
    check(
        r"mask transfusion(mods: [i32; batch, n, 3]) = kv <= q || any(i in 0..2, q >= mods[b, i, 1] && kv < mods[b, i, 1] + mods[b][i, 2])",
        &[],
        &[buffer(
            BufferData::I32(vec![0, 2, 3, 1, 8, 2, 0, 5, 4, 0, 0, 0].into()),
            &[2, 2, 3],
        )],
        &[2],
        (2, 1),
        r"
        100000000000
        110000000000
        111110000000
        111110000000
        111110000000
        111111000000
        111111100000
        111111110000
        111111111100
        111111111100
        111111111110
        111111111111
        100000000000
        110000000000
        111000000000
        111100000000
        111110000000
        111111111000
        111111111000
        111111111000
        111111111000
        111111111100
        111111111110
        111111111111
        ",
    );
}

// sgl-project/SpecForge:specforge/algorithms/common/dflash_family_model.py
#[test]
fn dflash() {
    check(
        r"mask dflash(anchor: [i32; batch, n], keep: [bool; batch, n], context: i32, block: i32) = {
    let own = q / block;
    let seen = if kv < context { kv < anchor[b, own] } else { (kv - context) / block == own };
    seen && keep[b, own]
}",
        &[],
        &[
            buffer(BufferData::I32(vec![1, 4, 7, 0, 8, 2].into()), &[2, 3]),
            buffer(
                BufferData::Bool(vec![true, true, false, true, true, true].into()),
                &[2, 3],
            ),
            scalar(8),
            scalar(2),
        ],
        &[3],
        (2, 1),
        r"
        10000000110000
        10000000110000
        11110000001100
        11110000001100
        00000000000000
        00000000000000
        00000000110000
        00000000110000
        11111111001100
        11111111001100
        11000000000011
        11000000000011
        ",
    );
}

// meta-pytorch/attention-gym
#[test]
fn dropped() {
    check(
        r"fn mix32(start: u32) -> u32 {
    let mut x = start;
    x ^= x >> 16;
    x = x.wrapping_mul(0x7FEB352D);
    x ^= x >> 15;
    x = x.wrapping_mul(0x846CA68B);
    x ^ x >> 16
}
mask dropped(seed: u32, drop: u32) = q >= kv && drop <= mix32(
    (b as u32).wrapping_mul(73856093) ^ (h as u32).wrapping_mul(19349663)
        ^ (q as u32).wrapping_mul(83492791) ^ (kv as u32).wrapping_mul(2654435761) ^ seed)",
        &[],
        &[
            CaptureValue::Scalar(Const::U32(12345)),
            CaptureValue::Scalar(Const::U32(1_288_490_188)),
        ],
        &[],
        (1, 2),
        r"
        100000000
        100000000
        111000000
        111000000
        111010000
        001111000
        111011100
        110111110
        111111111
        100000000
        110000000
        100000000
        011100000
        101110000
        111111000
        011011100
        111011110
        100100111
        ",
    );
}

// meta-pytorch/attention-gym:attn_gym/masks/natten.py
#[test]
fn tiled() {
    check(
        r"fn near(a: i32, x: i32, n: i32, k: i32) -> bool = (a.clamp(k / 2, n - 1 - k / 2) - x).abs() <= k / 2
fn column(i: i32, width: i32, tw: i32, th: i32) -> i32 = (i / (tw * th) % (width / tw)) * tw + i % (tw * th) % tw
fn row(i: i32, width: i32, tw: i32, th: i32) -> i32 = (i / (tw * th) / (width / tw)) * th + i % (tw * th) / tw
mask tiled(width: i32, height: i32, kw: i32, kh: i32, tw: i32, th: i32) = near(column(q, width, tw, th), column(kv, width, tw, th), width, kw)
    && near(row(q, width, tw, th), row(kv, width, tw, th), height, kh)",
        &[],
        &[
            scalar(6),
            scalar(6),
            scalar(3),
            scalar(3),
            scalar(2),
            scalar(2),
        ],
        &[],
        (1, 1),
        r"
        111110100000110010000000000000000000
        111110100000110010000000000000000000
        111110100000110010000000000000000000
        111110100000110010000000000000000000
        010111110000010011000000000000000000
        000011111010000011001000000000000000
        010111110000010011000000000000000000
        000011111010000011001000000000000000
        000001011111000001001100000000000000
        000001011111000001001100000000000000
        000001011111000001001100000000000000
        000001011111000001001100000000000000
        001100100000111110100000000000000000
        001100100000111110100000000000000000
        000000000000111110100000110010000000
        000000000000111110100000110010000000
        000100110000010111110000000000000000
        000000110010000011111010000000000000
        000000000000010111110000010011000000
        000000000000000011111010000011001000
        000000010011000001011111000000000000
        000000010011000001011111000000000000
        000000000000000001011111000001001100
        000000000000000001011111000001001100
        000000000000001100100000111110100000
        000000000000001100100000111110100000
        000000000000001100100000111110100000
        000000000000001100100000111110100000
        000000000000000100110000010111110000
        000000000000000000110010000011111010
        000000000000000100110000010111110000
        000000000000000000110010000011111010
        000000000000000000010011000001011111
        000000000000000000010011000001011111
        000000000000000000010011000001011111
        000000000000000000010011000001011111
        ",
    );
}

// pytorch/pytorch
#[test]
fn memory() {
    check(
        r"mask memory(mem: i32, every: i32, window: i32, lag: i32) = match (q < mem) as i32 * 2 + (kv < mem) as i32 {
    0 => { let d = (q - mem) - (kv - mem); 0 <= d && d < window }
    1 => q - mem >= kv * every,
    3 => q * every >= kv * every,
    _ => { let m = kv - mem; q * every >= m && !(m + lag * window < q * every) }
}",
        &[],
        &[scalar(4), scalar(3), scalar(3), scalar(1)],
        &[],
        (1, 1),
        r"
        1000100000000000
        1100111100000000
        1110000111100000
        1111000000111100
        1000100000000000
        1000110000000000
        1000111000000000
        1100011100000000
        1100001110000000
        1100000111000000
        1110000011100000
        1110000001110000
        1110000000111000
        1111000000011100
        1111000000001110
        1111000000000111
        ",
    );
}
