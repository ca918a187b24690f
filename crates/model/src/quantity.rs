//! Amounts in Kubernetes notation, with exact arithmetic.
//!
//! `0.5`, `500m`, `1e3`, `0.5Gi`: a decimal number and a suffix of one of three families.
//! The value is a whole number of nanos, so sums and comparisons are exact; like
//! Kubernetes, what is finer than a nano is rounded away from zero.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

const NANOS: i128 = 1_000_000_000;

/// The largest magnitude: Kubernetes caps quantities at 2^63 − 1 whole units.
const MOST: i128 = (i64::MAX as i128) * NANOS;

/// What a quantity may look like, in the words of an error message.
pub const QUANTITY_RULE: &str = "a quantity such as 0.5, 500m, 1e3, 256Mi or 0.5Gi";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    /// `n u m - k M G T P E`
    Decimal,
    /// `e3`, `E3`
    Exponent,
    /// `Ki Mi Gi Ti Pi Ei`
    Binary,
}

/// An amount of something, remembered as it was written.
#[derive(Debug, Clone)]
pub struct Quantity {
    nanos: i128,
    family: Family,
    text: String,
}

impl Quantity {
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() > 64 {
            return None;
        }
        let (negative, rest) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let digits_end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, suffix) = rest.split_at(digits_end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return None;
        }
        let (family, scale) = parse_suffix(suffix)?;
        let nanos = scale_digits(whole, fraction, scale)?;
        let nanos = if negative { -nanos } else { nanos };
        Some(Self { nanos, family, text: text.to_owned() })
    }

    pub fn from_millis(millis: i64) -> Self {
        Self::from_nanos(i128::from(millis) * (NANOS / 1000), Family::Decimal)
    }

    pub fn from_bytes(bytes: i64) -> Self {
        Self::from_nanos(i128::from(bytes) * NANOS, Family::Binary)
    }

    fn from_nanos(nanos: i128, family: Family) -> Self {
        let mut quantity = Self { nanos: nanos.clamp(-MOST, MOST), family, text: String::new() };
        quantity.text = quantity.canonical();
        quantity
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Thousandths, rounded up: what a scheduler has to reserve.
    pub fn millis(&self) -> i64 {
        ceil_div(self.nanos, NANOS / 1000)
    }

    /// Whole units (bytes, devices), rounded up.
    pub fn units(&self) -> i64 {
        ceil_div(self.nanos, NANOS)
    }

    pub fn is_negative(&self) -> bool {
        self.nanos < 0
    }

    pub fn is_zero(&self) -> bool {
        self.nanos == 0
    }

    /// Exact sum, capped where Kubernetes caps; written in the family of `self`.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self::from_nanos(self.nanos + other.nanos, self.family)
    }

    /// Exact difference, capped likewise.
    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        Self::from_nanos(self.nanos - other.nanos, self.family)
    }

    /// The one spelling that Kubernetes prints: no fraction, and the largest suffix of the
    /// family that needs none.
    pub fn canonical(&self) -> String {
        if self.nanos == 0 {
            return "0".to_owned();
        }
        // A binary suffix cannot say less than a byte, and Kubernetes switches family then.
        let family = match self.family {
            Family::Binary if self.nanos % NANOS != 0 || self.nanos.abs() < 1024 * NANOS => Family::Decimal,
            family => family,
        };
        match family {
            Family::Binary => {
                let mut value = self.nanos / NANOS;
                let mut power = 0;
                while power < 6 && value % 1024 == 0 {
                    value /= 1024;
                    power += 1;
                }
                format!("{value}{}", ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"][power])
            }
            Family::Decimal | Family::Exponent => {
                let mut value = self.nanos;
                let mut power: usize = 0;
                while power < 9 && value % 1000 == 0 {
                    value /= 1000;
                    power += 1;
                }
                match (family, power) {
                    (Family::Exponent, 3) => value.to_string(),
                    (Family::Exponent, _) => format!("{value}e{}", power.cast_signed() * 3 - 9),
                    _ => format!("{value}{}", ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"][power]),
                }
            }
        }
    }
}

/// The family of a suffix and its factor as (power of two, power of ten), relative to one unit.
fn parse_suffix(suffix: &str) -> Option<(Family, Scale)> {
    let scale = |family, shift, power| Some((family, Scale { shift, power }));
    match suffix {
        "" => scale(Family::Decimal, 0, 0),
        "n" => scale(Family::Decimal, 0, -9),
        "u" => scale(Family::Decimal, 0, -6),
        "m" => scale(Family::Decimal, 0, -3),
        "k" => scale(Family::Decimal, 0, 3),
        "M" => scale(Family::Decimal, 0, 6),
        "G" => scale(Family::Decimal, 0, 9),
        "T" => scale(Family::Decimal, 0, 12),
        "P" => scale(Family::Decimal, 0, 15),
        "E" => scale(Family::Decimal, 0, 18),
        "Ki" => scale(Family::Binary, 10, 0),
        "Mi" => scale(Family::Binary, 20, 0),
        "Gi" => scale(Family::Binary, 30, 0),
        "Ti" => scale(Family::Binary, 40, 0),
        "Pi" => scale(Family::Binary, 50, 0),
        "Ei" => scale(Family::Binary, 60, 0),
        _ => {
            let exponent = suffix.strip_prefix(['e', 'E'])?;
            let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
            if digits.is_empty() || digits.len() > 3 || !digits.bytes().all(|b| b.is_ascii_digit()) {
                return None;
            }
            scale(Family::Exponent, 0, exponent.parse().ok()?)
        }
    }
}

#[derive(Clone, Copy)]
struct Scale {
    shift: u32,
    power: i32,
}

/// `whole.fraction × 2^shift × 10^power` in nanos: capped above, rounded up below.
fn scale_digits(whole: &str, fraction: &str, scale: Scale) -> Option<i128> {
    let fraction = fraction.trim_end_matches('0');
    let mut exponent = scale.power + 9 - i32::try_from(fraction.len()).ok()?;
    let mut value: i128 = 0;
    let mut dropped = false;
    for digit in whole.bytes().chain(fraction.bytes()) {
        // Beyond 37 significant digits only their number and whether they are zero matter.
        if value > i128::MAX / 100 {
            exponent += 1;
            dropped |= digit != b'0';
        } else {
            value = value * 10 + i128::from(digit - b'0');
        }
    }
    if value == 0 {
        return Some(0);
    }
    while value > i128::MAX >> scale.shift {
        dropped |= value % 10 != 0;
        value /= 10;
        exponent += 1;
    }
    value <<= scale.shift;
    while exponent > 0 && value <= MOST {
        value *= 10;
        exponent -= 1;
    }
    while exponent < 0 && value > 0 {
        dropped |= value % 10 != 0;
        value /= 10;
        exponent += 1;
    }
    Some((value + i128::from(dropped)).min(MOST))
}

fn ceil_div(value: i128, by: i128) -> i64 {
    let whole = value.div_euclid(by) + i128::from(value.rem_euclid(by) != 0);
    i64::try_from(whole).unwrap_or(if whole < 0 { i64::MIN } else { i64::MAX })
}

impl fmt::Display for Quantity {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl Hash for Quantity {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.nanos.hash(state);
    }
}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn canonical(text: &str) -> String {
        Quantity::parse(text).map_or_else(|| format!("{text} refused"), |q| q.canonical())
    }

    /// Pairs that `resource.MustParse(text).String()` of Kubernetes prints.
    #[test]
    fn the_canonical_spelling_is_that_of_kubernetes() {
        for (text, expected) in [
            ("0", "0"),
            ("0.5", "500m"),
            ("500m", "500m"),
            ("1", "1"),
            ("1.0", "1"),
            ("1000m", "1"),
            ("1e3", "1e3"),
            ("1E3", "1e3"),
            ("1e-3", "1e-3"),
            ("1000", "1k"),
            ("1024", "1024"),
            ("0.5Gi", "512Mi"),
            ("1.5Gi", "1536Mi"),
            ("1024Mi", "1Gi"),
            ("256Mi", "256Mi"),
            ("0.5Ki", "512"),
            ("100M", "100M"),
            ("1500M", "1500M"),
            ("0.1n", "1n"),
            ("-1.5", "-1500m"),
            ("+3", "3"),
            (".5", "500m"),
            ("5.", "5"),
            ("9223372036854775807", "9223372036854775807"),
            ("99999999999999999999", "9223372036854775807"),
            ("8Ei", "9223372036854775807"),
            ("0.000000000000000000001Ei", "1152922n"),
            ("12e0", "12"),
        ] {
            assert_eq!(canonical(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_quantity_is_refused() {
        for text in ["", " ", "x", "1x", "1 Gi", "1gi", "1..2", ".", "--1", "1e", "1e1000", "1K", "0x10", "١", "1Gi "]
        {
            assert!(Quantity::parse(text).is_none(), "{text:?}");
        }
    }

    #[test]
    fn reservations_are_rounded_up() {
        let millis = |text| Quantity::parse(text).map(|q| q.millis());
        assert_eq!(millis("0.2"), Some(200));
        assert_eq!(millis("0.0001"), Some(1));
        assert_eq!(Quantity::parse("0.5Gi").map(|q| q.units()), Some(536_870_912));
        assert_eq!(millis("-0.0001"), Some(0));
    }

    proptest! {
        #[test]
        fn printing_and_reading_keeps_the_value(text in "[+-]?[0-9]{1,19}(\\.[0-9]{0,12})?(n|u|m|k|M|G|Ki|Mi|Gi|e-?[0-9])?") {
            if let Some(quantity) = Quantity::parse(&text) {
                let again = Quantity::parse(&quantity.canonical());
                prop_assert_eq!(Some(&quantity), again.as_ref(), "{} -> {}", text, quantity.canonical());
            }
        }

        #[test]
        fn the_canonical_spelling_is_its_own(text in "[0-9]{1,19}(\\.[0-9]{0,12})?(n|u|m|k|M|G|Ki|Mi|Gi|e-?[0-9])?") {
            if let Some(quantity) = Quantity::parse(&text) {
                let canonical = quantity.canonical();
                let again = Quantity::parse(&canonical).map(|q| q.canonical());
                prop_assert_eq!(Some(canonical), again);
            }
        }

        #[test]
        fn sums_are_exact(a in -1_000_000_000_000i64..1_000_000_000_000, b in -1_000_000_000_000i64..1_000_000_000_000) {
            let (x, y) = (Quantity::from_millis(a), Quantity::from_millis(b));
            prop_assert_eq!(x.plus(&y).millis(), a + b);
            prop_assert_eq!(x.minus(&y).millis(), a - b);
            prop_assert_eq!(x.cmp(&y), a.cmp(&b));
        }

        #[test]
        fn nothing_panics(text in "\\PC{0,80}") {
            if let Some(quantity) = Quantity::parse(&text) {
                let _ = (quantity.canonical(), quantity.millis(), quantity.units());
            }
        }
    }
}
