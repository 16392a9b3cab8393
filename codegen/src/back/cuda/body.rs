//! The statements of one function of a rule: shared values become locals, everything else stands where it is used.

use std::collections::BTreeMap;

use maskwright_dsl::ir::{BinaryOp, CaptureId, Const, Elem, Expr, ExprId, Rule, Ty, Var};

use super::captures::Captures;
use super::expr::{Accuracy, Mode, Operators};
use super::literal::literal;
use super::names::{Names, plain};
use super::place::{Facts, index_of_row, source};
use super::precedence::{Precedence, Printed};
use super::support::{Support, c_type};

/// Operators that one statement may nest; compilers and readers both have a limit.
const MAX_HEIGHT: u32 = 16;

/// Operators that one statement may hold.
const MAX_SIZE: u32 = 48;

/// What a function computes of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Goal {
    /// Its value.
    Value(ExprId),
    /// Of a read, the part of the position that does not depend on the key.
    Offset(ExprId),
}

/// What stays the same through all functions of a rule.
pub(super) struct Writer<'a> {
    pub(super) rule: &'a Rule,
    pub(super) facts: &'a Facts,
    pub(super) decides: &'a [bool],
    pub(super) captures: Captures<'a>,
    pub(super) operators: Operators,
}

/// A function as it is written.
pub(super) struct Body {
    /// One line each, without indentation.
    pub(super) statements: Vec<String>,
    /// The text of each goal, in their order.
    pub(super) goals: Vec<Printed>,
}

/// Where a shared value goes.
struct Local {
    mode: Mode,
    /// Whether it has a name, and is not only text.
    named: bool,
}

impl Writer<'_> {
    /// Writes the statements that compute `goals`. `known` are values that have names already; a goal with a name in
    /// `fields` is stored under it.
    pub(super) fn body(
        &mut self,
        goals: &[Goal],
        known: &BTreeMap<Goal, String>,
        fields: &BTreeMap<Goal, String>,
        names: &mut Names,
    ) -> Body {
        let rule = self.rule;
        let plan = self.plan(goals, known, fields);
        let mut texts: BTreeMap<ExprId, Printed> = BTreeMap::new();
        let mut statements = Vec::new();
        for (&id, local) in &plan {
            let printed = match known.get(&Goal::Value(id)) {
                Some(name) => Printed::atom(name.clone()),
                None => self.node(id, local.mode, &texts, known),
            };
            let printed = if let Some(field) = fields.get(&Goal::Value(id)) {
                statements.push(format!("{field} = {};", printed.text));
                Printed::atom(field.clone())
            } else if local.named {
                let name = match self.describe(id, 2) {
                    Some(name) => names.take(&name),
                    None => names.take_temporary(),
                };
                let ty = c_type(rule.arena.ty(id));
                statements.push(format!("const {ty} {name} = {};", printed.text));
                Printed::atom(name)
            } else {
                printed
            };
            texts.insert(id, printed);
        }
        let mut results = Vec::new();
        for goal in goals {
            let printed = match *goal {
                Goal::Value(id) => texts[&id].clone(),
                Goal::Offset(id) => {
                    let offset = self.offset_of_row(id, &texts);
                    let field = fields.get(goal).expect("a row has a name for it");
                    statements.push(format!("{field} = {};", offset.text));
                    Printed::atom(field.clone())
                }
            };
            results.push(printed);
        }
        Body {
            statements,
            goals: results,
        }
    }

    /// Which nodes the goals need here, and which of them get names.
    fn plan(
        &self,
        goals: &[Goal],
        known: &BTreeMap<Goal, String>,
        fields: &BTreeMap<Goal, String>,
    ) -> BTreeMap<ExprId, Local> {
        let rule = self.rule;
        let arena = &rule.arena;
        let mut used = vec![0u32; arena.len()];
        for goal in goals {
            match *goal {
                Goal::Value(id) => used[id.index()] += 1,
                Goal::Offset(id) => {
                    for i in self.operands(id, known) {
                        used[i.index()] += u32::from(index_of_row(rule, self.facts, i));
                    }
                }
            }
        }
        for id in arena.ids().rev() {
            if used[id.index()] != 0 {
                for operand in self.operands(id, known) {
                    used[operand.index()] = used[operand.index()].saturating_add(1);
                }
            }
        }
        let is_named = |id: ExprId| {
            2 <= used[id.index()]
                && !is_leaf(arena.expr(id))
                && !known.contains_key(&Goal::Value(id))
        };
        // Text that grows beyond what a statement should hold is named as well.
        let mut named = vec![false; arena.len()];
        let mut extent = vec![(0u32, 0u32); arena.len()];
        for id in arena.ids().filter(|id| used[id.index()] != 0) {
            let (mut height, mut size) = (0, 1);
            for operand in self.operands(id, known) {
                let (h, s) = extent[operand.index()];
                height = height.max(h + 1);
                size += s;
            }
            named[id.index()] = is_named(id) || MAX_HEIGHT < height || MAX_SIZE < size;
            let leaf = named[id.index()] || fields.contains_key(&Goal::Value(id));
            extent[id.index()] = if leaf { (0, 1) } else { (height, size) };
        }
        let mut modes = vec![Mode::Exact; arena.len()];
        for id in arena.ids().rev().filter(|id| used[id.index()] != 0) {
            let at = id.index();
            let apart = named[at] || fields.contains_key(&Goal::Value(id));
            if self.facts.certain[at] {
                modes[at] = Mode::Exact;
            } else if apart {
                modes[at] = Mode::Guarded;
            }
            let guarded_read =
                modes[at] == Mode::Guarded && matches!(arena.expr(id), Expr::Load { .. });
            for operand in self.operands(id, known) {
                let is_field = fields.contains_key(&Goal::Value(operand));
                // A guarded read names its indices twice.
                named[operand.index()] |= guarded_read
                    && !is_field
                    && !is_leaf(arena.expr(operand))
                    && !known.contains_key(&Goal::Value(operand));
                modes[operand.index()] = modes[at];
            }
        }
        arena
            .ids()
            .filter(|id| used[id.index()] != 0)
            .map(|id| {
                let at = id.index();
                let local = Local {
                    mode: modes[at],
                    named: named[at],
                };
                (id, local)
            })
            .collect()
    }

    /// The operands whose text stands in the text of `id`.
    fn operands(&self, id: ExprId, known: &BTreeMap<Goal, String>) -> Vec<ExprId> {
        let rule = self.rule;
        let mut operands = Vec::new();
        if known.contains_key(&Goal::Value(id)) {
            return operands;
        }
        let kept = known.contains_key(&Goal::Offset(id));
        rule.arena.expr(id).for_each_operand(|operand| {
            let operand = source(rule, operand);
            if !(kept && index_of_row(rule, self.facts, operand)) {
                operands.push(operand);
            }
        });
        operands
    }

    /// The text of a node, from those of its operands.
    fn node(
        &mut self,
        id: ExprId,
        mode: Mode,
        texts: &BTreeMap<ExprId, Printed>,
        known: &BTreeMap<Goal, String>,
    ) -> Printed {
        let rule = self.rule;
        let arena = &rule.arena;
        let at = |id: &ExprId| &texts[&source(rule, *id)];
        let accuracy = if self.decides[id.index()] {
            Accuracy::Bits
        } else {
            Accuracy::Close
        };
        match arena.expr(id) {
            Expr::Const(_) | Expr::Var(_) | Expr::Scalar(_) | Expr::Dim(_) => self.leaf(id),
            Expr::Load { buffer, index } => self.load(id, *buffer, index, mode, texts, known),
            Expr::Unary { op, arg } => {
                let ty = arena.ty(*arg);
                self.operators.unary(*op, ty, mode, accuracy, at(arg))
            }
            Expr::Binary { op, lhs, rhs } => {
                let right = arena.as_const(source(rule, *rhs));
                let operands = [at(lhs), at(rhs)];
                let ty = arena.ty(*lhs);
                self.operators
                    .binary(*op, ty, mode, accuracy, operands, right)
            }
            Expr::Clamp { arg, lo, hi } => self
                .operators
                .clamp(arena.ty(id), [at(arg), at(lo), at(hi)]),
            Expr::Cast { to, arg } => self.operators.cast(arena.ty(*arg), *to, at(arg)),
            Expr::Select {
                cond,
                then,
                otherwise,
            } => Printed::ternary(at(cond), at(then), at(otherwise)),
            Expr::Then { .. } => unreachable!("only the value of a `let` is planned"),
        }
    }

    fn leaf(&mut self, id: ExprId) -> Printed {
        match self.rule.arena.expr(id) {
            Expr::Const(value) => literal(*value),
            Expr::Var(var) => Printed::atom(variable(*var)),
            Expr::Scalar(slot) => Printed::atom(self.captures.scalar(*slot)),
            Expr::Dim(dim) => Printed::atom(self.captures.dim(*dim)),
            Expr::Load { .. }
            | Expr::Unary { .. }
            | Expr::Binary { .. }
            | Expr::Clamp { .. }
            | Expr::Cast { .. }
            | Expr::Select { .. }
            | Expr::Then { .. } => unreachable!("only leaves are printed as such"),
        }
    }

    /// A read. Guarded, it reads 0 where an index leaves its axis.
    fn load(
        &mut self,
        id: ExprId,
        buffer: CaptureId,
        index: &[ExprId],
        mode: Mode,
        texts: &BTreeMap<ExprId, Printed>,
        known: &BTreeMap<Goal, String>,
    ) -> Printed {
        let rule = self.rule;
        let mut terms = Vec::new();
        let kept = known.get(&Goal::Offset(id));
        if let Some(offset) = kept {
            terms.push(Printed::atom(offset.clone()));
        }
        for (axis, i) in index.iter().map(|i| source(rule, *i)).enumerate() {
            if kept.is_none() || !index_of_row(rule, self.facts, i) {
                terms.extend(self.step(buffer, axis, i, &texts[&i]));
            }
        }
        let position = add(terms);
        let read = self.element(buffer, &position);
        if mode == Mode::Exact || index.is_empty() {
            return read;
        }
        let mut in_range = Vec::new();
        for (axis, i) in index.iter().map(|i| source(rule, *i)).enumerate() {
            // An index that went into the offset of the row is a leaf here.
            let i_text = match texts.get(&i) {
                Some(text) => text.clone(),
                None => self.leaf(i),
            };
            if !self.is_never_negative(i) {
                let zero = Printed::atom("0");
                in_range.push(Printed::infix("<=", Precedence::Relation, &zero, &i_text));
            }
            let len = Printed::atom(self.captures.extent(buffer, axis));
            in_range.push(Printed::infix("<", Precedence::Relation, &i_text, &len));
        }
        let in_range = in_range
            .into_iter()
            .reduce(|all, next| Printed::infix("&&", Precedence::And, &all, &next))
            .expect("a read without an index returned above");
        let nothing = match rule.arena.ty(id) {
            Ty::Bool => "false",
            Ty::F32 => "0.0f",
            Ty::I32 | Ty::I64 | Ty::U32 => "0",
        };
        Printed::ternary(&in_range, &read, &Printed::atom(nothing))
    }

    fn is_never_negative(&self, id: ExprId) -> bool {
        let arena = &self.rule.arena;
        let literal = arena.as_const(id).and_then(Const::as_int);
        literal.is_some_and(|v| 0 <= v)
            || arena.ty(id) == Ty::U32
            || matches!(arena.expr(id), Expr::Var(Var::B | Var::H | Var::KvIdx))
    }

    /// What an index adds to a position: nothing for 0.
    fn step(
        &mut self,
        buffer: CaptureId,
        axis: usize,
        i: ExprId,
        text: &Printed,
    ) -> Option<Printed> {
        match self.rule.arena.as_const(i).and_then(Const::as_int) {
            Some(0) => None,
            Some(1) => Some(Printed::atom(self.captures.stride(buffer, axis))),
            Some(_) | None => {
                let stride = Printed::atom(self.captures.stride(buffer, axis));
                Some(Printed::infix("*", Precedence::Product, text, &stride))
            }
        }
    }

    /// The part of the position of a read that does not depend on the key.
    fn offset_of_row(&mut self, id: ExprId, texts: &BTreeMap<ExprId, Printed>) -> Printed {
        let rule = self.rule;
        let Expr::Load { buffer, index } = rule.arena.expr(id) else {
            unreachable!("only reads have a position")
        };
        let mut terms = Vec::new();
        for (axis, i) in index.iter().map(|i| source(rule, *i)).enumerate() {
            if index_of_row(rule, self.facts, i) {
                terms.extend(self.step(*buffer, axis, i, &texts[&i]));
            }
        }
        add(terms)
    }

    /// The element at a position, as the language sees it.
    fn element(&mut self, buffer: CaptureId, position: &Printed) -> Printed {
        let address = self.captures.address(buffer);
        let elem = self.captures.elem(buffer);
        if elem == Elem::Bits {
            let first = Printed::atom(self.captures.bit_offset(buffer));
            let position = if position.text == "0" {
                first
            } else {
                Printed::infix("+", Precedence::Sum, &first, position)
            };
            let address = Printed::atom(address);
            return self
                .operators
                .call(Support::BitAt, "bit_at", &[&address, &position]);
        }
        let read = Printed::atom(format!("{address}[{}]", position.text));
        match elem {
            Elem::Bool => Printed::infix("!=", Precedence::Equality, &read, &Printed::atom("0")),
            Elem::F16 => self
                .operators
                .call(Support::HalfToFloat, "half_to_float", &[&read]),
            Elem::Bf16 => self
                .operators
                .call(Support::BfloatToFloat, "bfloat_to_float", &[&read]),
            Elem::F64 => Printed::prefix("(float)", &read),
            Elem::Bits
            | Elem::I8
            | Elem::U8
            | Elem::I16
            | Elem::U16
            | Elem::I32
            | Elem::I64
            | Elem::U32
            | Elem::F32 => read,
        }
    }

    /// A name for the offset of a row: that of the buffer and the indices in it.
    pub(super) fn describe_offset(&self, id: ExprId) -> Option<String> {
        let Expr::Load { buffer, index } = self.rule.arena.expr(id) else {
            return None;
        };
        let mut name = self.captures.stem(*buffer);
        for i in index
            .iter()
            .filter(|i| index_of_row(self.rule, self.facts, **i))
        {
            name = format!("{name}_{}", self.describe(*i, 0)?);
        }
        Some(format!("{name}_at")).filter(|name| name.len() <= MAX_NAME)
    }

    /// A name that says what the value is, if there is a short one.
    pub(super) fn describe(&self, id: ExprId, depth: u32) -> Option<String> {
        let rule = self.rule;
        let id = source(rule, id);
        let part = |id: ExprId| self.describe(id, depth.checked_sub(1)?);
        let name = match rule.arena.expr(id) {
            Expr::Const(value) => value.as_int().filter(|v| 0 <= *v).map(|v| v.to_string()),
            Expr::Var(var) => Some(var.name().to_owned()),
            Expr::Scalar(slot) => Some(self.captures.stem(*slot)),
            Expr::Dim(dim) => Some(plain(&rule.dims[dim.index()].name)),
            Expr::Load { buffer, index } => {
                let stem = self.captures.stem(*buffer);
                let parts: Option<Vec<String>> = index.iter().map(|i| part(*i)).collect();
                let full = parts.map(|parts| format!("{stem}_{}", parts.join("_")));
                let short = full.filter(|full| full.len() <= MAX_NAME);
                Some(short.unwrap_or(format!("{stem}_at"))).filter(|_| !stem.is_empty())
            }
            Expr::Binary { op, lhs, rhs } => {
                let between = between(*op)?;
                Some(format!("{}_{between}_{}", part(*lhs)?, part(*rhs)?))
            }
            Expr::Unary { .. }
            | Expr::Clamp { .. }
            | Expr::Cast { .. }
            | Expr::Select { .. }
            | Expr::Then { .. } => None,
        };
        name.filter(|name| name.len() <= MAX_NAME && !name.is_empty())
            .filter(|name| depth < 2 || !name.starts_with(|c: char| c.is_ascii_digit()))
    }
}

/// Characters of a name that is made up.
const MAX_NAME: usize = 24;

/// The word for an operator in a name.
fn between(op: BinaryOp) -> Option<&'static str> {
    match op {
        BinaryOp::Add => Some("plus"),
        BinaryOp::Sub => Some("minus"),
        BinaryOp::Mul => Some("times"),
        BinaryOp::Div | BinaryOp::DivFloor | BinaryOp::DivEuclid => Some("over"),
        BinaryOp::Rem | BinaryOp::RemFloor | BinaryOp::RemEuclid => Some("mod"),
        BinaryOp::Pow
        | BinaryOp::Powi
        | BinaryOp::Powf
        | BinaryOp::WrappingAdd
        | BinaryOp::WrappingSub
        | BinaryOp::WrappingMul
        | BinaryOp::BitAnd
        | BinaryOp::BitOr
        | BinaryOp::BitXor
        | BinaryOp::Shl
        | BinaryOp::Shr
        | BinaryOp::Min
        | BinaryOp::Max
        | BinaryOp::And
        | BinaryOp::Or
        | BinaryOp::Eq
        | BinaryOp::Ne
        | BinaryOp::Lt
        | BinaryOp::Le
        | BinaryOp::Gt
        | BinaryOp::Ge => None,
    }
}

/// The sum of the parts of a position.
fn add(terms: Vec<Printed>) -> Printed {
    let mut terms = terms.into_iter();
    let Some(first) = terms.next() else {
        return Printed::atom("0");
    };
    terms.fold(first, |sum, term| {
        Printed::infix("+", Precedence::Sum, &sum, &term)
    })
}

/// Whether the text of a node is as short as a name for it.
fn is_leaf(expr: &Expr) -> bool {
    match expr {
        Expr::Const(_) | Expr::Var(_) | Expr::Scalar(_) | Expr::Dim(_) => true,
        Expr::Load { .. }
        | Expr::Unary { .. }
        | Expr::Binary { .. }
        | Expr::Clamp { .. }
        | Expr::Cast { .. }
        | Expr::Select { .. }
        | Expr::Then { .. } => false,
    }
}

fn variable(var: Var) -> &'static str {
    match var {
        Var::B => "b",
        Var::H => "h",
        Var::QIdx => "q",
        Var::KvIdx => "kv",
        Var::Score => "score",
        Var::QLen => "p.q_len",
        Var::KvLen => "p.rule_kv_len",
        Var::Batch => "p.batch",
        Var::NumQHeads => "p.num_q_heads",
    }
}
