//! Any expression, with a few captures by name, has faults that point into it, or is a rule that keeps its promises.
#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use maskwright_dsl::catalogue::Catalogue;
use maskwright_dsl::ir::{Elem, RuleKind, Ty};
use maskwright_dsl::text::{LowerOptions, lower_expression};
use maskwright_fuzz::{check_rule, look_at_faults};

fuzz_target!(|text: &str| {
    let scalars = [
        ("w", Ty::I32),
        ("n", Ty::I64),
        ("u", Ty::U32),
        ("x", Ty::F32),
        ("on", Ty::Bool),
    ];
    let buffers = [
        ("doc", (Elem::I32, 1)),
        ("flag", (Elem::Bool, 1)),
        ("bias", (Elem::F32, 2)),
    ];
    let owned = |name: &str| name.to_owned();
    let options = LowerOptions {
        consts: BTreeMap::new(),
        free_scalars: scalars.map(|(name, ty)| (owned(name), ty)).into(),
        free_buffers: buffers.map(|(name, kind)| (owned(name), kind)).into(),
    };
    for kind in [RuleKind::Mask, RuleKind::Score] {
        match lower_expression(text, kind, &options, &Catalogue) {
            Ok(rule) => check_rule(rule),
            Err(faults) => look_at_faults(&faults),
        }
    }
});
