//! Elements that carry their own position, against the ISA's figures for `ldmatrix`, `stmatrix` and `movmatrix`.
use super::*;

/// Element `(row, column)` of matrix `i` says where it stands.
fn tag(i: usize, row: usize, column: usize) -> u16 {
    (0x1000 * (i + 1) + 0x10 * row + column) as u16
}

fn tagged(count: usize) -> Vec<Row> {
    (0..8 * count)
        .map(|lane| {
            let mut row = [0; 16];
            for column in 0..8 {
                row[2 * column..2 * column + 2]
                    .copy_from_slice(&tag(lane / 8, lane % 8, column).to_le_bytes());
            }
            row
        })
        .collect()
}

fn parse(text: &str) -> Option<MatrixOp> {
    MatrixOp::parse(&text.split('.').collect::<Vec<_>>())
}

#[test]
fn each_lane_gets_two_neighbours_of_a_row() {
    for (form, count) in [("x1", 1), ("x2", 2), ("x4", 4)] {
        let op = parse(&format!("sync.aligned.m8n8.{form}.shared.b16")).unwrap();
        let mut d = vec![[0; 32]; count];
        ldmatrix(&op, &tagged(count), &mut d);
        for (i, register) in d.iter().enumerate() {
            for (lane, &word) in register.iter().enumerate() {
                let (low, high) = (
                    tag(i, lane / 4, 2 * (lane % 4)),
                    tag(i, lane / 4, 2 * (lane % 4) + 1),
                );
                assert_eq!(
                    word,
                    u32::from(high) << 16 | u32::from(low),
                    "{form}: register {i}, lane {lane}"
                );
            }
        }
    }
}

#[test]
fn transposed_each_lane_gets_two_neighbours_of_a_column() {
    for (form, count) in [("x1", 1), ("x2", 2), ("x4", 4)] {
        let op = parse(&format!("sync.aligned.m8n8.{form}.trans.shared.b16")).unwrap();
        let mut d = vec![[0; 32]; count];
        ldmatrix(&op, &tagged(count), &mut d);
        for (i, register) in d.iter().enumerate() {
            for (lane, &word) in register.iter().enumerate() {
                let (low, high) = (
                    tag(i, 2 * (lane % 4), lane / 4),
                    tag(i, 2 * (lane % 4) + 1, lane / 4),
                );
                assert_eq!(
                    word,
                    u32::from(high) << 16 | u32::from(low),
                    "{form}: register {i}, lane {lane}"
                );
            }
        }
    }
}

#[test]
fn stmatrix_undoes_ldmatrix() {
    for form in ["x1", "x2", "x4", "x1.trans", "x2.trans", "x4.trans"] {
        let op = parse(&format!("sync.aligned.m8n8.{form}.shared.b16")).unwrap();
        let rows = tagged(op.count);
        let mut registers = vec![[0; 32]; op.count];
        ldmatrix(&op, &rows, &mut registers);
        let mut back = vec![[0; 16]; op.rows()];
        stmatrix(&op, &registers, &mut back);
        assert_eq!(back, rows, "{form}");
    }
}

#[test]
fn movmatrix_transposes() {
    // Lane l holds (l / 4, 2 (l % 4)) and its right neighbour, before and after.
    let a: Lanes = std::array::from_fn(|lane| {
        let (row, column) = (lane / 4, 2 * (lane % 4));
        u32::from(tag(0, row, column + 1)) << 16 | u32::from(tag(0, row, column))
    });
    let d = movmatrix(&a);
    for (lane, &word) in d.iter().enumerate() {
        let (row, column) = (lane / 4, 2 * (lane % 4));
        assert_eq!(
            word,
            u32::from(tag(0, column + 1, row)) << 16 | u32::from(tag(0, column, row)),
            "lane {lane}"
        );
    }
    assert_eq!(movmatrix(&d), a);
}

#[test]
fn other_forms_are_refused() {
    assert!(parse("sync.aligned.m8n8.x4.trans.shared::cta.b16").is_some());
    assert!(parse("sync.aligned.m8n8.x4.b16").is_some());
    for form in [
        "sync.aligned.m8n8.x3.shared.b16",
        "sync.aligned.m16n16.x1.trans.shared.b8",
        "sync.aligned.m8n8.x4.shared.b8",
        "x4",
    ] {
        assert_eq!(parse(form), None, "{form}");
    }
    assert!(is_movmatrix(&["sync", "aligned", "m8n8", "trans", "b16"]));
    assert!(!is_movmatrix(&["sync", "aligned", "m8n8", "b16"]));
}
