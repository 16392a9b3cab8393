//! Any text is a module or has faults that point into it; what parses also prints, and what lowers keeps its promises.
#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use maskwright_dsl::catalogue::Catalogue;
use maskwright_dsl::ir::{RuleKind, Source};
use maskwright_dsl::text::{LowerOptions, Module, check_rust_fn, lower, parse, print};
use maskwright_fuzz::{check_rule, look_at_faults};

fn source(text: &str) -> Arc<Source> {
    Arc::new(Source {
        name: "fuzz.mask".to_owned(),
        text: text.to_owned(),
    })
}

fn check_print(module: &Module) {
    let printed = print(module);
    let again = parse(source(&printed)).expect("what is printed can be parsed");
    assert_eq!(again, *module, "{printed}");
}

fuzz_target!(|text: &str| {
    match parse(source(text)) {
        Err(faults) => look_at_faults(&faults),
        Ok(module) => {
            check_print(&module);
            let options = LowerOptions::default();
            for item in &module.items {
                match lower(&module, Some(&item.name.text), &options, &Catalogue) {
                    Ok(rule) => check_rule(rule),
                    Err(faults) => look_at_faults(&faults),
                }
            }
        }
    }
    check_rust_fn(source(text), RuleKind::Mask);
});
