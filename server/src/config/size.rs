//! Sizes in bytes, in readable form.

/// Reads `64 KiB`, `1MiB`, `2 GiB` or a plain number of bytes. Returns `None` for anything else,
/// including decimal units: `kB` would be ambiguous.
pub fn parse(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok()?;
    let unit = unit.trim_start();
    let (_, factor) = UNITS.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(unit))?;
    number.checked_mul(factor)
}

/// Returns a size in a form that [`parse`] reads back, with the largest unit that divides it.
pub fn show(bytes: u64) -> String {
    let unit = UNITS.into_iter().rev().find(|(_, factor)| bytes >= *factor && bytes.is_multiple_of(*factor));
    match unit {
        Some((name, factor)) if factor > 1 => format!("\"{} {name}\"", bytes / factor),
        _ => bytes.to_string(),
    }
}

/// Returns whether the name of a module's option says that it is a size.
pub fn is_named(key: &str) -> bool {
    key == "bytes" || key.ends_with("_bytes")
}

/// Returns a decimal size with the binary unit that was probably meant, such as `10 MiB` for `10
/// MB`.
pub fn meant(text: &str) -> Option<String> {
    let number = text.trim().trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = text.trim().get(number.len()..)?.to_ascii_uppercase();
    let (_, binary) = DECIMAL.into_iter().find(|(name, _)| unit == *name)?;
    let text = format!("{} {binary}", number.trim_end());
    parse(&text).is_some().then_some(text)
}

const DECIMAL: [(&str, &str); 6] =
    [("K", "KiB"), ("KB", "KiB"), ("M", "MiB"), ("MB", "MiB"), ("G", "GiB"), ("GB", "GiB")];
const UNITS: [(&str, u64); 5] = [("", 1), ("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_binary_units_and_nothing_else() {
        assert_eq!(parse("64 KiB"), Some(65_536));
        assert_eq!(parse("1mib"), Some(1 << 20));
        assert_eq!(parse(" 10000 "), Some(10_000));
        assert_eq!(parse("10 B"), Some(10));
        for wrong in ["", "KiB", "1 kB", "1 MB", "1.5 KiB", "-1", "1 KiB s", "18446744073709551615 KiB"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn decimal_units_are_guessed() {
        for (text, guess) in [("10 MB", "10 MiB"), ("3kb", "3 KiB"), ("1G", "1 GiB")] {
            assert_eq!(meant(text).as_deref(), Some(guess));
        }
        for text in ["", "MB", "1.5 MB", "10 MiB", "10 TB", "ten MB"] {
            assert_eq!(meant(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_shown_is_read_back() {
        for bytes in [0, 1, 1023, 1024, 10_000, 65_536, 1 << 20, 3 << 30] {
            assert_eq!(parse(show(bytes).trim_matches('"')), Some(bytes));
        }
        assert_eq!(show(262_144), "\"256 KiB\"");
        assert_eq!(show(10_000), "10000");
    }
}
