//! Files to services: every fault of every file is found before anything is sent.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use oscar_api::fdl::{self, Entry, FdlError};
use oscar_api::service::Draft;
use oscar_model::fault::{Fault, Faults, join, quoted};
use oscar_model::service::Definition;
use oscar_model::service::storage::StorageIo;

use crate::cli::definition::body::{self, Unknown};
use crate::cli::definition::known::{self, Stray};
use crate::cli::exit::{Exit, Failure};

/// More than this is not a definition.
const MOST_BYTES: u64 = 8 << 20;
const MOST_SCRIPT: u64 = 1 << 20;

/// One service of a file.
pub(super) struct Wanted {
    /// Where it was read.
    pub(super) file: String,
    /// The cluster that the file puts it on; blank when it names none.
    pub(super) cluster: String,
    pub(super) draft: Draft,
    pub(super) unknown: Vec<Unknown>,
}

/// What was read, and what is worth a warning.
#[derive(Default)]
pub(super) struct Reading {
    pub(super) wanted: Vec<Wanted>,
    pub(super) warnings: Vec<String>,
    faults: Vec<String>,
}

impl Reading {
    pub(super) fn of(files: &[PathBuf]) -> Result<Self, Failure> {
        let mut reading = Self::default();
        for file in files {
            reading.file(file)?;
        }
        if reading.faults.is_empty() {
            return Ok(reading);
        }
        let mut failure = Failure::new(Exit::Invalid, "the definition is not valid; nothing was sent");
        failure.details = reading.faults;
        Err(failure)
    }

    fn file(&mut self, path: &Path) -> Result<(), Failure> {
        let (name, folder, text) = if path == Path::new("-") {
            let text = bounded(std::io::stdin().lock(), MOST_BYTES);
            ("standard input".to_owned(), Path::new(""), text)
        } else {
            let text = fs::File::open(path).and_then(|file| bounded(file, MOST_BYTES));
            (path.display().to_string(), path.parent().unwrap_or(Path::new("")), text)
        };
        let text = text.map_err(|error| unreadable(&name, &error))?;
        match fdl::entries(&text) {
            Ok(entries) => entries.into_iter().for_each(|entry| self.entry(&name, folder, entry)),
            Err(FdlError::Faults(faults)) => self.blame(&name, &faults),
            Err(malformed @ FdlError::Malformed(_)) => {
                self.faults.push(format!("{name}: {}", fdl::describe(&malformed)));
            }
        }
        Ok(())
    }

    fn entry(&mut self, file: &str, folder: &Path, mut entry: Entry) {
        let script = inline_script(&mut entry, folder);
        match script {
            Ok(Some(warning)) => self.warnings.push(format!("{file}: {warning}")),
            Ok(None) => {}
            Err(fault) => self.blame(file, &Faults(vec![fault])),
        }
        match fdl::decode_entry(&entry) {
            Ok(draft) => {
                let unknown = body::unknown_fields(&entry);
                self.warnings.extend(unknown.iter().map(|field| about(file, field)));
                self.warnings.extend(known::strays(&entry.node).iter().map(|stray| about_stray(file, stray)));
                self.warnings.extend(about_circle(file, &draft.definition));
                self.wanted.push(Wanted { file: file.to_owned(), cluster: entry.cluster, draft, unknown });
            }
            Err(faults) => self.blame(file, &faults),
        }
    }

    fn blame(&mut self, file: &str, faults: &Faults) {
        self.faults.extend(faults.0.iter().map(|fault| format!("{file}: {fault}")));
    }
}

fn unreadable(name: &str, error: &std::io::Error) -> Failure {
    let exit = if error.kind() == std::io::ErrorKind::NotFound { Exit::NotFound } else { Exit::Failed };
    Failure::new(exit, format!("{name} cannot be read: {error}"))
}

fn about(file: &str, field: &Unknown) -> String {
    let near = known::nearest_field(&field.key);
    format!("{file}: {}does not know the field `{}`{}", place(field.line), field.key, meant(near))
}

/// What stands below a field cannot be passed on: the field is read and written anew.
fn about_stray(file: &str, stray: &Stray) -> String {
    let near = stray.near.as_deref();
    format!("{file}: {}does not know `{}` and leaves it out{}", place(stray.line), stray.path, meant(near))
}

/// Only who writes the script knows whether it ends.
fn about_circle(file: &str, definition: &Definition) -> Option<String> {
    let circle = |output: &StorageIo| definition.input.iter().any(|input| output.is_inside(input));
    let output = definition.output.iter().find(|output| circle(output))?;
    let (name, path) = (&definition.name, &output.path);
    Some(format!(
        "{file}: {name} writes its outputs to `{path}`, where its own inputs are: each output starts it again, for ever \
         unless its script ends that"
    ))
}

fn place(line: Option<usize>) -> String {
    line.map_or_else(String::new, |line| format!("line {line}: ")) + "this version "
}

fn meant(near: Option<&str>) -> String {
    near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"))
}

fn bounded(reader: impl std::io::Read, most: u64) -> std::io::Result<String> {
    let mut text = String::new();
    reader.take(most + 1).read_to_string(&mut text)?;
    if text.len() as u64 > most {
        return Err(std::io::Error::other(format!("it is larger than {} MiB", most >> 20)));
    }
    Ok(text)
}

/// Puts the content of the file that `script` names in its place.
fn inline_script(entry: &mut Entry, folder: &Path) -> Result<Option<String>, Fault> {
    let Some(script) = fdl::script_text(entry).map(str::to_owned).filter(|text| fdl::script_is_path(text)) else {
        return Ok(None);
    };
    let script = script.trim_end();
    let path = folder.join(script);
    let fault = |allowed: String| Fault {
        path: join(&entry.path, "script"),
        found: quoted(script),
        allowed,
        line: entry.node.line_of("script"),
    };
    if !path.is_file() {
        // Nobody's script is called `run.sh` or `bin/run` and nothing more; `date` may be one.
        if script.contains(['/', '.']) {
            return Err(fault("a file beside the definition, or the text of a script".to_owned()));
        }
        return Ok(Some(format!("there is no file `{script}`, so it is taken for the script itself")));
    }
    match fs::File::open(&path).and_then(|file| bounded(file, MOST_SCRIPT)) {
        Ok(text) => fdl::set_script(entry, text),
        Err(error) => return Err(fault(format!("a text file that can be read ({error})"))),
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> tempfile::TempDir {
        tempfile::tempdir().expect("a folder")
    }

    fn read(folder: &Path, text: &str) -> Result<Reading, Failure> {
        let path = folder.join("fdl.yaml");
        fs::write(&path, text).expect("written");
        Reading::of(&[path])
    }

    #[test]
    fn the_script_beside_the_file_is_put_in() {
        let folder = folder();
        fs::write(folder.path().join("run.sh"), "#!/bin/sh\necho hi\n").expect("written");
        let text = "functions:\n  oscar:\n  - here:\n      name: plants\n      image: a/b\n      script: run.sh\n";
        let reading = read(folder.path(), text).expect("valid");
        assert_eq!(reading.wanted[0].draft.definition.script, "#!/bin/sh\necho hi\n");
        assert_eq!(reading.wanted[0].cluster, "here");
        assert!(reading.warnings.is_empty());
    }

    #[test]
    fn a_missing_script_is_a_fault_unless_it_may_be_a_command() {
        let folder = folder();
        let failure = read(folder.path(), "name: a\nimage: a/b\nscript: run.sh\n").err().expect("no such file");
        assert_eq!(failure.exit, Exit::Invalid);
        assert!(failure.details[0].contains("fdl.yaml: line 3: script: found \"run.sh\""), "{:?}", failure.details);
        let reading = read(folder.path(), "name: a\nimage: a/b\nscript: date\n").expect("a command");
        assert!(reading.warnings[0].contains("no file `date`"), "{:?}", reading.warnings);
    }

    #[test]
    fn all_faults_of_all_files_are_told_at_once() {
        let folder = folder();
        let (one, two) = (folder.path().join("1.yaml"), folder.path().join("2.yaml"));
        fs::write(&one, "name: BAD\nimage: a/b\nscript: echo hi\ncpu: lots\n").expect("written");
        fs::write(&two, "functions: [\n").expect("written");
        let failure = Reading::of(&[one, two]).err().expect("faults");
        assert_eq!(failure.details.len(), 3, "{:?}", failure.details);
        assert!(failure.details[2].contains("2.yaml: the definition cannot be read"), "{:?}", failure.details);
    }

    #[test]
    fn a_service_that_starts_itself_is_noticed() {
        let text = |output: &str| {
            format!(
                "name: a\nimage: a/b\nscript: echo hi\ninput:\n- {{storage_provider: minio, path: data/in}}\n\
                 output:\n- {{storage_provider: minio.default, path: {output}}}\n"
            )
        };
        for circle in ["data/in", "/data/in/", "data/in/deeper"] {
            let reading = read(folder().path(), &text(circle)).expect("valid");
            assert!(reading.warnings[0].contains("each output starts it again"), "{circle}: {:?}", reading.warnings);
        }
        for fine in ["data/in2", "data/out"] {
            assert_eq!(read(folder().path(), &text(fine)).expect("valid").warnings, Vec::<String>::new());
        }
    }

    #[test]
    fn a_typing_error_is_noticed() {
        let reading = read(folder().path(), "name: a\nimage: a/b\nscript: echo hi\nmemroy: 1Gi\n").expect("valid");
        assert!(reading.warnings[0].ends_with("`memroy`; did you mean `memory`?"), "{:?}", reading.warnings);
    }

    #[test]
    fn a_typing_error_below_the_top_is_noticed_too() {
        let text = "name: a\nimage: a/b\nscript: echo hi\nexpose:\n  apiport: 80\nlabels: {anything: goes}\n";
        let reading = read(folder().path(), text).expect("valid");
        let expected = "line 5: this version does not know `expose.apiport` and leaves it out; \
                        did you mean `expose.api_port`?";
        assert_eq!(reading.warnings.len(), 1, "{:?}", reading.warnings);
        assert!(reading.warnings[0].ends_with(expected), "{:?}", reading.warnings);
    }
}
