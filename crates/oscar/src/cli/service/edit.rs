//! `oscar service edit`: the definition in an editor, again until it is right or given up.
//!
//! Credentials do not reach the file: marks stand in their places and are replaced by the
//! values when the text is read back.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use oscar_api::client::Tagged;
use oscar_api::fdl::{self, FdlError};
use oscar_api::tree::{Malformed, Node, Value as Tree};
use oscar_model::fault::Faults;
use serde_json::Value;

use super::fetch;
use crate::cli::Session;
use crate::cli::definition::{body, view, yaml};
use crate::cli::exit::{Exit, Failure};
use crate::cli::places::variable;
use crate::cli::{diff, probe, progress, screen, target};

/// Lines of ours; they go away when the text is read.
const OURS: &str = "#: ";

pub(super) async fn run(session: &Session, name: &str) -> Result<(), Failure> {
    let (target, Tagged { value, revision }) = fetch(session, name).await?;
    let hello = progress::during("asking who the manager is", probe::hello(&target, target::ORDINARY)).await?;
    let one_port = !hello.ours && hello.welcome(&target)?.takes_one_port();
    let client = target.client(target::ORDINARY)?;
    let (original, secrets) = with_marks(view::definition(&view::normal(&value)));
    let original = yaml::to_yaml(&original);
    let mut desk = Desk::new(name, &original)?;
    loop {
        let text = desk.edit()?;
        if text.trim().is_empty() || text == original {
            screen::note("nothing was changed");
            return Ok(());
        }
        let wrong = match read(&text, name, &secrets, hello.ours) {
            Ok(mut body) => {
                if one_port {
                    body::with_single_ports(&mut body);
                }
                let call = client.update_service(&body, revision.as_deref());
                match progress::during(&format!("updating {name}"), call).await.map_err(Failure::from) {
                    Ok(told) => {
                        if !told.trim().is_empty() {
                            session.screen.warning(&screen::one_line(&told));
                        }
                        screen::write_out(&diff::render(&original, &text, session.screen.paint));
                        screen::note(&format!("updated {name}"));
                        return Ok(());
                    }
                    // Its faults can be corrected like ours.
                    Err(failure) if failure.exit == Exit::Invalid => Wrong::Refused(failure),
                    Err(failure) => return Err(desk.keep(failure)),
                }
            }
            Err(wrong) => wrong,
        };
        desk.complain(wrong)?;
    }
}

/// Why a text was not taken.
enum Wrong {
    /// Found here, by its lines in the text without ours.
    Faults(Faults),
    Malformed(Malformed),
    /// By the manager.
    Refused(Failure),
}

impl Wrong {
    /// As it is told when the text stands below so many lines of ours.
    fn below(self, lines: usize) -> Failure {
        match self {
            Self::Refused(failure) => failure,
            Self::Malformed(mut malformed) => {
                if let Malformed::NotYaml { line, .. } = &mut malformed {
                    *line += lines;
                }
                Failure::new(Exit::Invalid, fdl::describe(&FdlError::Malformed(malformed)))
            }
            Self::Faults(mut faults) => {
                faults.0.iter_mut().filter_map(|fault| fault.line.as_mut()).for_each(|line| *line += lines);
                Failure::invalid("the definition is not valid", &faults)
            }
        }
    }

    /// Lines of ours that tell of it: each fault, and one before and one after.
    fn lines(&self) -> usize {
        2 + match self {
            Self::Refused(failure) => failure.details.len(),
            Self::Malformed(_) => 0,
            Self::Faults(faults) => faults.0.len(),
        }
    }
}

/// The definition with a numbered mark for each credential, and the credentials in that order.
fn with_marks(mut definition: Value) -> (Value, Vec<String>) {
    let mut secrets = Vec::new();
    view::each_secret(&mut definition, &mut |_, secret| {
        let mark = mark(secrets.len());
        let value = std::mem::replace(secret, Value::from(mark));
        secrets.push(value.as_str().unwrap_or_default().to_owned());
    });
    (definition, secrets)
}

/// Numbered, so that a credential is found again when its field was moved or renamed.
fn mark(index: usize) -> String {
    format!("(hidden {})", index + 1)
}

fn without_marks(node: &mut Node, secrets: &[String]) {
    match &mut node.value {
        Tree::Text(text) => {
            if let Some(index) = (0..secrets.len()).find(|index| mark(*index) == *text) {
                text.clone_from(&secrets[index]);
            }
        }
        Tree::List(items) => items.iter_mut().for_each(|item| without_marks(item, secrets)),
        Tree::Map(fields) => fields.iter_mut().for_each(|(_, field)| without_marks(field, secrets)),
        Tree::Null | Tree::Bool(..) | Tree::Number(_) => {}
    }
}

/// The body of the request, or every fault of the text.
fn read(text: &str, name: &str, secrets: &[String], ours: bool) -> Result<Value, Wrong> {
    let mut entries = fdl::entries(text).map_err(|error| match error {
        FdlError::Faults(faults) => Wrong::Faults(faults),
        FdlError::Malformed(malformed) => Wrong::Malformed(malformed),
    })?;
    let mut faults = Faults::default();
    if entries.len() != 1 {
        faults.push("functions.oscar", format!("{} services", entries.len()), "one service");
        return Err(Wrong::Faults(faults));
    }
    let mut entry = entries.remove(0);
    without_marks(&mut entry.node, secrets);
    let draft = fdl::decode_entry(&entry).map_err(Wrong::Faults)?;
    if draft.definition.name.as_str() != name {
        faults.push("name", draft.definition.name.as_str(), format!("{name}; a service cannot be renamed"));
    }
    let mut body = body::request(&draft);
    body::add_unknown(&mut body, &body::unknown_fields(&entry));
    if !ours {
        for secret in body::blank_secrets(&body) {
            let path = format!("environment.secrets.{secret}");
            faults.push(path, "no value", "its value, because this manager forgets a secret that is sent without");
        }
    }
    for fault in &mut faults.0 {
        fault.line = entry.node.line_of(&fault.path);
    }
    faults.into_result(body).map_err(Wrong::Faults)
}

/// The file that is being edited.
struct Desk {
    folder: tempfile::TempDir,
    path: PathBuf,
    last: String,
}

impl Desk {
    fn new(name: &str, text: &str) -> Result<Self, Failure> {
        let failed = |error: io::Error| Failure::io("no file could be made for the editor", &error);
        // A definition holds credentials of its own making: variables, scripts, addresses.
        let mut builder = tempfile::Builder::new();
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
        let folder = builder.prefix("oscar-edit-").tempdir().map_err(failed)?;
        let path = folder.path().join(format!("{name}.yaml"));
        let head = format!(
            "{OURS}The definition of {name}. Save and leave to change it; leave it as it is to change nothing.\n\
             {OURS}\"(hidden …)\" stands for a credential, which stays as it is unless you write another.\n"
        );
        write_private(&path, &format!("{head}{text}")).map_err(failed)?;
        Ok(Self { folder, path, last: String::new() })
    }

    fn edit(&mut self) -> Result<String, Failure> {
        open_editor(&self.path)?;
        self.text()
    }

    /// What is in the file, without our lines.
    fn text(&self) -> Result<String, Failure> {
        let failed = |error: io::Error| Failure::io("the edited file could not be read", &error);
        let text = fs::read_to_string(&self.path).map_err(failed)?;
        Ok(text.split_inclusive('\n').filter(|line| !line.starts_with(OURS.trim_end())).collect())
    }

    /// Puts the faults on top of the text for another try; gives up when the text is as it was.
    fn complain(&mut self, wrong: Wrong) -> Result<(), Failure> {
        let text = self.text()?;
        let lines = wrong.lines();
        let failure = wrong.below(lines);
        if text == self.last {
            return Err(self.keep(failure));
        }
        let message = format!("Not sent: {}", one_line(&failure.message));
        let faults = failure.details.iter().map(|detail| format!("- {}", one_line(detail)));
        let end = "Correct it, or leave it as it is to give up.".to_owned();
        let head: Vec<_> =
            [message].into_iter().chain(faults).chain([end]).map(|line| format!("{OURS}{line}\n")).collect();
        debug_assert_eq!(head.len(), lines, "the faults name lines below these");
        write_private(&self.path, &(head.concat() + &text))
            .map_err(|error| Failure::io("the edited file could not be written", &error))?;
        self.last = text;
        Ok(())
    }

    /// Leaves the text where it is found again.
    fn keep(&mut self, failure: Failure) -> Failure {
        self.folder.disable_cleanup(true);
        failure.hint(format!("your text is kept in {}", self.path.display()))
    }
}

/// For its owner alone, also when an editor made the file anew.
fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    #[cfg(unix)]
    file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    file.write_all(text.as_bytes())
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// By a shell, because the variable may hold options: `code --wait`.
fn open_editor(path: &Path) -> Result<(), Failure> {
    let editor = variable("VISUAL").or_else(|| variable("EDITOR")).unwrap_or_else(|| "vi".to_owned());
    let status = Command::new("sh")
        .arg("-c")
        .arg(format!("{editor} \"$1\""))
        .arg("sh")
        .arg(path)
        .stdin(Stdio::inherit())
        .status()
        .map_err(|error| Failure::io("the editor could not be started", &error))?;
    if status.success() {
        return Ok(());
    }
    Err(Failure::new(Exit::Failed, format!("the editor `{editor}` ended with {status}; nothing was changed"))
        .hint("choose another by the variable VISUAL or EDITOR"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn service() -> Value {
        json!({
            "name": "plants", "image": "a/b", "script": "echo hi", "token": "TOKEN",
            "environment": {"secrets": {"KEY": ""}},
            "clusters": {"one": {"endpoint": "https://o", "auth_user": "u", "auth_password": "PASS"}},
            "storage_providers": {"s3": {"mine": {"access_key": "A", "secret_key": "SECRET", "region": "r"}}},
        })
    }

    fn opened() -> (String, Vec<String>) {
        let (marked, secrets) = with_marks(view::definition(&view::normal(&service())));
        (yaml::to_yaml(&marked), secrets)
    }

    #[test]
    fn credentials_stay_out_of_the_file_and_come_back_into_the_request() {
        let (text, secrets) = opened();
        assert!(!text.contains("PASS") && !text.contains("SECRET") && !text.contains("TOKEN"), "{text}");
        let moved = text.replace("one:", "two:");
        let Ok(body) = read(&moved, "plants", &secrets, true) else { panic!("it is valid") };
        assert_eq!(body["clusters"]["two"]["auth_password"], "PASS");
        assert_eq!(body["storage_providers"]["s3"]["mine"]["secret_key"], "SECRET");
        assert_eq!(body["environment"]["secrets"]["KEY"], "", "blank keeps what is stored");
    }

    fn faults(text: &str, secrets: &[String], ours: bool) -> Vec<String> {
        match read(text, "plants", secrets, ours) {
            Err(wrong) => wrong.below(10).details,
            Ok(body) => panic!("accepted: {body}"),
        }
    }

    #[cfg(unix)]
    #[test]
    fn nobody_else_reads_what_is_edited() {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
        let mut desk = Desk::new("plants", "name: plants\n").expect("made");
        assert_eq!((mode(desk.folder.path()), mode(&desk.path)), (0o700, 0o600));
        // Some editors write another file and rename it.
        fs::remove_file(&desk.path).expect("removed");
        fs::write(&desk.path, "name: others\n").expect("written");
        fs::set_permissions(&desk.path, fs::Permissions::from_mode(0o644)).expect("opened");
        desk.complain(Wrong::Refused(Failure::new(Exit::Invalid, "no"))).expect("another try");
        assert_eq!(mode(&desk.path), 0o600);
    }

    #[test]
    fn another_kind_of_manager_must_be_told_its_secrets_again() {
        let (text, secrets) = opened();
        let faults = faults(&text, &secrets, false);
        assert!(faults[0].contains("environment.secrets.KEY: found no value"), "{faults:?}");
        let given = text.replace("(hidden 1)", "new");
        let Ok(body) = read(&given, "plants", &secrets, false) else { panic!("the value is given") };
        assert_eq!(body["environment"]["secrets"]["KEY"], "new");
    }

    #[test]
    fn a_service_keeps_its_name_and_lines_are_those_of_the_file() {
        let (text, secrets) = opened();
        let faults = faults(&text.replace("name: plants", "name: others"), &secrets, true);
        assert!(faults[0].starts_with("line 11: name: ") && faults[0].contains("cannot be renamed"), "{faults:?}");
    }
}
