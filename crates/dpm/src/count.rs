//! Numbers of things, as messages for people have them.

/// Returns a number with its noun, in the plural unless it is one.
pub(crate) fn count(number: impl TryInto<u64>, noun: &str) -> String {
    let number = number.try_into().unwrap_or(u64::MAX);
    let ending = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{ending}")
}

#[cfg(test)]
mod tests {
    use super::count;

    #[test]
    fn one_thing_is_in_the_singular() {
        let said = [0, 1, 2].map(|number: usize| count(number, "device"));
        assert_eq!(said, ["0 devices", "1 device", "2 devices"]);
    }
}
