//! Any bytes are an encoded rule or an error; a rule that is read is written and read again the same, and keeps its
//! promises.
#![no_main]

use libfuzzer_sys::fuzz_target;
use maskwright_dsl::ir::{decode, encode};
use maskwright_fuzz::check_rule;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(rule) = decode(bytes) {
        let written = encode(&rule);
        let again = decode(&written).expect("what is written can be read");
        assert_eq!(encode(&again), written);
        assert_eq!(again.identity(), rule.identity());
        rule.to_listing();
        check_rule(rule);
    }
});
