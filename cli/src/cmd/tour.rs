//! `maskwright tour`: the main job on a built-in example.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use maskwright::artifact::{ArtifactCache, CacheMode};
use maskwright::cache::Store;
use maskwright::tensor::{Tensor, TensorData};
use maskwright::verify::VerifyRequest;
use maskwright::{
    Attended, BoundRule, CapturedBuffer, ForwardOptions, LaunchRecord, MaskRule, Rules, TensorRef,
    attention,
};
use maskwright_dsl::block_mask::{
    BlockClass, BlockMask, BlockSize, DrawLabels, DrawOptions, DrawStyle,
};
use maskwright_dsl::bucket::Bucket;
use maskwright_dsl::capture::{BufferData, CaptureValue};
use maskwright_dsl::catalogue::Catalogue;
use maskwright_dsl::ir::{Const, Rule, Source};
use maskwright_dsl::pipeline::{Scope, prepare};
use maskwright_dsl::text::{LowerOptions, lower, parse};

use crate::Outcome;
use crate::args::BackendArg;
use crate::args::TourArgs;
use crate::engine::{Built, build};
use crate::error::CliError;
use crate::{output, progress};

const RULE: &str = "\
/// Causal attention inside packed documents, a window back.
mask packed_window(doc: [i32; kv_len], window: i32 in 1..=65536) =
    kv <= q && doc[q] == doc[kv] && q - kv < window
";

/// The same rule with a slip: the key after this one may not be there.
const WRONG: &str = "\
mask packed_window(doc: [i32; kv_len], window: i32 in 1..=65536) =
    kv <= q && doc[q] == doc[kv + 1] && q - kv < window
";

/// Lengths of the documents, over and over.
const DOCUMENTS: [usize; 6] = [384, 96, 640, 256, 512, 160];
const WINDOW: i32 = 256;
const HEADS: usize = 2;
const HEAD_DIM: usize = 64;

/// A picture of more lines would not leave room for the rest.
const LINES: u32 = 16;

pub(crate) fn run(args: &TourArgs) -> Result<Outcome, CliError> {
    let len = args.len.max(1) as usize;
    let rule = bound(RULE, len)?;
    let scope = Scope::new(Bucket::single(len as u64, len as u64, 0), 1, HEADS as u32);
    output::print(&format!(
        "1. A rule says which query may see which key: {len} tokens of packed documents, window {WINDOW}\n\n{}\n",
        indent(RULE)
    ))?;
    let mask = prove(&rule, &scope)?;
    certify(&rule, &scope)?;
    attend(&rule, &mask, len)?;
    refuse(len, &scope)?;
    output::print(
        "6. Next\n\n   maskwright show 'kv <= q && q - kv < 512' --len 4096\n   maskwright verify 'kv <= q && (q - kv) % 4 == \
         0' --q-len 1000 --kv-len 1000\n   maskwright explain 'kv <= q && q - kv < 256' --len 1024 --block-at 3,1\n   \
         maskwright catalogue\n",
    )?;
    Ok(Outcome::Done)
}

/// Indents what a step shows.
fn indent(text: &str) -> String {
    text.lines()
        .map(|line| format!("   {line}").trim_end().to_owned() + "\n")
        .collect()
}

fn rule_of(text: &str) -> Result<Rule, CliError> {
    let source = Arc::new(Source {
        name: "tour.mask".to_owned(),
        text: text.to_owned(),
    });
    let module = parse(source)?;
    Ok(lower(&module, None, &LowerOptions::default(), &Catalogue)?)
}

fn bound(text: &str, len: usize) -> Result<BoundRule, CliError> {
    let ids = DOCUMENTS.iter().cycle().enumerate();
    let docs: Vec<i32> = ids
        .flat_map(|(id, &tokens)| std::iter::repeat_n(id as i32, tokens))
        .take(len)
        .collect();
    let docs = CapturedBuffer::new(BufferData::I32(docs.into()), vec![len])
        .expect("there is an element for each token");
    let values = vec![
        CaptureValue::Buffer(docs),
        CaptureValue::Scalar(Const::I32(WINDOW)),
    ];
    Ok(BoundRule::new(Arc::new(rule_of(text)?), values, &[])?)
}

fn prove(rule: &BoundRule, scope: &Scope) -> Result<BlockMask, CliError> {
    let started = Instant::now();
    let Built { mask, stats, .. } = build(rule, scope, BlockSize::default(), BackendArg::Auto)?;
    let seconds = started.elapsed().as_secs_f64();
    let counts = mask.counts();
    let picture = mask.draw(
        0,
        0,
        DrawOptions {
            style: DrawStyle::Blocks,
            labels: DrawLabels::None,
            max_rows: LINES,
            max_cols: 2 * LINES,
        },
    );
    let framed: Vec<String> = picture.lines().map(|line| format!("|{line}|")).collect();
    output::print(&format!(
        "2. Its blocks of {} are proved full (█), cut (░) or empty, in {:.1} ms\n\n{}\n   {} full, {} partial, {} empty: \
         {:.0} % never touched; {} proved by ranges, {} looked into\n\n",
        mask.block(),
        seconds * 1e3,
        indent(&framed.join("\n")),
        counts.full,
        counts.partial,
        counts.empty,
        mask.sparsity(),
        stats.blocks_proved,
        stats.blocks_evaluated,
    ))?;
    Ok(mask)
}

/// A directory that goes when the tour ends, however it ends.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed lies among other temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn certify(rule: &BoundRule, scope: &Scope) -> Result<(), CliError> {
    let mask = MaskRule::new(rule.clone()).expect("the tour's rule is a mask");
    let request = VerifyRequest::of_mask(&mask, scope.clone());
    let scratch =
        Scratch(std::env::temp_dir().join(format!("maskwright-tour-{}", std::process::id())));
    let cache = ArtifactCache::with_mode(Store::open(&scratch.0)?, CacheMode::ReadWrite);
    let found = progress::spinning("verifying", || cache.get_or_verify(&request))?;
    let certificate = found.artifact.certificate();
    let started = Instant::now();
    let again = cache.get_or_verify(&request)?;
    output::print(&format!(
        "3. The compiled rule is compared with the rule as written, cell by cell, and then kept\n\n   {}: {} cells, \
         {:.2} s\n   kept in a cache; a second lookup is a {}, in {:.1} ms\n\n",
        if certificate.exhaustive {
            "every cell agrees"
        } else {
            "a sample agrees"
        },
        output::count_text(certificate.cells_checked),
        certificate.seconds,
        if again.cached { "hit" } else { "miss" },
        started.elapsed().as_secs_f64() * 1e3
    ))
}

fn attend(rule: &BoundRule, mask: &BlockMask, len: usize) -> Result<(), CliError> {
    let shape = vec![1, HEADS, len, HEAD_DIM];
    let mut state = 1_u64;
    let mut tensor = || {
        let data: Vec<f32> = (0..HEADS * len * HEAD_DIM)
            .map(|_| random(&mut state))
            .collect();
        Tensor {
            shape: shape.clone(),
            data: data.into(),
        }
    };
    let (q, k, v) = (tensor(), tensor(), tensor());
    let views = [
        TensorRef::try_from(&q)?,
        TensorRef::try_from(&k)?,
        TensorRef::try_from(&v)?,
    ];
    let mask_rule = MaskRule::new(rule.clone()).expect("the tour's rule is a mask");
    let rules = Rules::mask(mask_rule);
    // The same rule, with nothing known about its blocks.
    let nothing_known = BlockMask::uniform(mask.geometry().clone(), BlockClass::Partial);
    let dense = Rules::dense();
    let time = |rules: &Rules, block_mask| -> Result<Attended, CliError> {
        let options = ForwardOptions {
            block_mask,
            ..ForwardOptions::default()
        };
        let [q, k, v] = views;
        // The first run warms caches and threads up.
        attention(q, k, v, rules, &options)?;
        Ok(attention(q, k, v, rules, &options)?)
    };
    let (sparse, checked, dense) = progress::spinning("attending", || {
        (
            time(&rules, Some(mask)),
            time(&rules, Some(&nothing_known)),
            time(&dense, None),
        )
    });
    let (sparse, checked, dense) = (sparse?, checked?, dense?);
    let line = |name: &str, record: &LaunchRecord| {
        let tiles = record.tiles;
        format!(
            "   {name:14} {:8.2} ms  tiles: {} full, {} partial, {} skipped\n",
            record.seconds * 1e3,
            tiles.full,
            tiles.partial,
            tiles.skipped
        )
    };
    output::print(&format!(
        "4. Attention ({} {}) never touches the empty blocks: {:.1} times as fast as dense\n\n{}{}   with nothing known \
         about its blocks, the rule gives {}\n\n",
        sparse.record.backend,
        sparse.record.kernel,
        dense.record.seconds / sparse.record.seconds.max(1e-9),
        line("empty skipped", &sparse.record),
        line("dense", &dense.record),
        if same_bits(&sparse.out.data, &checked.out.data) {
            "the same bits"
        } else {
            "other bits, which is a fault of ours"
        },
    ))
}

fn same_bits(a: &TensorData, b: &TensorData) -> bool {
    match (a, b) {
        (TensorData::F32(a), TensorData::F32(b)) => a
            .iter()
            .map(|x| x.to_bits())
            .eq(b.iter().map(|x| x.to_bits())),
        _ => a == b,
    }
}

fn refuse(len: usize, scope: &Scope) -> Result<(), CliError> {
    let Err(faults) = bound(WRONG, len).map(|wrong| prepare(&wrong, scope))? else {
        return Ok(());
    };
    let drawn = faults.render(output::colored_stdout());
    output::print(&format!(
        "5. A rule that could read outside its buffers is refused before anything runs\n\n{}\n",
        indent(&drawn)
    ))
}

/// A number between -1 and 1, by xorshift.
fn random(state: &mut u64) -> f32 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state >> 40) as f32 / (1 << 23) as f32 - 1.0
}
