//! Misuse of the words that the compiler stops.

#[test]
fn a_wrong_comparison_does_not_compile() {
    // Broken: acquisitions or fingerprints that are put in an order, a number or a text that passes for a word of the
    // product, a word that passes for another. Must hold: each file of tests/compile_fail is refused by the compiler,
    // for the reason that stands beside it.
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/compile_fail/*.rs");
}
