//! What a manager says when it is ready: lines to paste for people, one line for programs.

use std::path::Path;

use crate::cli::ADMIN_USER;
use crate::config::Password;

/// What decides how the manager is reached from another terminal.
pub(super) struct Newcomer<'a> {
    /// From everywhere.
    pub(super) data: &'a Path,
    /// Whether the command line looks there without being told.
    pub(super) is_default_folder: bool,
    /// Whether the command line has a cluster of its own to talk to.
    pub(super) knows_clusters: bool,
    pub(super) username: &'a str,
    pub(super) password: &'a Password,
    pub(super) url: &'a str,
}

impl Newcomer<'_> {
    /// The lines work in a terminal that knows nothing of this one.
    pub(super) fn lines(&self) -> Vec<String> {
        let password = match self.password {
            Password::Kept(path) | Password::ToBeMade(path) => {
                format!("$(cat {})", quoted(&path.display().to_string()))
            }
            Password::Given | Password::Missing => "$OSCAR_PASSWORD".to_owned(),
        };
        let is_kept = !matches!(self.password, Password::Given | Password::Missing);
        let place =
            if is_kept { "another terminal" } else { "another terminal where OSCAR_PASSWORD is the password you gave" };
        let (mut variables, mut needs_password) = (Vec::new(), false);
        if self.knows_clusters {
            variables.push(format!("OSCAR_ENDPOINT={} ", quoted(self.url)));
            needs_password = true;
        } else if !self.is_default_folder {
            variables.push(format!("OSCAR_DATA={} ", quoted(&self.data.display().to_string())));
        }
        if self.username != ADMIN_USER {
            variables.push(format!("OSCAR_USERNAME={} ", quoted(self.username)));
            needs_password = true;
        }
        if needs_password && is_kept {
            variables.push(format!("OSCAR_PASSWORD=\"{password}\" "));
        }
        vec![
            format!("Try, in {place}:"),
            format!("  {}oscar service list", variables.concat()),
            format!("  curl -u {}:{password} {}/system/info", quoted(self.username), quoted(self.url)),
        ]
    }
}

/// As one word of a shell.
fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:@%+=,".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn mk_newcomer<'a>(password: &'a Password, data: &'a Path) -> Newcomer<'a> {
        let (username, url) = ("oscar", "http://127.0.0.1:8080");
        Newcomer { data, is_default_folder: true, knows_clusters: false, username, password, url }
    }

    #[test]
    fn the_lines_name_what_another_terminal_cannot_know() {
        let data = Path::new("/tmp/it's here");
        let password = Password::Kept(data.join("admin-password"));
        let newcomer = mk_newcomer(&password, data);
        assert_eq!(newcomer.lines()[1], "  oscar service list");
        let cat = r"$(cat '/tmp/it'\''s here/admin-password')";
        assert_eq!(newcomer.lines()[2], format!("  curl -u oscar:{cat} http://127.0.0.1:8080/system/info"));

        let elsewhere = Newcomer { is_default_folder: false, ..mk_newcomer(&password, data) };
        assert_eq!(elsewhere.lines()[1], r"  OSCAR_DATA='/tmp/it'\''s here' oscar service list");
        let other = Newcomer { username: "root", ..mk_newcomer(&password, data) };
        assert_eq!(other.lines()[1], format!("  OSCAR_USERNAME=root OSCAR_PASSWORD=\"{cat}\" oscar service list"));
        let known = Newcomer { knows_clusters: true, is_default_folder: false, ..mk_newcomer(&password, data) };
        let expected = format!("  OSCAR_ENDPOINT=http://127.0.0.1:8080 OSCAR_PASSWORD=\"{cat}\" oscar service list");
        assert_eq!(known.lines()[1], expected, "else the cluster that is configured would be asked");
    }

    #[test]
    fn a_password_that_was_given_is_asked_for() {
        let data = PathBuf::from("/data");
        let lines = mk_newcomer(&Password::Given, &data).lines();
        assert!(lines[0].contains("OSCAR_PASSWORD is the password you gave"), "{lines:?}");
        assert_eq!(lines[2], "  curl -u oscar:$OSCAR_PASSWORD http://127.0.0.1:8080/system/info");
    }
}
