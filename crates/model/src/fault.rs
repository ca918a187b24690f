//! What is wrong with something a user wrote: where, what was found, what is allowed.

use std::fmt;

/// One mistake in a definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Where, as one would write it to get there: `input[1].path`.
    pub path: String,
    /// What stands there, cut short; never a secret.
    pub found: String,
    /// What may stand there, or what to do.
    pub allowed: String,
    /// The line in the file, when there is one.
    pub line: Option<usize>,
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(out, "line {line}: ")?;
        }
        if !self.path.is_empty() {
            write!(out, "{}: ", self.path)?;
        }
        write!(out, "found {}, expected {}", self.found, self.allowed)
    }
}

/// Every mistake found so far, in the order of the definition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Faults(pub Vec<Fault>);

impl Faults {
    /// More than this many are not reported: nobody reads them, and an answer has limits.
    pub const MOST: usize = 100;

    pub fn push(&mut self, path: impl Into<String>, found: impl Into<String>, allowed: impl Into<String>) {
        self.add(Fault { path: path.into(), found: found.into(), allowed: allowed.into(), line: None });
    }

    /// The last one says that there are more than are told.
    fn add(&mut self, mut fault: Fault) {
        fault.found = without_userinfo(&fault.found);
        match self.0.len().cmp(&Self::MOST) {
            std::cmp::Ordering::Less => self.0.push(fault),
            std::cmp::Ordering::Equal => self.0.push(Fault {
                path: String::new(),
                found: "more faults than these".to_owned(),
                allowed: "a definition that can be read; mend these first".to_owned(),
                line: None,
            }),
            std::cmp::Ordering::Greater => {}
        }
    }

    pub fn mentions(&self, path: &str) -> bool {
        self.0.iter().any(|fault| fault.path == path)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The faults of a part, seen from the whole: `path` of the part is put before each.
    pub fn absorb(&mut self, prefix: &str, part: Faults) {
        for mut fault in part.0 {
            fault.path = join(prefix, &fault.path);
            self.add(fault);
        }
    }

    pub fn into_result<T>(self, value: T) -> Result<T, Faults> {
        if self.is_empty() { Ok(value) } else { Err(self) }
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.0.iter().enumerate() {
            if index > 0 {
                out.write_str("; ")?;
            }
            write!(out, "{fault}")?;
        }
        Ok(())
    }
}

/// `a` and `b` as one path: `a.b`, `a[1]`.
pub fn join(prefix: &str, rest: &str) -> String {
    match (prefix.is_empty(), rest.is_empty()) {
        (true, _) => rest.to_owned(),
        (_, true) => prefix.to_owned(),
        _ if rest.starts_with('[') => format!("{prefix}{rest}"),
        _ => format!("{prefix}.{rest}"),
    }
}

/// The same text without the user names and passwords of addresses in it.
pub fn without_userinfo(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (scheme, address) = rest.split_at(at + 3);
        shown.push_str(scheme);
        // A password that was not escaped may have a slash in it, so that the whole word counts.
        let end = address.find(|c: char| c.is_whitespace() || c == '"').unwrap_or(address.len());
        let hidden = address[..end].rfind('@').unwrap_or(0);
        if hidden > 0 {
            shown.push('…');
        }
        shown.push_str(&address[hidden..end]);
        rest = &address[end..];
    }
    shown + rest
}

/// A value as it is quoted in a fault: without the password of an address, cut at 60
/// characters, control characters escaped.
pub fn quoted(value: &str) -> String {
    let value = without_userinfo(value);
    let cut: String = value.chars().take(60).flat_map(char::escape_debug).collect();
    if value.chars().count() > 60 { format!("\"{cut}…\"") } else { format!("\"{cut}\"") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_says_where_what_and_what_instead() {
        let mut faults = Faults::default();
        faults.push("input[1].path", quoted(""), "a bucket and a folder");
        assert_eq!(faults.to_string(), "input[1].path: found \"\", expected a bucket and a folder");
    }

    #[test]
    fn the_password_of_an_address_is_not_quoted() {
        for (given, shown) in [
            ("http://u:pw@x/y", "\"http://…@x/y\""),
            ("http://u:p/w@x", "\"http://…@x\""),
            ("see ftp://u@x and https://a:b@c", "\"see ftp://…@x and https://…@c\""),
            ("https://x/y", "\"https://x/y\""),
            ("someone@egi.eu", "\"someone@egi.eu\""),
        ] {
            assert_eq!(quoted(given), shown);
            let mut faults = Faults::default();
            faults.push("url", given, "another");
            assert_eq!(format!("\"{}\"", faults.0[0].found), shown);
        }
        let long = format!("https://user:{}@x", "p".repeat(100));
        assert_eq!(quoted(&long), "\"https://…@x\"");
    }

    #[test]
    fn faults_of_a_part_get_the_path_of_the_whole() {
        let (mut whole, mut part) = (Faults::default(), Faults::default());
        part.push("path", "x", "y");
        part.push("", "x", "y");
        whole.absorb("input[0]", part);
        assert_eq!(whole.0[0].path, "input[0].path");
        assert_eq!(whole.0[1].path, "input[0]");
    }

    #[test]
    fn too_many_faults_end_with_a_word_about_the_rest() {
        let mut faults = Faults::default();
        for index in 0..300 {
            faults.push(format!("labels.{index}"), "x", "y");
        }
        assert_eq!(faults.0.len(), Faults::MOST + 1);
        assert!(faults.0.last().is_some_and(|last| last.found.contains("more")));
    }
}
