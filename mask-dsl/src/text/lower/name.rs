//! What a name or path means where it stands, and what was probably meant where it means nothing.

use std::rc::Rc;

use crate::ir::{
    BinaryOp, CaptureDecl, CaptureId, CaptureKind, Const, DimDecl, DimId, Expr, Extent, RuleKind,
    Ty, Var,
};

use super::super::ast::{Loc, Name};
use super::function::{built_ins, is_built_in};
use super::{Buffer, FrameKind, Lowering, Meaning, Val};

impl Lowering<'_> {
    /// The meaning of a name, if it has one; what is wrong with a name that has none here may have been reported.
    pub(super) fn resolve(&mut self, name: &str, loc: Loc) -> Option<Meaning> {
        if let Some(local) = self.frame.scope.iter().rev().find(|l| &*l.name == name) {
            return Some(local.meaning.clone());
        }
        if let Some(var) = Var::from_name(name) {
            match self.frame.kind {
                FrameKind::TextRule => return Some(Meaning::Value(self.variable(var, loc))),
                FrameKind::Head => return Some(Meaning::Value(self.size(var, name, loc))),
                FrameKind::RustRule | FrameKind::Function => {}
            }
        }
        if name == "inf" {
            let value = self.constant(Const::F32(f32::INFINITY), loc);
            return Some(Meaning::Value(value));
        }
        if self.untyped.iter().any(|capture| capture == name) {
            if self.constant_context {
                self.fault_help(
                    "not-constant",
                    format!("expected a constant, found the capture `{name}`"),
                    loc,
                    "bounds of loops are literals; an annotated function may have `const N: i32` parameters",
                );
            }
            return Some(Meaning::Value(Val::Error));
        }
        if self.free_names && self.calls.len() == 1 {
            return self.free_name(name, loc);
        }
        None
    }

    /// A variable as the current rule sees it.
    pub(super) fn variable(&mut self, var: Var, loc: Loc) -> Val {
        if var == Var::Score && self.frame.rule == RuleKind::Mask {
            self.fault_help(
                "score-in-mask",
                "a mask does not read `score`",
                loc,
                "write a `score` rule: where it gives `-inf`, nothing is attended",
            );
            return Val::Error;
        }
        let given = self.frame.vars.as_ref().and_then(|vars| vars[var as usize]);
        match given {
            Some(value) => value,
            None => self.known_node(Expr::Var(var), loc),
        }
    }

    fn size(&mut self, var: Var, name: &str, loc: Loc) -> Val {
        match var {
            Var::QLen | Var::KvLen | Var::Batch | Var::NumQHeads => {
                self.known_node(Expr::Var(var), loc)
            }
            Var::B | Var::H | Var::QIdx | Var::KvIdx | Var::Score => {
                self.fault_help(
                    "unknown-name",
                    format!("expected a size, found the variable `{name}`"),
                    loc,
                    "the sizes are `q_len`, `kv_len`, `batch` and `num_q_heads`",
                );
                Val::Error
            }
        }
    }

    fn free_name(&mut self, name: &str, loc: Loc) -> Option<Meaning> {
        let constant = self.options.consts.get(name).copied();
        if self.constant_context
            && let Some(value) = constant
        {
            return Some(Meaning::Value(self.integer(value, loc)));
        }
        let slot = self.captures.iter().position(|decl| decl.name == name);
        let kind = match slot {
            Some(slot) => self.captures[slot].kind.clone(),
            None => {
                if let Some(ty) = self.options.free_scalars.get(name) {
                    CaptureKind::Scalar(*ty)
                } else if let Some((elem, rank)) = self.options.free_buffers.get(name) {
                    CaptureKind::Buffer {
                        elem: *elem,
                        extents: vec![Extent::Unspecified; *rank],
                    }
                } else {
                    return constant.map(|value| Meaning::Value(self.integer(value, loc)));
                }
            }
        };
        let id = CaptureId(slot.unwrap_or(self.captures.len()) as u32);
        if slot.is_none() {
            self.captures.push(CaptureDecl {
                name: name.to_owned(),
                kind: kind.clone(),
                min: None,
                max: None,
                span: self.span(loc),
            });
        }
        Some(match kind {
            CaptureKind::Scalar(ty) => Meaning::Value(
                self.intern(Expr::Scalar(id), Some(ty), loc)
                    .expect("a leaf takes no operands"),
            ),
            CaptureKind::Buffer { elem, extents } => Meaning::Buffer(Buffer {
                id,
                elem,
                rank: extents.len(),
            }),
        })
    }

    fn integer(&mut self, value: i64, loc: Loc) -> Val {
        let value = Const::from_int(Ty::I32, value).unwrap_or(Const::I64(value));
        self.constant(value, loc)
    }

    /// The value of a path.
    pub(super) fn path(&mut self, path: &[Name], loc: Loc) -> Val {
        let [name] = path else {
            return self.long_path(path, loc);
        };
        match self.resolve(&name.text, name.loc) {
            Some(Meaning::Value(value)) => value,
            Some(Meaning::Buffer(buffer)) if buffer.rank == 0 => self.load(buffer, Vec::new(), loc),
            Some(Meaning::Buffer(buffer)) => {
                let index = vec!["q"; buffer.rank].join(", ");
                self.fault_help(
                    "type-mismatch",
                    format!("expected a value, found the buffer `{}`", name.text),
                    loc,
                    format!("read an element of it, as in `{}[{index}]`", name.text),
                );
                Val::Error
            }
            Some(Meaning::DimOf(axes)) => self.dimension(&name.text, &axes, loc),
            None => {
                self.unknown_name(&name.text, name.loc);
                Val::Error
            }
        }
    }

    /// The extent that a dimension name of a called rule stands for, in terms of our captures.
    fn dimension(&mut self, name: &str, axes: &Rc<[(CaptureId, usize)]>, loc: Loc) -> Val {
        let mut smallest: Option<Val> = None;
        for &(slot, axis) in axes.iter() {
            let extent = self.extent(name, slot, axis, loc);
            smallest = Some(match smallest {
                None => extent,
                Some(other) => match (other, extent) {
                    (Val::Node(lhs), Val::Node(rhs)) if lhs != rhs => self
                        .intern(
                            Expr::Binary {
                                op: BinaryOp::Min,
                                lhs,
                                rhs,
                            },
                            None,
                            loc,
                        )
                        .unwrap_or(Val::Error),
                    (Val::Node(_), Val::Node(_)) => other,
                    (Val::Error, _) | (_, Val::Error) => Val::Error,
                },
            });
        }
        smallest.unwrap_or_else(|| {
            self.fault_help(
                "unknown-name",
                format!("expected a value for the dimension name `{name}`, found none"),
                loc,
                "a dimension name of a called rule is known where it is a whole extent of a buffer parameter",
            );
            Val::Error
        })
    }

    fn extent(&mut self, name: &str, slot: CaptureId, axis: usize, loc: Loc) -> Val {
        let declared = match &self.captures[slot.index()].kind {
            CaptureKind::Buffer { extents, .. } => extents[axis],
            CaptureKind::Scalar(_) => return Val::Error,
        };
        match declared {
            Extent::AtLeast(extent) => Val::Node(extent),
            Extent::Unspecified => {
                // Nothing names this extent yet, so it gets a dimension name of its own.
                let capture = &self.captures[slot.index()];
                let mut fresh = name.to_owned();
                let taken = |fresh: &str| {
                    self.dims.iter().any(|dim| dim.name == fresh)
                        || self.captures.iter().any(|decl| decl.name == fresh)
                };
                if taken(&fresh) {
                    fresh = format!("{}_extent_{axis}", capture.name);
                }
                let id = DimId(self.dims.len() as u32);
                let span = capture.span;
                self.dims.push(DimDecl { name: fresh, span });
                let value = self.known_node(Expr::Dim(id), loc);
                if let (Val::Node(node), CaptureKind::Buffer { extents, .. }) =
                    (value, &mut self.captures[slot.index()].kind)
                {
                    extents[axis] = Extent::AtLeast(node);
                }
                value
            }
        }
    }

    /// A constant of Rust's library, such as `f32::INFINITY`.
    fn long_path(&mut self, path: &[Name], loc: Loc) -> Val {
        let [.., module, name] = path else {
            return Val::Error;
        };
        let value = match (module.text.as_str(), name.text.as_str()) {
            ("f32", "INFINITY") => Const::F32(f32::INFINITY),
            ("f32", "NEG_INFINITY") => Const::F32(f32::NEG_INFINITY),
            ("f32", "NAN") => Const::F32(f32::NAN),
            ("f32", "MAX") => Const::F32(f32::MAX),
            ("f32", "MIN") => Const::F32(f32::MIN),
            ("f32", "EPSILON") => Const::F32(f32::EPSILON),
            ("f32", "MIN_POSITIVE") => Const::F32(f32::MIN_POSITIVE),
            ("i32", "MAX") => Const::I32(i32::MAX),
            ("i32", "MIN") => Const::I32(i32::MIN),
            ("i64", "MAX") => Const::I64(i64::MAX),
            ("i64", "MIN") => Const::I64(i64::MIN),
            ("u32", "MAX") => Const::U32(u32::MAX),
            ("u32", "MIN") => Const::U32(u32::MIN),
            ("i32" | "u32" | "f32", "BITS") => Const::U32(32),
            ("i64", "BITS") => Const::U32(64),
            ("consts", name) => match math_constant(name) {
                Some(value) => Const::F32(value),
                None => return self.unknown_path(path, loc),
            },
            _ => return self.unknown_path(path, loc),
        };
        self.constant(value, loc)
    }

    fn unknown_path(&mut self, path: &[Name], loc: Loc) -> Val {
        let words: Vec<_> = path.iter().map(|name| name.text.as_str()).collect();
        self.fault_help(
            "unknown-name",
            format!("expected a value, found `{}`", words.join("::")),
            loc,
            "known are `f32::INFINITY`, `f32::MAX`, `i32::MAX`, `std::f32::consts::PI` and the like; capture other constants as parameters",
        );
        Val::Error
    }

    /// Reports a name that means nothing here.
    pub(super) fn unknown_name(&mut self, name: &str, loc: Loc) {
        let message = format!("expected a value, found the unknown name `{name}`");
        let help = match name {
            "True" => Some("write `true`".to_owned()),
            "False" => Some("write `false`".to_owned()),
            "None" | "nil" | "null" => {
                Some("there is no absent value: use `if`, or a guard with `&&`".to_owned())
            }
            _ if is_built_in(name) => Some(format!(
                "`{name}` is a function: call it, as in `{name}(x)`"
            )),
            _ if self.find_item(name).is_some() => Some(format!(
                "`{name}` is a rule or function: call it, as in `{name}()`"
            )),
            _ => {
                let candidates = self.visible_names();
                closest(name, candidates.iter().map(String::as_str))
                    .map(|close| format!("did you mean `{close}`?"))
            }
        };
        let help = help.unwrap_or_else(|| match self.frame.kind {
            FrameKind::Function => {
                "a function sees its parameters only: pass the value to it".to_owned()
            }
            FrameKind::RustRule => "declare it as a parameter: names other than `b`, `h`, `q_idx`, `kv_idx` and the sizes are captures".to_owned(),
            FrameKind::Head => "the sizes are `q_len`, `kv_len`, `batch` and `num_q_heads`".to_owned(),
            FrameKind::TextRule if self.free_names => format!(
                "the variables are `b`, `h`, `q`, `kv` and the sizes; give a scalar with `--set {name}=..`, a buffer with `--capture {name}=..`"
            ),
            FrameKind::TextRule => format!(
                "the variables are `b`, `h`, `q`, `kv` and the sizes; a capture is declared in the head, as in `{name}: i32`"
            ),
        });
        if self.frame.kind == FrameKind::Function && Var::from_name(name).is_some() {
            self.fault_help(
                "unknown-name",
                message,
                loc,
                "a function sees its parameters only: pass the variable to it",
            );
            return;
        }
        self.fault_help("unknown-name", message, loc, help);
    }

    fn visible_names(&self) -> Vec<String> {
        let mut names: Vec<String> = self
            .frame
            .scope
            .iter()
            .rev()
            .map(|local| local.name.to_string())
            .collect();
        match self.frame.kind {
            FrameKind::TextRule => {
                let variables = [
                    "b",
                    "h",
                    "q",
                    "kv",
                    "q_idx",
                    "kv_idx",
                    "q_len",
                    "kv_len",
                    "batch",
                    "num_q_heads",
                ];
                names.extend(variables.map(str::to_owned));
                if self.frame.rule == RuleKind::Score {
                    names.push("score".to_owned());
                }
            }
            FrameKind::Head => {
                let sizes = ["q_len", "kv_len", "batch", "num_q_heads"];
                names.extend(sizes.map(str::to_owned));
            }
            FrameKind::RustRule | FrameKind::Function => {}
        }
        if self.free_names {
            names.extend(self.options.free_scalars.keys().cloned());
            names.extend(self.options.free_buffers.keys().cloned());
        }
        names
    }

    /// Reports a function that does not exist.
    pub(super) fn unknown_function(&mut self, name: &str, loc: Loc) {
        let items: Vec<String> = self
            .frame
            .module
            .items
            .iter()
            .map(|item| item.name.text.clone())
            .chain(built_ins().map(str::to_owned))
            .collect();
        let candidates = items.iter().map(String::as_str);
        let help = match name {
            "where" | "select" | "torch_where" | "iif" => {
                "write `if c { x } else { y }`".to_owned()
            }
            "int" => "write `x as i32`".to_owned(),
            "float" => "write `x as f32`".to_owned(),
            "log" => "the natural logarithm is `ln`; there are `log2` and `log10`".to_owned(),
            "pow2" | "exp_2" => "write `exp2(x)`".to_owned(),
            "sign" | "sgn" => "write `signum(x)`".to_owned(),
            "fabs" => "write `abs(x)`".to_owned(),
            "minimum" | "fmin" => "write `min(x, y)`".to_owned(),
            "maximum" | "fmax" => "write `max(x, y)`".to_owned(),
            "mod" | "modulo" | "fmod" | "remainder" => {
                "`%` has the sign of the dividend, `rem_euclid` is never negative, `rem_floor` has the sign of the divisor".to_owned()
            }
            "mul_add" | "fma" => "write `x * y + z`: it is rounded twice, on every engine".to_owned(),
            "from" | "into" | "try_from" => "write a conversion with `as`".to_owned(),
            "unwrap" | "get" | "get_unchecked" => {
                "read a buffer as `x[i]`; a read outside of it is refused before anything runs".to_owned()
            }
            "len" if self.frame.kind == FrameKind::RustRule => "the sizes of the call are the parameters `q_len`, `kv_len`, `batch` and `num_q_heads`; capture another length as a scalar".to_owned(),
            "len" => "the sizes are `q_len`, `kv_len`, `batch` and `num_q_heads`; another extent has a dimension name in the head".to_owned(),
            _ => match closest(name, candidates) {
                Some(close) => format!("did you mean `{close}`?"),
                None if self.frame.kind == FrameKind::RustRule => "functions are built in, or annotated with `#[attention_mask]` or `#[score_mod]` themselves".to_owned(),
                None => "functions are built in, written with `fn`, or rules of this text or of the catalogue".to_owned(),
            },
        };
        self.fault_help(
            "unknown-function",
            format!("expected a function, found the unknown name `{name}`"),
            loc,
            help,
        );
    }
}

fn math_constant(name: &str) -> Option<f32> {
    use std::f32::consts;
    Some(match name {
        "PI" => consts::PI,
        "TAU" => consts::TAU,
        "E" => consts::E,
        "LN_2" => consts::LN_2,
        "LN_10" => consts::LN_10,
        "LOG2_E" => consts::LOG2_E,
        "LOG2_10" => consts::LOG2_10,
        "LOG10_E" => consts::LOG10_E,
        "LOG10_2" => consts::LOG10_2,
        "SQRT_2" => consts::SQRT_2,
        "FRAC_1_SQRT_2" => consts::FRAC_1_SQRT_2,
        "FRAC_1_PI" => consts::FRAC_1_PI,
        "FRAC_2_PI" => consts::FRAC_2_PI,
        "FRAC_2_SQRT_PI" => consts::FRAC_2_SQRT_PI,
        "FRAC_PI_2" => consts::FRAC_PI_2,
        "FRAC_PI_3" => consts::FRAC_PI_3,
        "FRAC_PI_4" => consts::FRAC_PI_4,
        "FRAC_PI_6" => consts::FRAC_PI_6,
        "FRAC_PI_8" => consts::FRAC_PI_8,
        _ => return None,
    })
}

/// The candidate that was probably meant, if one is close.
pub(super) fn closest<'c>(
    name: &str,
    candidates: impl Iterator<Item = &'c str>,
) -> Option<&'c str> {
    let length = name.chars().count();
    let allowed = (length / 3).max(1);
    // Among the shortest names, every other one is within one change.
    let least = if length < 3 { 0.6 } else { 0.0 };
    candidates
        .filter(|candidate| strsim::damerau_levenshtein(name, candidate) <= allowed)
        .map(|candidate| (candidate, strsim::jaro_winkler(name, candidate)))
        .filter(|(_, likeness)| least < *likeness)
        .max_by(|(_, a), (_, b)| a.total_cmp(b))
        .map(|(candidate, _)| candidate)
}
