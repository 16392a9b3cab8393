//! Rules written as s-expressions, for tests of the stages behind the parser.
//!
//! Captures are `window i32 1 64` (a scalar with its range) and `doc i32 [kv_len _] 0 (- docs 1)`; a buffer is read as
//! `(doc q kv)`, everything else is `(operator operand …)`.

use std::sync::Arc;

use crate::bind::BoundRule;
use crate::capture::{BufferData, CaptureValue, CapturedBuffer};
use crate::ir::{
    Arena, BinaryOp, CaptureDecl, CaptureId, CaptureKind, Const, DimDecl, DimId, Elem, Expr,
    ExprId, Extent, MathFn, Rule, RuleKind, Source, Span, Ty, UnaryOp, Var,
};

/// A mask or score (by the type of the root) with these captures and dimension names.
pub(crate) fn rule(dims: &[&str], captures: &[&str], root: &str) -> Rule {
    let mut reader = Reader {
        arena: Arena::new(),
        captures: Vec::new(),
        dims: dims.iter().map(|&name| name.to_owned()).collect(),
        text: String::new(),
        at: 0,
        with_spans: false,
    };
    for capture in captures {
        reader.capture(capture);
    }
    reader.text = root.to_owned();
    reader.at = 0;
    reader.with_spans = true;
    let root = reader.expr();
    let kind = match reader.arena.ty(root) {
        Ty::Bool => RuleKind::Mask,
        Ty::F32 => RuleKind::Score,
        other => panic!("a rule gives bool or f32, not {other}"),
    };
    Rule {
        name: "test".to_owned(),
        doc: String::new(),
        kind,
        captures: reader.captures,
        dims: reader
            .dims
            .into_iter()
            .map(|name| DimDecl { name, span: None })
            .collect(),
        arena: reader.arena,
        root,
        source: Some(Arc::new(Source {
            name: "test".to_owned(),
            text: reader.text,
        })),
    }
}

/// [`rule`] with values bound.
#[track_caller]
pub(crate) fn bound(
    dims: &[&str],
    captures: &[&str],
    root: &str,
    values: Vec<CaptureValue>,
) -> BoundRule {
    BoundRule::new(Arc::new(rule(dims, captures, root)), values, &[])
        .expect("the values fit the captures")
}

/// A one-dimensional `i32` buffer.
pub(crate) fn ints(values: impl IntoIterator<Item = i32>) -> CaptureValue {
    let values: Vec<i32> = values.into_iter().collect();
    shaped(BufferData::I32(values.clone().into()), &[values.len()])
}

/// A buffer of any type.
pub(crate) fn shaped(data: BufferData, shape: &[usize]) -> CaptureValue {
    CaptureValue::Buffer(CapturedBuffer::new(data, shape.to_vec()).expect("the shape fits"))
}

/// An `i32` scalar.
pub(crate) fn int(v: i32) -> CaptureValue {
    CaptureValue::Scalar(Const::I32(v))
}

struct Reader {
    arena: Arena,
    captures: Vec<CaptureDecl>,
    dims: Vec<String>,
    text: String,
    at: usize,
    with_spans: bool,
}

impl Reader {
    fn skip(&mut self) {
        while self.text[self.at..].starts_with(char::is_whitespace) {
            self.at += 1;
        }
    }

    fn eat(&mut self, c: char) -> bool {
        self.skip();
        let found = self.text[self.at..].starts_with(c);
        self.at += usize::from(found);
        found
    }

    fn is_at_end(&mut self) -> bool {
        self.skip();
        self.at == self.text.len()
    }

    fn word(&mut self) -> String {
        self.skip();
        let rest = &self.text[self.at..];
        let end = rest
            .find(|c: char| c.is_whitespace() || "()[]".contains(c))
            .unwrap_or(rest.len());
        self.at += end;
        rest[..end].to_owned()
    }

    fn capture(&mut self, text: &str) {
        self.text = text.to_owned();
        self.at = 0;
        let name = self.word();
        let elem = self.word();
        let kind = if self.eat('[') {
            let mut extents = Vec::new();
            while !self.eat(']') {
                extents.push(if self.eat('_') {
                    Extent::Unspecified
                } else {
                    Extent::AtLeast(self.expr())
                });
            }
            let elem = Elem::from_name(&elem).expect("an element type");
            CaptureKind::Buffer { elem, extents }
        } else {
            CaptureKind::Scalar(Ty::from_name(&elem).expect("a type"))
        };
        let min = (!self.is_at_end()).then(|| self.expr());
        let max = (!self.is_at_end()).then(|| self.expr());
        self.captures.push(CaptureDecl {
            name,
            kind,
            min,
            max,
            span: None,
        });
    }

    fn slot(&self, name: &str) -> Option<CaptureId> {
        let at = self.captures.iter().position(|decl| decl.name == name)?;
        Some(CaptureId(at as u32))
    }

    fn expr(&mut self) -> ExprId {
        self.skip();
        let start = self.at as u32;
        let (expr, ty) = if self.eat('(') {
            self.list()
        } else {
            let word = self.word();
            self.leaf(&word)
        };
        let span = self.with_spans.then_some(Span {
            start,
            end: self.at as u32,
        });
        self.arena
            .intern(expr, ty, span)
            .unwrap_or_else(|error| panic!("{}: {error}", self.text))
    }

    fn leaf(&self, word: &str) -> (Expr, Option<Ty>) {
        if let Some(slot) = self.slot(word) {
            let ty = self.captures[slot.index()].value_ty();
            return (Expr::Scalar(slot), Some(ty));
        }
        if let Some(dim) = self.dims.iter().position(|name| name == word) {
            return (Expr::Dim(DimId(dim as u32)), None);
        }
        if let Some(var) = Var::from_name(word) {
            return (Expr::Var(var), None);
        }
        let value = match word {
            "true" => Const::Bool(true),
            "false" => Const::Bool(false),
            "inf" => Const::F32(f32::INFINITY),
            "-inf" => Const::F32(f32::NEG_INFINITY),
            _ => {
                if let Some(v) = word.strip_suffix("i64") {
                    Const::I64(v.parse().expect("an i64"))
                } else if let Some(v) = word.strip_suffix("u32") {
                    Const::U32(v.parse().expect("a u32"))
                } else if word.contains('.') {
                    Const::F32(word.parse().expect("a float"))
                } else {
                    Const::I32(word.parse().unwrap_or_else(|_| panic!("no word {word}")))
                }
            }
        };
        (Expr::Const(value), None)
    }

    fn list(&mut self) -> (Expr, Option<Ty>) {
        let head = self.word();
        let to = (head == "as").then(|| self.word());
        let mut args = Vec::new();
        while !self.eat(')') {
            args.push(self.expr());
        }
        if let Some(to) = to {
            let to = Ty::from_name(&to).expect("a type");
            return (Expr::Cast { to, arg: args[0] }, None);
        }
        if let Some(buffer) = self.slot(&head) {
            let ty = self.captures[buffer.index()].value_ty();
            let index = args.into();
            return (Expr::Load { buffer, index }, Some(ty));
        }
        let expr = match (head.as_str(), &args[..]) {
            ("if", &[cond, then, otherwise]) => Expr::Select {
                cond,
                then,
                otherwise,
            },
            ("let", &[first, value]) => Expr::Then { first, value },
            ("clamp", &[arg, lo, hi]) => Expr::Clamp { arg, lo, hi },
            (name, &[arg]) => Expr::Unary {
                op: unary_op(name),
                arg,
            },
            (name, &[lhs, rhs]) => Expr::Binary {
                op: binary_op(name),
                lhs,
                rhs,
            },
            (name, args) => panic!("no {name} of {} operands", args.len()),
        };
        (expr, None)
    }
}

fn unary_op(name: &str) -> UnaryOp {
    match name {
        "!" => UnaryOp::Not,
        "-" => UnaryOp::Neg,
        "wrapping_neg" => UnaryOp::WrappingNeg,
        "abs" => UnaryOp::Abs,
        "signum" => UnaryOp::Signum,
        _ => MathFn::ALL
            .into_iter()
            .find(|f| f.name() == name)
            .map_or_else(|| panic!("no operator {name}"), UnaryOp::Math),
    }
}

/// Every operator with two operands.
pub(crate) const BINARY_OPS: [BinaryOp; 30] = [
    BinaryOp::Add,
    BinaryOp::Sub,
    BinaryOp::Mul,
    BinaryOp::Div,
    BinaryOp::Rem,
    BinaryOp::DivFloor,
    BinaryOp::RemFloor,
    BinaryOp::DivEuclid,
    BinaryOp::RemEuclid,
    BinaryOp::Pow,
    BinaryOp::Powi,
    BinaryOp::Powf,
    BinaryOp::WrappingAdd,
    BinaryOp::WrappingSub,
    BinaryOp::WrappingMul,
    BinaryOp::BitAnd,
    BinaryOp::BitOr,
    BinaryOp::BitXor,
    BinaryOp::Shl,
    BinaryOp::Shr,
    BinaryOp::Min,
    BinaryOp::Max,
    BinaryOp::And,
    BinaryOp::Or,
    BinaryOp::Eq,
    BinaryOp::Ne,
    BinaryOp::Lt,
    BinaryOp::Le,
    BinaryOp::Gt,
    BinaryOp::Ge,
];

fn binary_op(name: &str) -> BinaryOp {
    BINARY_OPS
        .into_iter()
        .find(|op| op.symbol() == name)
        .unwrap_or_else(|| panic!("no operator {name}"))
}
