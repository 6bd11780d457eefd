//! Numbers with the names of what is counted, for texts to operators.

/// Returns a number with the name of what is counted, for one of it or for several.
pub fn counted(count: u64, thing: &str) -> String {
    match count {
        1 => format!("1 {thing}"),
        count => format!("{count} {thing}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_not_several() {
        assert_eq!([0, 1, 2].map(|count| counted(count, "session")), ["0 sessions", "1 session", "2 sessions"]);
    }
}
