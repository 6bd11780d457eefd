//! Formats numbers for readers: three significant digits, a suitable unit, a dash for missing
//! values.

/// The sign for a value that is missing or not finite.
pub(super) const NONE: &str = "–";

/// The quantity that a number measures, which determines its format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NumberUnit {
    /// Microseconds; shown as µs, ms or s.
    Microseconds,
    /// Bytes; shown as KiB, MiB or GiB.
    Bytes,
    /// Seconds; shown as s, whatever their size.
    Seconds,
    /// A rate per second; shown with `/s`.
    PerSecond,
    /// A count; shown without a unit.
    Count,
    /// Cores kept busy; shown as per cent of one core.
    Cores,
}

impl NumberUnit {
    /// Returns the number with its unit; a dash if it isn't finite.
    pub fn show(self, value: f64) -> String {
        if !value.is_finite() {
            return NONE.to_owned();
        }
        match self {
            NumberUnit::Microseconds if value.abs() >= 1e6 => format!("{} s", digits(value / 1e6)),
            NumberUnit::Microseconds if value.abs() >= 1e3 => format!("{} ms", digits(value / 1e3)),
            NumberUnit::Microseconds => format!("{} µs", digits(value)),
            NumberUnit::Bytes => bytes(value),
            NumberUnit::Seconds => format!("{} s", digits(value)),
            NumberUnit::PerSecond => format!("{}/s", digits(value)),
            NumberUnit::Count => digits(value),
            NumberUnit::Cores => format!("{} %", digits(value * 100.0)),
        }
    }
}

fn bytes(value: f64) -> String {
    let units = ["KiB", "MiB", "GiB"];
    let (mut scaled, mut name) = (value, "B");
    for unit in units {
        if scaled.abs() < 1024.0 {
            break;
        }
        (scaled, name) = (scaled / 1024.0, unit);
    }
    format!("{} {name}", digits(scaled))
}

/// Writes three significant digits; whole numbers in groups of three.
fn digits(value: f64) -> String {
    let size = value.abs();
    let decimals = match size {
        _ if size == 0.0 || size >= 99.95 || (value.fract() == 0.0 && size < 1e15) => 0,
        _ if size >= 9.995 => 1,
        _ if size >= 0.9995 => 2,
        _ if size >= 0.0995 => 3,
        _ => 4,
    };
    let text = format!("{value:.decimals$}");
    if decimals > 0 { text } else { group_digits(&text) }
}

/// Puts a narrow no-break space between groups of three digits, from five digits on.
fn group_digits(text: &str) -> String {
    let (sign, digits) = text.strip_prefix('-').map_or(("", text), |rest| ("-", rest));
    if digits.len() < 5 {
        return text.to_owned();
    }
    let mut out = String::from(sign);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_carry_a_unit_that_fits() {
        let cases = [
            (NumberUnit::Microseconds, 0.25, "0.250 µs"),
            (NumberUnit::Microseconds, 12.345, "12.3 µs"),
            (NumberUnit::Microseconds, 1208.0, "1.21 ms"),
            (NumberUnit::Microseconds, 908_000.0, "908 ms"),
            (NumberUnit::Microseconds, 2.5e6, "2.50 s"),
            (NumberUnit::Bytes, 512.0, "512 B"),
            (NumberUnit::Bytes, 63.0 * 1024.0, "63 KiB"),
            (NumberUnit::Bytes, 1.5 * 1024.0 * 1024.0 * 1024.0, "1.50 GiB"),
            (NumberUnit::PerSecond, 21_000.0, "21\u{202f}000/s"),
            (NumberUnit::Count, 1_234_567.0, "1\u{202f}234\u{202f}567"),
            (NumberUnit::Count, 901.0, "901"),
            (NumberUnit::Cores, 0.333, "33.3 %"),
            (NumberUnit::Seconds, 0.0, "0 s"),
            (NumberUnit::Count, -12_345.0, "-12\u{202f}345"),
        ];
        for (unit, value, wanted) in cases {
            assert_eq!(unit.show(value), wanted);
        }
    }

    #[test]
    fn what_is_no_number_is_a_dash() {
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(NumberUnit::Bytes.show(value), NONE);
        }
    }
}
