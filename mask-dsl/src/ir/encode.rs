//! The canonical bytes of a rule, to name it by a hash and to store it.
//!
//! Nodes are numbered in the order in which a walk from the result, then from the declarations, leaves them. So the
//! bytes depend on what the rule computes and on the captures it takes, never on how its arena was filled.

mod codes;
mod read;

use sha2::{Digest, Sha256};

use self::codes::{binary_code, elem_code, ty_code, unary_code, var_code};
pub use self::read::{DecodeError, decode};
use super::arena::{Expr, ExprId};
use super::rule::{CaptureDecl, CaptureKind, Extent, Rule, RuleKind};

const MAGIC: &[u8; 4] = b"MWRL";
const VERSION: u8 = 1;

impl Rule {
    /// A hash of what the rule computes: its kind, its live nodes, and its captures in order with their types,
    /// extents and ranges. Names, documentation, source and spans do not count.
    pub fn identity(&self) -> [u8; 32] {
        let mut writer = Writer::default();
        writer.bytes.extend(b"maskwright rule identity");
        writer.byte(VERSION);
        writer.rule(self, Names::Left);
        Sha256::digest(&writer.bytes).into()
    }
}

/// The rule as bytes that [`decode`] reads. Source and spans are left out, as are nodes that nothing reads.
pub fn encode(rule: &Rule) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.bytes.extend(MAGIC);
    writer.byte(VERSION);
    writer.text(&rule.name);
    writer.text(&rule.doc);
    writer.rule(rule, Names::Kept);
    writer.bytes
}

/// Every node that the result or a declaration needs, operands first, in an order that only they decide.
pub(super) fn canonical_order(rule: &Rule) -> Vec<ExprId> {
    let mut order = Vec::new();
    let mut seen = vec![false; rule.arena.len()];
    let mut walk = |root: ExprId| {
        // Nodes to leave, and nodes to enter.
        let mut stack = vec![(root, false)];
        while let Some((id, leave)) = stack.pop() {
            if leave {
                order.push(id);
                continue;
            }
            if std::mem::replace(&mut seen[id.index()], true) {
                continue;
            }
            stack.push((id, true));
            let first = stack.len();
            let expr = rule.arena.expr(id);
            expr.for_each_operand(|operand| stack.push((operand, false)));
            stack[first..].reverse();
        }
    };
    walk(rule.root);
    for decl in &rule.captures {
        declared(decl).for_each(&mut walk);
    }
    order
}

/// The expressions of a declaration: extents, least and greatest value.
fn declared(decl: &CaptureDecl) -> impl Iterator<Item = ExprId> {
    let extents = match &decl.kind {
        CaptureKind::Scalar(_) => [].as_slice(),
        CaptureKind::Buffer { extents, .. } => extents,
    };
    extents
        .iter()
        .filter_map(|extent| match extent {
            Extent::AtLeast(id) => Some(*id),
            Extent::Unspecified => None,
        })
        .chain(decl.min)
        .chain(decl.max)
}

/// Whether names are written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Names {
    Kept,
    Left,
}

#[derive(Default)]
struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    fn byte(&mut self, byte: u8) {
        self.bytes.push(byte);
    }

    /// Seven bits at a time, least significant first.
    fn number(&mut self, mut number: u64) {
        while 0x80 <= number {
            self.byte(number as u8 | 0x80);
            number >>= 7;
        }
        self.byte(number as u8);
    }

    fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.bytes.extend(text.as_bytes());
    }

    fn rule(&mut self, rule: &Rule, names: Names) {
        self.byte(match rule.kind {
            RuleKind::Mask => 0,
            RuleKind::Score => 1,
        });
        self.number(rule.captures.len() as u64);
        for decl in &rule.captures {
            if names == Names::Kept {
                self.text(&decl.name);
            }
            match &decl.kind {
                CaptureKind::Scalar(ty) => {
                    self.byte(0);
                    self.byte(ty_code(*ty));
                }
                CaptureKind::Buffer { elem, extents } => {
                    self.byte(1);
                    self.byte(elem_code(*elem));
                    self.number(extents.len() as u64);
                }
            }
        }
        self.number(rule.dims.len() as u64);
        if names == Names::Kept {
            for decl in &rule.dims {
                self.text(&decl.name);
            }
        }
        let order = canonical_order(rule);
        let mut numbers = vec![0; rule.arena.len()];
        self.number(order.len() as u64);
        for (number, &id) in order.iter().enumerate() {
            numbers[id.index()] = number as u64;
            self.node(rule.arena.expr(id), &numbers);
        }
        self.number(numbers[rule.root.index()]);
        for decl in &rule.captures {
            if let CaptureKind::Buffer { extents, .. } = &decl.kind {
                for extent in extents {
                    self.optional(match extent {
                        Extent::AtLeast(id) => Some(numbers[id.index()]),
                        Extent::Unspecified => None,
                    });
                }
            }
            for bound in [decl.min, decl.max] {
                self.optional(bound.map(|id| numbers[id.index()]));
            }
        }
    }

    fn optional(&mut self, number: Option<u64>) {
        self.number(number.map_or(0, |number| number + 1));
    }

    fn node(&mut self, expr: &Expr, numbers: &[u64]) {
        match expr {
            Expr::Const(value) => {
                let (ty, bits) = value.key();
                self.byte(0);
                self.byte(ty_code(ty));
                self.number(bits);
            }
            Expr::Var(var) => {
                self.byte(1);
                self.byte(var_code(*var));
            }
            Expr::Scalar(slot) => {
                self.byte(2);
                self.number(u64::from(slot.0));
            }
            Expr::Dim(slot) => {
                self.byte(3);
                self.number(u64::from(slot.0));
            }
            Expr::Load { buffer, .. } => {
                self.byte(4);
                self.number(u64::from(buffer.0));
            }
            Expr::Unary { op, .. } => {
                self.byte(5);
                self.byte(unary_code(*op));
            }
            Expr::Binary { op, .. } => {
                self.byte(6);
                self.byte(binary_code(*op));
            }
            Expr::Clamp { .. } => self.byte(7),
            Expr::Cast { to, .. } => {
                self.byte(8);
                self.byte(ty_code(*to));
            }
            Expr::Select { .. } => self.byte(9),
            Expr::Then { .. } => self.byte(10),
        }
        expr.for_each_operand(|operand| self.number(numbers[operand.index()]));
    }
}

#[cfg(test)]
mod tests;
