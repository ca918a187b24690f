//! Texts of settings, read as OSCAR reads its variables.

use oscar_model::federation::check::is_http_url;

/// Go's `ParseBool`.
pub(super) fn flag(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// A whole number, also written as `1e3` or `5.0`.
pub(super) fn count(text: &str) -> Option<u64> {
    if let Ok(count) = text.parse() {
        return Some(count);
    }
    let quantity = oscar_model::quantity::Quantity::parse(text)?;
    let units = quantity.units();
    let whole = oscar_model::quantity::Quantity::parse(&units.to_string())? == quantity;
    u64::try_from(units).ok().filter(|_| whole && !text.ends_with(|c: char| c.is_ascii_alphabetic()))
}

/// Blank is an empty list, not a list of one blank.
pub(super) fn list(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

pub(super) fn url(text: &str) -> Option<String> {
    is_http_url(text).then(|| text.trim_end_matches('/').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_flags_are_those_of_upstream() {
        assert_eq!((count("1e3"), count("5.0"), count("12")), (Some(1000), Some(5), Some(12)));
        assert_eq!((count("x"), count("1.5"), count("-1"), count("1k")), (None, None, None, None));
        assert_eq!((flag("T"), flag("yes")), (Some(true), None));
        assert_eq!(list(" a, b ,,"), ["a", "b"]);
        assert_eq!(list(""), Vec::<String>::new());
    }
}
