//! Numbers with the names of the counted things, for texts to operators.

/// Returns a number with the name of the counted thing, in its singular or plural form.
pub fn count_of(count: u64, thing: &str) -> String {
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
        assert_eq!([0, 1, 2].map(|count| count_of(count, "session")), ["0 sessions", "1 session", "2 sessions"]);
    }
}
