//! Pictures of a mask in text.

use std::fmt::Write;
use std::ops::Range;

use super::format::reported;
use super::plane::segments;
use super::{BlockClass, BlockMask};

/// The characters of a picture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DrawStyle {
    /// `█` full, `░` partial, a space empty.
    #[default]
    Blocks,
    /// `F` full, `P` partial, `.` empty.
    Ascii,
}

impl DrawStyle {
    fn glyph(self, class: BlockClass) -> char {
        match (self, class) {
            (Self::Blocks, BlockClass::Full) => '█',
            (Self::Blocks, BlockClass::Partial) => '░',
            (Self::Blocks, BlockClass::Empty) => ' ',
            (Self::Ascii, BlockClass::Full) => 'F',
            (Self::Ascii, BlockClass::Partial) => 'P',
            (Self::Ascii, BlockClass::Empty) => '.',
        }
    }
}

/// Whether a picture says which positions it shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DrawLabels {
    /// Nothing but the blocks.
    #[default]
    None,
    /// The first key of the picture above it, and before each line its first query.
    Positions,
}

/// How to draw a mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrawOptions {
    /// The characters.
    pub style: DrawStyle,
    /// Whether positions are shown.
    pub labels: DrawLabels,
    /// Lines at most; beyond them, several block rows share a line.
    pub max_rows: u32,
    /// Characters per line at most; beyond them, several block columns share a character.
    pub max_cols: u32,
}

impl Default for DrawOptions {
    fn default() -> Self {
        Self {
            style: DrawStyle::Blocks,
            labels: DrawLabels::None,
            max_rows: 64,
            max_cols: 128,
        }
    }
}

const EMPTY: u8 = 1;
const PARTIAL: u8 = 2;
const FULL: u8 = 4;

impl BlockMask {
    /// Draws the reported classes of one batch entry and head, a line per block row.
    ///
    /// Where several blocks share a character it is full or empty only if all of them are.
    ///
    /// # Panics
    /// As [`BlockMask::plane_index`].
    pub fn draw(&self, b: u32, h: u32, options: DrawOptions) -> String {
        let lines = options.max_rows.clamp(1, self.rows().max(1));
        let width = options.max_cols.clamp(1, self.cols().max(1));
        let mut out = String::new();
        let label_of = |line| {
            self.geometry().q_idx(
                self.geometry()
                    .row_span(share(line, self.rows(), lines).start)
                    .start,
            )
        };
        let margin = match options.labels {
            DrawLabels::None => None,
            DrawLabels::Positions => {
                let widest = (0..lines)
                    .map(|line| label_of(line).to_string().len())
                    .max();
                Some(widest.unwrap_or(1))
            }
        };
        if let Some(margin) = margin {
            let _ = writeln!(out, "{:margin$} {}", "", self.geometry().kv_offset());
        }
        for line in 0..lines {
            let mut seen = vec![0_u8; if self.cols() == 0 { 0 } else { width as usize }];
            for row in share(line, self.rows(), lines) {
                self.draw_row(b, h, row, width, &mut seen);
            }
            if self.rows() == 0 {
                break;
            }
            if let Some(margin) = margin {
                let _ = write!(out, "{:>margin$} ", label_of(line));
            }
            out.extend(seen.iter().map(|&classes| {
                options.style.glyph(match classes {
                    FULL => BlockClass::Full,
                    EMPTY => BlockClass::Empty,
                    _ => BlockClass::Partial,
                })
            }));
            out.push('\n');
        }
        out
    }

    /// Notes the classes of one block row in the characters that they fall on.
    fn draw_row(&self, b: u32, h: u32, row: u32, width: u32, seen: &mut [u8]) {
        let geometry = self.geometry();
        let mut note = |cols: Range<u32>, class: BlockClass| {
            let bit = match class {
                BlockClass::Full => FULL,
                BlockClass::Partial => PARTIAL,
                BlockClass::Empty => EMPTY,
            };
            let character = |col| {
                (((u64::from(col) + 1) * u64::from(width) - 1) / u64::from(self.cols())) as usize
            };
            if !cols.is_empty() {
                for at in &mut seen[character(cols.start)..=character(cols.end - 1)] {
                    *at |= bit;
                }
            }
        };
        for (cols, class) in segments(self.row(b, h, row), self.cols()) {
            let last = cols.end - 1;
            note(
                cols.start..last,
                reported(class, geometry.row_overhangs(row)),
            );
            note(
                last..cols.end,
                reported(class, geometry.overhangs(row, last)),
            );
        }
    }
}

/// The blocks that fall on one of `n` equal shares of an axis.
fn share(index: u32, blocks: u32, n: u32) -> Range<u32> {
    let edge = |index: u32| (u64::from(index) * u64::from(blocks) / u64::from(n)) as u32;
    edge(index)..edge(index + 1)
}

#[cfg(test)]
mod tests {
    use super::super::model::{causal, exact};
    use super::*;

    fn ascii(max: u32) -> DrawOptions {
        DrawOptions {
            style: DrawStyle::Ascii,
            max_rows: max,
            max_cols: max,
            ..DrawOptions::default()
        }
    }

    #[test]
    fn causal_is_full_below_the_diagonal() {
        let mask = exact(8, 8, (2, 2), &causal());
        assert_eq!(mask.draw(0, 0, ascii(9)), "P...\nFP..\nFFP.\nFFFP\n");
        assert_eq!(
            mask.draw(0, 0, DrawOptions::default()),
            "░   \n█░  \n██░ \n███░\n"
        );
    }

    #[test]
    fn several_blocks_share_a_character() {
        let mask = exact(8, 8, (1, 1), &causal());
        assert_eq!(mask.draw(0, 0, ascii(4)), "P...\nFP..\nFFP.\nFFFP\n");
        assert_eq!(mask.draw(0, 0, ascii(3)), "P..\nFP.\nFFP\n");
        assert_eq!(mask.draw(0, 0, ascii(0)), "P\n");
    }

    #[test]
    fn an_overhanging_block_is_drawn_as_reported() {
        let mask = exact(5, 3, (2, 2), &super::super::CellFn(|_, _, _, _| true));
        assert_eq!(mask.draw(0, 0, ascii(9)), "FP\nFP\nPP\n");
    }

    #[test]
    fn labels_are_absolute_positions() {
        let mask = exact(8, 8, (2, 2), &causal())
            .slice_q(4..8)
            .unwrap()
            .slice_kv(2..8)
            .unwrap();
        let options = DrawOptions {
            labels: DrawLabels::Positions,
            ..ascii(9)
        };
        assert_eq!(mask.draw(0, 0, options), "  2\n4 FP.\n6 FFP\n");
    }

    #[test]
    fn nothing_is_drawn_as_nothing() {
        assert_eq!(exact(0, 8, (2, 2), &causal()).draw(0, 0, ascii(9)), "");
        assert_eq!(exact(3, 0, (2, 2), &causal()).draw(0, 0, ascii(9)), "\n\n");
    }
}
