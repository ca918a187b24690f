//! Texts that parsers and printers have stumbled over, and those that mean something here.

pub(super) const SUFFIXES: [&str; 20] =
    ["", "", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "e", "E-", "e+"];

pub(super) const WORDS: [&str; 100] = [
    // Taken for something else where they are not quoted.
    "", " ", "~", "null", "true", "No", "on", "0x1F", "0o17", "010", "1_000", ".inf", "-.INF", ".nan", "1e3", "1E400",
    "12:30", "2024-01-01", "=", "<<", "---", "...", "- a", "? a", ": b", "a: b", "a :b", "#c", "a #c", "%YAML", "@x",
    "`x", "&a", "*a", "!!str 1", "|", ">", "|+", "[", "]", "{", "}", ",", "'", "\"", "\\", "''", "\\x41",
    // Characters that are printed with care.
    "\n", "a\nb", "a\r\nb\r", "\t", "\ta", "a\t", " a", "a ", "a\n ", "\n\na", " \n a", "\0", "\u{7f}", "\u{85}", "\u{a0}",
    "\u{2028}", "a\u{2029}b", "\u{feff}", "\u{feff}a", "\u{e000}", "\u{1f600}", "é", "<a>&b", "\u{202e}",
    // Amounts and counts.
    "0", "-0", "-1", "0.5", "500m", "1e-3", "256Mi", "8Ei", "99999999999999999999", "1000000", "65536", "0.0005",
    // Words of definitions.
    "minio", "MinIO.default", "s3.a.b", "webdav.", "bkt/in", "/in/", "a/../b", "star", "mesh", "random", "load-based",
    "USER", "inference", "ab", "oscar.grycap/x", "https://a.example/",
];
