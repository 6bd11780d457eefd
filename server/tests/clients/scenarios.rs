//! Tests of scenarios.

/// Generates a test for each scenario of a script, which runs the crate's `run`, and the list of
/// them all.
macro_rules! scenarios {
    ($($script:ident { $($scenario:ident)* })*) => {
        $(mod $script {
            $(#[test]
            fn $scenario() {
                super::run(concat!(stringify!($script), ".", stringify!($scenario)));
            })*
        })*

        const SCENARIOS: &[&str] = &[$($(concat!(stringify!($script), ".", stringify!($scenario)),)*)*];
    };
}
