//! What the macros say of mistakes, and where.

#[test]
fn mistakes_are_reported_at_their_place() {
    trybuild::TestCases::new().compile_fail("../tests/ui/*/*.rs");
}
