//! Mistakes planted in generated kernels, one at a time: the emulator reports each, or the numbers are wrong.

use maskwright::block_mask::{BlockMask, BlockSize};
use maskwright::cuda::{Float, MaskBlocks, TileRuns};
use maskwright::reference::DenseOutput;
use maskwright::{Kernel, Rules};
use maskwright_tests::bare::{Bare, Edit, Placed};
use maskwright_tests::call::{Extents, Inputs, LSE_TOLERANCE, compare, output_tolerance};
use maskwright_tests::direct::{bind_mask, int, ints};
use maskwright_tests::work::products_of_tile;
use ptx_emulator::Options;
use rayon::prelude::*;

use super::{compile, exact, has_compiler, text};

/// A kernel and the call on which its mutants run.
struct Subject {
    name: &'static str,
    bare: Bare,
    kernel: Kernel,
    mask: BlockMask,
    q_offset: i64,
    inputs: Inputs,
    expected: DenseOutput,
}

/// How a mistake shows itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    /// A report of the emulator that contains this.
    Report(&'static str),
    /// Results that are not those of the reference, or are missing.
    Numbers,
    /// Work of the tensor cores that the block mask does not ask for.
    Work,
}

impl Subject {
    fn new(
        name: &'static str,
        rules: &Rules,
        dtype: Float,
        d: usize,
        (q_len, kv_len, q_offset): (usize, usize, i64),
    ) -> Self {
        let scope = maskwright::Scope::new(
            maskwright::Bucket::single(q_len as u64, kv_len as u64, q_offset),
            1,
            2,
        );
        let kernel = compile(rules, &scope);
        let extents = Extents {
            kv_heads: if d == 64 { 1 } else { 2 },
            ..Extents::new(q_len, kv_len, d)
        };
        let mask = exact(&kernel, extents, q_offset, (128, 128));
        let blocks = MaskBlocks::of(&mask);
        assert_eq!(blocks.block, BlockSize { q: 128, kv: 128 });
        let text = text(
            dtype,
            (d as u32, d as u32),
            kernel.prepared_mask(),
            None,
            Some(blocks),
        );
        let inputs = Inputs::drawn(extents, dtype, 20);
        let expected = inputs.reference(rules, q_offset, Some(&mask));
        Self {
            name,
            bare: Bare::compile(&text).unwrap_or_else(|e| panic!("{name}: {e}")),
            kernel,
            mask,
            q_offset,
            inputs,
            expected,
        }
    }

    /// Runs a kernel in several orders of its warps. What is wrong with it, or none.
    fn fault(&self, bare: &Bare) -> Option<(By, String)> {
        let runs = TileRuns::new(&self.mask, bare.plan.tile).expect("made for these blocks");
        for seed in [0, 1, 2, 3] {
            let mut placed = Placed::new(&self.inputs, self.kernel.prepared_mask(), None, &runs);
            placed.q_offset = self.q_offset as i32;
            let options = Options {
                seed,
                threads: 1,
                ..Options::default()
            };
            let counters = match bare.launch(&placed, &options) {
                Ok(counters) => counters,
                Err(report) => return Some((By::Report(""), report.fault.to_string())),
            };
            let compared = placed.results().and_then(|found| {
                compare("lse", &self.expected.lse, &found.lse, LSE_TOLERANCE)?;
                compare(
                    "row max",
                    &self.expected.row_max,
                    &found.row_max,
                    LSE_TOLERANCE,
                )?;
                let tolerance = output_tolerance(self.inputs.dtype);
                compare("output", &self.expected.out, &found.out, tolerance)
            });
            if let Err(error) = compared {
                return Some((By::Numbers, error));
            }
            let tiles = runs.tiles(&placed.call_shape());
            let expected = (tiles.full + tiles.partial) * products_of_tile(&bare.plan);
            if counters.tensor.mma != expected {
                let found = counters.tensor.mma;
                return Some((By::Work, format!("expected {expected}, found {found}")));
            }
        }
        None
    }

    #[track_caller]
    fn check_mutants(&self, mutants: &[(&str, Edit, By)]) {
        assert_eq!(self.fault(&self.bare), None, "{}", self.name);
        let faults: Vec<String> = mutants
            .par_iter()
            .filter_map(|(what, edit, by)| {
                let mutant = match self.bare.edited(std::slice::from_ref(edit)) {
                    Ok(mutant) => mutant,
                    Err(error) => return Some(format!("{what}: {error}")),
                };
                let Some((found, how)) = self.fault(&mutant) else {
                    return Some(format!("{what}: nobody noticed"));
                };
                let as_expected = match (by, found) {
                    (By::Report(part), By::Report(_)) => how.contains(part),
                    (By::Numbers, By::Numbers) | (By::Work, By::Work) => true,
                    (By::Report(_) | By::Numbers | By::Work, _) => false,
                };
                eprintln!("{}, {what}: {found:?}: {how}", self.name);
                (!as_expected).then(|| format!("{what}: expected {by:?}, found {found:?}: {how}"))
            })
            .collect();
        assert!(faults.is_empty(), "{}:\n{}", self.name, faults.join("\n"));
    }
}

const COPY: By = By::Report("asynchronous copy");
const RACE: By = By::Report("race");
const BOUNDS: By = By::Report("out of bounds");

#[test]
fn of_a_kernel_with_two_stages() {
    if !has_compiler() {
        return;
    }
    let rule =
        "mask gaps(width: i32 in 1..=99) = kv <= q && q - kv < width + 150 * h && q % 7 != 3";
    let rules = Rules::mask(bind_mask(rule, &[int(60)]));
    let subject = Subject::new("two stages", &rules, Float::BF16, 64, (200, 300, 130));
    let plan = &subject.bare.plan;
    assert_eq!((plan.stages, plan.tile.q, plan.tile.kv), (2, 128, 64));
    let k_stage = plan.shared.k.bytes();
    let once = Edit::once;
    let nth = |from, which, to| Edit::nth(from, which, to);
    let stage = format!("K_STAGE = {k_stage}");
    let half = format!("K_STAGE = {}", k_stage / 2);
    subject.check_mutants(&[
        // Order.
        (
            "no barrier before S",
            nth("__syncthreads();", (0, 2), ""),
            RACE,
        ),
        (
            "no barrier before P V",
            nth("__syncthreads();", (1, 2), ""),
            RACE,
        ),
        ("no wait for K", nth("copy_wait<1>();", (0, 2), ""), COPY),
        (
            "a lax wait for K",
            nth("copy_wait<1>();", (0, 2), "copy_wait<2>();"),
            COPY,
        ),
        ("no wait for V", nth("copy_wait<1>();", (1, 2), ""), COPY),
        (
            "a lax wait for V",
            nth("copy_wait<1>();", (1, 2), "copy_wait<3>();"),
            COPY,
        ),
        (
            "the first K is not committed",
            nth("copy_commit();", (0, 4), ""),
            COPY,
        ),
        (
            "the first V is not committed",
            nth("copy_commit();", (1, 4), ""),
            COPY,
        ),
        (
            "the next K is not committed",
            nth("copy_commit();", (2, 4), ""),
            COPY,
        ),
        (
            "the next V is not committed",
            nth("copy_commit();", (3, 4), ""),
            COPY,
        ),
        // Places.
        ("stages that overlap", once(&stage, &half), COPY),
        ("one stage for both", once("stage ^= 1;", ""), COPY),
        (
            "the next V goes where V is",
            once(
                "VTile::AT + stage * V_STAGE",
                "VTile::AT + (stage ^ 1) * V_STAGE",
            ),
            COPY,
        ),
        (
            "copies without the exchange of chunks",
            once("(chunk * 16 ^ swizzle<Tile>(row))", "chunk * 16"),
            By::Numbers,
        ),
        (
            "loads of K without the exchange",
            once("load_chunk ^ swizzle<KTile>(load_row)", "load_chunk"),
            By::Numbers,
        ),
        (
            "loads of V without the exchange",
            once("load_chunk ^ swizzle<VTile>(load_row)", "load_chunk"),
            By::Numbers,
        ),
        (
            "a wrong pitch of K",
            once("load_row * KTile::PITCH", "load_row * (KTile::PITCH + 16)"),
            COPY,
        ),
        (
            "the wrong chunk of K",
            once(
                "j * 8 * KTile::PITCH + column",
                "j * 8 * KTile::PITCH + (column ^ 32)",
            ),
            By::Numbers,
        ),
        (
            "the wrong head of V",
            nth("h / p.group", (1, 2), "(h + 1) / p.group"),
            BOUNDS,
        ),
        // Limits.
        (
            "a walk that ends one tile early",
            once("(p.kv_len + TILE_KV - 1u) / TILE_KV", "p.kv_len / TILE_KV"),
            By::Numbers,
        ),
        (
            "a walk that ends one tile late",
            once(
                "(p.kv_len + TILE_KV - 1u) / TILE_KV",
                "p.kv_len / TILE_KV + 2",
            ),
            By::Work,
        ),
        (
            "keys past the end are read",
            // Either alone changes nothing: an address that is not read may lie anywhere, and a key past the end may be any.
            once(
                "min(row, valid - 1) * stride;\n    const int bytes = row < valid ? 16 : 0;",
                "row * stride;\n    const int bytes = 16;",
            ),
            BOUNDS,
        ),
        (
            "rows past the end are stored",
            once("if (p.q_len <= row) continue;", ""),
            BOUNDS,
        ),
        (
            "one key past the end counts",
            once(
                "p.kv_len - first_kv <= key_of_lane",
                "p.kv_len - first_kv < key_of_lane",
            ),
            By::Numbers,
        ),
        (
            "no look for keys past the end",
            once("if (p.kv_len - first_kv < TILE_KV) {", "if (false) {"),
            By::Numbers,
        ),
        // The mask.
        (
            "the rule on full tiles alone",
            once("if (!full) {", "if (full) {"),
            By::Numbers,
        ),
        (
            "full tiles that are not",
            once("full = r.y % 2 == 1;", "full = true;"),
            By::Numbers,
        ),
        (
            "runs of another head",
            once("plane * (p.mask_rows + 1ll)", "plane * (p.mask_rows + 0ll)"),
            By::Numbers,
        ),
        (
            "columns of the next lane",
            once(
                "column / 2 * 8 + lane % 4 * 2",
                "column / 2 * 8 + (lane + 1) % 4 * 2",
            ),
            By::Numbers,
        ),
        // The softmax.
        (
            "O is not rescaled",
            once("x = __fmul_rn(x, shrink);", ""),
            By::Numbers,
        ),
        (
            "l is not rescaled",
            once(
                "l[r] = __fmaf_rn(l[r], shrink, sum);",
                "l[r] = __fadd_rn(l[r], sum);",
            ),
            By::Numbers,
        ),
        (
            "a maximum of one lane",
            once("top = quad_max(top);", ""),
            By::Numbers,
        ),
        (
            "a sum of one lane",
            once("l[r] = quad_sum(l[r]);", ""),
            By::Numbers,
        ),
        (
            "a sum of two lanes",
            once(
                "return __fadd_rn(x, __shfl_xor_sync(0xffffffff, x, 2));",
                "return x;",
            ),
            By::Numbers,
        ),
        (
            "rows that have met no score",
            once("top == minus_infinity() ? 0 : top", "top"),
            By::Numbers,
        ),
        (
            "rows without a key",
            once("const bool empty = l[r] == 0;", "const bool empty = false;"),
            By::Numbers,
        ),
        (
            "an inner product on its side",
            once(
                "mma(o[i][n + 1], a[i], x[2], x[3]);",
                "mma(o[i][n + 1], a[i], x[1], x[3]);",
            ),
            By::Numbers,
        ),
    ]);
}

#[test]
fn of_a_kernel_with_one_stage() {
    if !has_compiler() {
        return;
    }
    // Exactly as many documents as positions: reads beyond are out of bounds.
    let documents: Vec<i32> = (0..170).map(|i| i / 37).collect();
    let rule = "mask documents(doc: [i32; 170]) = doc[q] == doc[kv] || kv < 3";
    let rules = Rules::mask(bind_mask(rule, &[ints(&documents)]));
    let subject = Subject::new("one stage", &rules, Float::F16, 128, (100, 170, 70));
    let plan = &subject.bare.plan;
    assert_eq!((plan.stages, plan.tile.q, plan.tile.kv), (1, 64, 64));
    let once = Edit::once;
    let nth = |from, which, to| Edit::nth(from, which, to);
    subject.check_mutants(&[
        (
            "no barrier before S",
            nth("__syncthreads();", (0, 2), ""),
            RACE,
        ),
        (
            "no barrier before P V",
            nth("__syncthreads();", (1, 2), ""),
            RACE,
        ),
        ("no wait for K", nth("copy_wait<0>();", (0, 2), ""), COPY),
        (
            "a lax wait for K",
            nth("copy_wait<0>();", (0, 2), "copy_wait<1>();"),
            COPY,
        ),
        (
            "a lax wait for V",
            nth("copy_wait<0>();", (1, 2), "copy_wait<1>();"),
            COPY,
        ),
        (
            "the next K before all warps are through",
            nth("__syncthreads();\n    if (more) {", (0, 1), "if (more) {"),
            RACE,
        ),
        (
            "the rule sees rows that there are not",
            once("min(lane_row + 8 * r, p.q_len - 1)", "(lane_row + 8 * r)"),
            BOUNDS,
        ),
        (
            "the rule sees keys that there are not",
            once(
                "min(first_kv + key_of_lane(lane, j), p.kv_len - 1)",
                "(first_kv + key_of_lane(lane, j))",
            ),
            BOUNDS,
        ),
        (
            "the rule forgets the offset",
            once("q_idx[r] = p.q_offset + ", "q_idx[r] = "),
            By::Numbers,
        ),
        (
            "a row of the mask for each tile",
            once("tile_q / p.tiles_per_row", "tile_q"),
            BOUNDS,
        ),
        (
            "the output in the wrong rows",
            once(
                "row * p.out_row_stride + n * 8",
                "row * p.out_row_stride + n * 8 + 8",
            ),
            BOUNDS,
        ),
        (
            "the lse of another head",
            once(
                "* p.num_q_heads + h) * p.q_len + row",
                "* p.num_q_heads) * p.q_len + row",
            ),
            By::Numbers,
        ),
    ]);
}

#[test]
fn of_a_kernel_of_floats() {
    if !has_compiler() {
        return;
    }
    let rules = Rules::mask(bind_mask("mask causal() = kv <= q", &[]));
    let subject = Subject::new("floats", &rules, Float::F32, 64, (100, 170, 70));
    assert_eq!(subject.bare.plan.stages, 2);
    let once = Edit::once;
    subject.check_mutants(&[
        (
            "the low parts of B are left out",
            once("mma_tf32(c, a.hi, b0.lo, b1.lo);", ""),
            By::Numbers,
        ),
        (
            "the low parts of A are left out",
            once("mma_tf32(c, a.lo, b0.hi, b1.hi);", ""),
            By::Numbers,
        ),
        (
            "V in the order of the keys",
            once(
                "mma(o[i][n], a[i], even, odd);",
                "mma(o[i][n], a[i], odd, even);",
            ),
            By::Numbers,
        ),
        (
            "V a column further on",
            once(
                "j * 8 * VTile::PITCH + n * 32",
                "j * 8 * VTile::PITCH + n * 32 + 4",
            ),
            By::Report("memory that nothing wrote"),
        ),
        (
            "the score is not scaled",
            once(
                "s[i][j][c] = __fmul_rn(s[i][j][c], sm_scale);",
                "s[i][j][c] = s[i][j][c];",
            ),
            By::Numbers,
        ),
        (
            "no barrier before P V",
            Edit::nth("__syncthreads();", (1, 2), ""),
            RACE,
        ),
    ]);
}
