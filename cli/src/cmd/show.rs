//! `maskwright show`: a picture of blocks or cells, on the terminal, as PNG or as SVG.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::Path;

use maskwright_dsl::block_mask::{BlockClass, DrawLabels, DrawOptions, DrawStyle, MaskEvaluator};
use serde_json::json;

use crate::args::ShowArgs;
use crate::engine::{Built, build};
use crate::error::CliError;
use crate::{Outcome, bucket, output, progress, rule};

/// Rows and columns that a terminal shows of a cell picture.
const TERMINAL: (u64, u64) = (128, 256);

/// Pixels along one side of an image.
const IMAGE_SIDE: u64 = 8192;

/// Small pictures are enlarged up to about so many pixels.
const IMAGE_AT_LEAST: u64 = 512;

/// The colours of empty, partial and full.
const COLOURS: [[u8; 3]; 3] = [[255, 255, 255], [158, 202, 225], [8, 81, 156]];

/// Classes, row by row: 0 empty, 1 partial, 2 full.
struct Picture {
    width: usize,
    rows: Vec<Vec<u8>>,
}

pub(crate) fn run(args: &ShowArgs) -> Result<Outcome, CliError> {
    let bound = rule::resolve(&args.rule, &args.flags)?;
    let scope = bucket::one_scope(&args.flags, args.lengths.given())?;
    bucket::check_scalars(&scope, &[bound.rule()])?;
    check_plane(args.b, args.h, (args.flags.batch, args.flags.heads))?;
    let block = bucket::one_block(&args.flags)?;
    let built = progress::spinning("building", || {
        build(&bound, &scope, block, args.flags.backend)
    })?;
    let mask = &built.mask;
    let (q_len, kv_len) = (mask.q_len(), mask.kv_len());
    for (path, write) in [
        (
            &args.png,
            write_png as fn(&Picture, &Path) -> Result<(), CliError>,
        ),
        (&args.svg, write_svg),
    ] {
        if let Some(path) = path {
            let picture = if args.cells {
                cells(&built, args, (IMAGE_SIDE, IMAGE_SIDE))?
            } else {
                blocks(&built, args)?
            };
            write(&picture, path)?;
            output::note(&format!("wrote {}", path.display()));
        }
    }
    let counts = mask.counts();
    if args.json {
        output::print_json(&json!({
            "rule": args.rule,
            "b": args.b,
            "h": args.h,
            "q_len": q_len,
            "kv_len": kv_len,
            "q_block": block.q,
            "kv_block": block.kv,
            "rows": mask.rows(),
            "cols": mask.cols(),
            "full": counts.full as u64,
            "partial": counts.partial as u64,
            "empty": counts.empty as u64,
            "sparsity_percent": mask.sparsity(),
            "exact": mask.is_exact(),
        }))?;
        return Ok(Outcome::Done);
    }
    let mut text = String::new();
    if args.cells {
        let picture = cells(&built, args, TERMINAL)?;
        for row in &picture.rows {
            text.extend(row.iter().map(|&class| if class == 0 { '.' } else { '#' }));
            text.push('\n');
        }
        text.push_str("# attends  . masked\n");
    } else {
        let options = DrawOptions {
            style: DrawStyle::Blocks,
            labels: DrawLabels::Positions,
            ..DrawOptions::default()
        };
        text.push_str(&mask.draw(args.b, args.h, options));
        text.push_str("█ full  ░ partial  (blank) empty; lines begin with their first query\n");
    }
    let _ = writeln!(
        text,
        "{} x {} blocks of {block} over {}{}: {} full, {} partial, {} empty, {:.1} % skipped{}",
        mask.rows(),
        mask.cols(),
        scope.bucket,
        match u64::from(mask.batch()) * u64::from(mask.heads()) {
            1 => String::new(),
            planes => format!(", over all {planes} pairs of batch entry and head"),
        },
        output::count_text(counts.full),
        output::count_text(counts.partial),
        output::count_text(counts.empty),
        mask.sparsity(),
        if mask.is_exact() {
            ""
        } else {
            "; partial means not proved for every member of the bucket"
        }
    );
    output::print(&text)?;
    Ok(Outcome::Done)
}

/// Checks that a batch entry and a head are there.
pub(crate) fn check_plane(b: u32, h: u32, (batch, heads): (u32, u32)) -> Result<(), CliError> {
    for (what, found, end) in [("batch entry", b, batch), ("head", h, heads)] {
        if end <= found {
            return Err(CliError::Outside {
                what,
                found: i64::from(found),
                end: u64::from(end),
            });
        }
    }
    Ok(())
}

fn blocks(built: &Built, args: &ShowArgs) -> Result<Picture, CliError> {
    let mask = &built.mask;
    let (rows, cols) = (u64::from(mask.rows()), u64::from(mask.cols()));
    too_large(rows, cols, (IMAGE_SIDE, IMAGE_SIDE))?;
    let class = |row, col| match mask.reported_class(args.b, args.h, row, col) {
        BlockClass::Empty => 0,
        BlockClass::Partial => 1,
        BlockClass::Full => 2,
    };
    Ok(Picture {
        width: mask.cols() as usize,
        rows: (0..mask.rows())
            .map(|row| (0..mask.cols()).map(|col| class(row, col)).collect())
            .collect(),
    })
}

fn cells(built: &Built, args: &ShowArgs, most: (u64, u64)) -> Result<Picture, CliError> {
    let mask = &built.mask;
    let (q_len, kv_len) = (mask.q_len(), mask.kv_len());
    too_large(q_len, kv_len, most)?;
    let (rows, width) = (q_len as usize, kv_len as usize);
    let words = width.div_ceil(64);
    let mut bits = vec![0; rows * words];
    if width != 0 {
        let q0 = mask.geometry().q_offset();
        built
            .engine
            .tile(args.b, args.h, q0, rows, 0, width, &mut bits, words);
    }
    let row = |i: usize| -> Vec<u8> {
        let row = &bits[i * words..][..words];
        (0..width)
            .map(|j| (row[j / 64] >> (j % 64) & 1) as u8 * 2)
            .collect()
    };
    Ok(Picture {
        width,
        rows: (0..rows).map(row).collect(),
    })
}

fn too_large(rows: u64, cols: u64, most: (u64, u64)) -> Result<(), CliError> {
    if rows <= most.0 && cols <= most.1 {
        return Ok(());
    }
    Err(CliError::TooLarge {
        what: "a picture",
        cells: u128::from(rows) * u128::from(cols),
        help: "show blocks instead of cells, larger blocks, or shorter lengths",
    })
}

/// Pixels per cell or block.
fn zoom(picture: &Picture) -> usize {
    let longest = picture.width.max(picture.rows.len()).max(1) as u64;
    (IMAGE_AT_LEAST / longest).clamp(1, 32) as usize
}

fn write_png(picture: &Picture, path: &Path) -> Result<(), CliError> {
    let fail = |source| CliError::Png {
        path: path.to_owned(),
        source,
    };
    let zoom = zoom(picture);
    // No image is without a pixel; where there are no cells, one empty one stands for them.
    let blank = vec![vec![0; picture.width.max(1)]];
    let rows = if picture.rows.is_empty() || picture.width == 0 {
        &blank
    } else {
        &picture.rows
    };
    let width = picture.width.max(1) * zoom;
    let file = File::create(path).map_err(|source| CliError::Write {
        path: path.to_owned(),
        source,
    })?;
    let mut encoder = png::Encoder::new(
        BufWriter::new(file),
        width as u32,
        (rows.len() * zoom) as u32,
    );
    encoder.set_color(png::ColorType::Indexed);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_palette(COLOURS.concat());
    let mut data = Vec::with_capacity(width * rows.len() * zoom);
    for row in rows {
        let line: Vec<u8> = row
            .iter()
            .flat_map(|&class| std::iter::repeat_n(class, zoom))
            .collect();
        // A plane without keys has rows without cells.
        let line = if line.is_empty() {
            vec![0; width]
        } else {
            line
        };
        for _ in 0..zoom {
            data.extend_from_slice(&line);
        }
    }
    let mut writer = encoder.write_header().map_err(fail)?;
    writer.write_image_data(&data).map_err(fail)?;
    writer.finish().map_err(fail)
}

fn write_svg(picture: &Picture, path: &Path) -> Result<(), CliError> {
    let zoom = zoom(picture);
    let (width, height) = (picture.width * zoom, picture.rows.len() * zoom);
    let hex = |class: usize| output::hex(&COLOURS[class]);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {} {}\" \
         shape-rendering=\"crispEdges\">\n<rect width=\"100%\" height=\"100%\" fill=\"#{}\"/>\n",
        picture.width.max(1),
        picture.rows.len().max(1),
        hex(0)
    );
    for (y, row) in picture.rows.iter().enumerate() {
        let mut x = 0;
        while x < row.len() {
            let class = row[x];
            let run = row[x..].iter().take_while(|&&other| other == class).count();
            if class != 0 {
                let _ = writeln!(
                    text,
                    "<rect x=\"{x}\" y=\"{y}\" width=\"{run}\" height=\"1\" fill=\"#{}\"/>",
                    hex(usize::from(class))
                );
            }
            x += run;
        }
    }
    text.push_str("</svg>\n");
    fs::write(path, text).map_err(|source| CliError::Write {
        path: path.to_owned(),
        source,
    })
}
