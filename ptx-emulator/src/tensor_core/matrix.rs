//! `ldmatrix`, `stmatrix` and `movmatrix`: 8 x 8 matrices of 16-bit elements between rows of shared memory and fragments of a warp.
use super::Lanes;

/// A row of a matrix in shared memory, at the address that one lane gave.
pub type Row = [u8; 16];

/// Whether rows of memory become rows or columns of the fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// Row by row
    Rows,
    /// `.trans`
    Transposed,
}

/// A form of `ldmatrix` or `stmatrix`: `m8n8`, `b16`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MatrixOp {
    /// How many matrices, and registers: 1, 2 or 4.
    pub count: usize,
    /// Whether `.trans` stands.
    pub order: Order,
}

impl MatrixOp {
    /// Parses what follows `ldmatrix.` or `stmatrix.`: `sync`, `aligned`, `m8n8`, `x1`, `x2` or `x4`, perhaps `trans`, the space, `b16`.
    ///
    /// `None` for another form, such as the 8-bit ones of later architectures.
    pub fn parse<S: AsRef<str>>(modifiers: &[S]) -> Option<Self> {
        let names: Vec<&str> = modifiers.iter().map(AsRef::as_ref).collect();
        let ["sync", "aligned", "m8n8", count, rest @ ..] = names.as_slice() else {
            return None;
        };
        let (order, rest) = match rest {
            ["trans", rest @ ..] => (Order::Transposed, rest),
            rest => (Order::Rows, rest),
        };
        let (["shared" | "shared::cta", "b16"] | ["b16"]) = rest else {
            return None;
        };
        let count = match *count {
            "x1" => 1,
            "x2" => 2,
            "x4" => 4,
            _ => return None,
        };
        Some(Self { count, order })
    }

    /// How many lanes, from lane 0, give the address of a row: lane `8 i + r` that of row `r` of matrix `i`.
    pub fn rows(&self) -> usize {
        8 * self.count
    }
}

/// Loads matrices: `rows` in order of the lanes that gave their addresses, one register of `d` per matrix.
///
/// Lane `l` gets elements `(l / 4, 2 (l % 4))` and `(l / 4, 2 (l % 4) + 1)`, row and column swapped if transposed.
///
/// # Panics
/// If there are not [`MatrixOp::rows`] rows and [`MatrixOp::count`] registers.
pub fn ldmatrix(op: &MatrixOp, rows: &[Row], d: &mut [Lanes]) {
    assert!(
        rows.len() == op.rows() && d.len() == op.count,
        "ldmatrix: {} rows and {} registers for {op:?}",
        rows.len(),
        d.len()
    );
    for (register, matrix) in d.iter_mut().zip(rows.chunks_exact(8)) {
        for (lane, word) in register.iter_mut().enumerate() {
            let (major, minor) = (lane / 4, 2 * (lane % 4));
            *word = match op.order {
                Order::Rows => pair(
                    element(matrix, major, minor),
                    element(matrix, major, minor + 1),
                ),
                Order::Transposed => pair(
                    element(matrix, minor, major),
                    element(matrix, minor + 1, major),
                ),
            };
        }
    }
}

/// Stores matrices, the reverse of [`ldmatrix`].
///
/// # Panics
/// If there are not [`MatrixOp::rows`] rows and [`MatrixOp::count`] registers.
pub fn stmatrix(op: &MatrixOp, registers: &[Lanes], rows: &mut [Row]) {
    assert!(
        rows.len() == op.rows() && registers.len() == op.count,
        "stmatrix: {} rows and {} registers for {op:?}",
        rows.len(),
        registers.len()
    );
    for (register, matrix) in registers.iter().zip(rows.chunks_exact_mut(8)) {
        for (lane, word) in register.iter().enumerate() {
            let (major, minor) = (lane / 4, 2 * (lane % 4));
            for (i, value) in [*word as u16, (*word >> 16) as u16].into_iter().enumerate() {
                let (row, column) = match op.order {
                    Order::Rows => (major, minor + i),
                    Order::Transposed => (minor + i, major),
                };
                matrix[row][2 * column..2 * column + 2].copy_from_slice(&value.to_le_bytes());
            }
        }
    }
}

/// Whether what follows `movmatrix.` is the one form that there is.
pub fn is_movmatrix<S: AsRef<str>>(modifiers: &[S]) -> bool {
    modifiers
        .iter()
        .map(AsRef::as_ref)
        .eq(["sync", "aligned", "m8n8", "trans", "b16"])
}

/// Transposes an 8 x 8 matrix of 16-bit elements across the lanes of a warp.
pub fn movmatrix(a: &Lanes) -> Lanes {
    let mut rows = [[0; 16]; 8];
    stmatrix(
        &MatrixOp {
            count: 1,
            order: Order::Rows,
        },
        std::slice::from_ref(a),
        &mut rows,
    );
    let mut d = [0; 32];
    ldmatrix(
        &MatrixOp {
            count: 1,
            order: Order::Transposed,
        },
        &rows,
        std::slice::from_mut(&mut d),
    );
    d
}

fn element(matrix: &[Row], row: usize, column: usize) -> u16 {
    u16::from_le_bytes([matrix[row][2 * column], matrix[row][2 * column + 1]])
}

fn pair(low: u16, high: u16) -> u32 {
    u32::from(high) << 16 | u32::from(low)
}

#[cfg(test)]
mod tests;
