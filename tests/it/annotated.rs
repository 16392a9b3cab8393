//! Rules of the corpus as annotated Rust functions: the function itself gives the expected cells, and the rule that is
//! made of it is verified against the function.

mod masks;
mod scores;

use maskwright::bucket::Bucket;
use maskwright::ir::{Const, Elem, RuleKind};
use maskwright::verify::{VerifyRequest, verify};
use maskwright::{BlockSize, BoundRule, Buffer, Element, MaskRule, Scope, ScoreRule};
use maskwright_dsl::eval::Point;
use maskwright_tests::case::{Case, Scalar, corpus};
use maskwright_tests::expect;
use maskwright_tests::recipe::score_input;

/// A rule of the corpus by its id, bound to the captured values of a case.
type Annotated = (&'static str, fn(&Args) -> BoundRule);

/// The captured values of a case, as Rust sees them.
struct Args<'a>(&'a Case);

impl Args<'_> {
    fn int(&self, name: &str) -> i32 {
        let Some(Scalar::Int(value)) = self.0.scalars.get(name) else {
            panic!("case {} has no integer {name}", self.0.id);
        };
        i32::try_from(*value).expect("scalars of the corpus fit i32")
    }

    fn wide(&self, name: &str) -> i64 {
        let Some(Scalar::Int(value)) = self.0.scalars.get(name) else {
            panic!("case {} has no integer {name}", self.0.id);
        };
        *value
    }

    fn float(&self, name: &str) -> f32 {
        match self.0.scalars.get(name) {
            Some(Scalar::Float(value)) => *value as f32,
            Some(Scalar::Int(value)) => *value as f32,
            Some(Scalar::Bool(_)) | None => panic!("case {} has no number {name}", self.0.id),
        }
    }

    fn buffer<T: Element, const N: usize>(&self, name: &str) -> Buffer<T, N> {
        let spec = self.0.buffers.get(name);
        let spec = spec.unwrap_or_else(|| panic!("case {} has no buffer {name}", self.0.id));
        let elem = Elem::from_name(&spec.elem).expect("the corpus names element types");
        let captured = spec
            .recipe
            .buffer(elem, &spec.shape)
            .expect("the recipe is a valid one");
        Buffer::from_captured(&captured).expect("the function takes what the case has")
    }

    fn ints<const N: usize>(&self, name: &str) -> Buffer<i32, N> {
        self.buffer(name)
    }

    fn bools<const N: usize>(&self, name: &str) -> Buffer<bool, N> {
        self.buffer(name)
    }

    fn floats<const N: usize>(&self, name: &str) -> Buffer<f32, N> {
        self.buffer(name)
    }
}

fn mask(rule: &MaskRule) -> BoundRule {
    rule.bound().clone()
}

fn score(rule: &ScoreRule) -> BoundRule {
    rule.bound().clone()
}

/// Compares the author's function with what the case expects, and everything else with the function.
fn check(case: &Case, bound: BoundRule) -> Result<(), String> {
    let sizes = case.sizes();
    let function = bound
        .reference()
        .expect("an annotated function is its reference")
        .clone();
    let inputs = score_input(case.cells());
    let mut values = Vec::with_capacity(case.cells());
    for b in 0..sizes.batch {
        for h in 0..sizes.num_q_heads {
            for q_idx in 0..sizes.q_len {
                for kv_idx in 0..sizes.kv_len {
                    let score = inputs[values.len()];
                    let point = Point {
                        b,
                        h,
                        q_idx,
                        kv_idx,
                        score,
                    };
                    values.push(function(&point, &sizes));
                }
            }
        }
    }
    let [batch, heads, q_len, kv_len] = case.size;
    let scope = Scope::new(Bucket::single(q_len.into(), kv_len.into(), 0), batch, heads);
    let (mask, score) = match bound.rule().kind {
        RuleKind::Mask => {
            let cells: Vec<bool> = values
                .iter()
                .map(|value| *value == Const::Bool(true))
                .collect();
            expect::check_mask(case, &cells)?;
            (Some(MaskRule::new(bound).map_err(|_| "a mask")?), None)
        }
        RuleKind::Score => {
            let number = |value: &Const| match value {
                Const::F32(value) => *value,
                Const::Bool(_) | Const::I32(_) | Const::I64(_) | Const::U32(_) => f32::NAN,
            };
            let scores: Vec<f32> = values.iter().map(number).collect();
            expect::check_scores(case, &scores)?;
            (
                None,
                Some(ScoreRule::new(bound).map_err(|_| "a score rule")?),
            )
        }
    };
    let mut request = VerifyRequest::new(mask.as_ref(), score.as_ref(), scope);
    request.blocks = vec![BlockSize { q: 128, kv: 128 }, BlockSize { q: 64, kv: 64 }];
    verify(&request)
        .map(drop)
        .map_err(|fault| fault.to_string())
}

#[track_caller]
fn check_all(rules: &[Annotated]) {
    let mut faults = Vec::new();
    for (id, bind) in rules {
        let file = corpus().iter().find(|file| file.id == *id);
        let file = file.unwrap_or_else(|| panic!("{id} is no rule of the corpus"));
        for case in &file.cases {
            if let Err(fault) = check(case, bind(&Args(case))) {
                faults.push(format!("{id}/{}: {fault}", case.id));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn annotated_masks_are_the_corpus() {
    assert!(24 <= masks::ALL.len());
    check_all(masks::ALL);
}

#[test]
fn annotated_scores_are_the_corpus() {
    assert!(30 <= masks::ALL.len() + scores::ALL.len());
    check_all(scores::ALL);
}
