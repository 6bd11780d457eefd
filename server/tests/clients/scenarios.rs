//! Tests of scenarios.

/// A test for each scenario of a script, which `run` of the crate runs, and the list of them all.
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
