//! JSON as OSCAR prints it: compact, keys in declaration order, `<`, `>` and `&` escaped.

use std::io;

use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, Serializer};

/// Prints `value` byte for byte as Go's encoder would.
pub fn to_vec<T: Serialize + ?Sized>(value: &T) -> Vec<u8> {
    let mut out = Vec::with_capacity(2048);
    append(&mut out, value);
    out
}

/// Prints `value` after what `out` holds already.
pub fn append<T: Serialize + ?Sized>(out: &mut Vec<u8>, value: &T) {
    // Our bodies have string keys and no failing `Serialize`, and a `Vec` does not fail to grow.
    let printed = value.serialize(&mut Serializer::with_formatter(out, GoFormatter));
    debug_assert!(printed.is_ok(), "a body must serialise: {printed:?}");
}

struct GoFormatter;

impl Formatter for GoFormatter {
    fn write_string_fragment<W: ?Sized + io::Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        // Most texts hold none of them. Counting does not stop at the first, so the compiler can
        // look at many bytes at a time; 0xe2 begins the two line separators.
        if fragment.bytes().filter(|byte| matches!(byte, b'<' | b'>' | b'&' | 0xe2)).count() == 0 {
            return CompactFormatter.write_string_fragment(writer, fragment);
        }
        let mut rest = fragment;
        while let Some(at) = rest.find(['<', '>', '&', '\u{2028}', '\u{2029}']) {
            let (plain, special) = rest.split_at(at);
            CompactFormatter.write_string_fragment(writer, plain)?;
            let mut chars = special.chars();
            let code = chars.next().map_or(0, u32::from);
            write!(writer, "\\u{code:04x}")?;
            rest = chars.as_str();
        }
        CompactFormatter.write_string_fragment(writer, rest)
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn angle_brackets_are_escaped_as_go_does() {
        assert_eq!(super::to_vec("a<b>&\"\u{2028}ü"), r#""a\u003cb\u003e\u0026\"\u2028ü""#.as_bytes());
    }
}
