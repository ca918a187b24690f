//! Where the key comes from that credentials are sealed with, and whether it is the right one.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use oscar_engine::ports::StoreError;
use ring::rand::SystemRandom;
use rusqlite::{Connection, OptionalExtension as _};

use super::errors::OpenError;
use super::folder::{private, restrict};
use super::index::Index;
use super::seal::{KEY_LENGTH, Place, Seal, random};
use super::writer::{Batch, Change, Failure};

const FILE: &str = "secret.key";

/// The key under which a known word is sealed, so that another key is noticed at once.
const CHECK: &str = "sealed_with";
const CHECK_PLACE: Place<'_> = Place { table: "meta", key: &[CHECK] };
const WORD: &[u8] = b"oscar";

/// The tables with sealed values.
const SEALED: [&str; 7] = ["sealed_secrets", "operations", "federations", "formers", "grants", "fences", "job_events"];
/// Noted in `meta` when a store beside this database keeps values that were sealed here.
const ELSEWHERE: &str = "sealed_elsewhere";

/// The key that the operator gave, or that of the folder, or none yet.
pub(super) enum Key {
    Given([u8; KEY_LENGTH]),
    Kept([u8; KEY_LENGTH]),
    Missing(PathBuf),
}

impl Key {
    pub(super) fn find(data: &Path, given: Option<[u8; KEY_LENGTH]>) -> Result<Self, OpenError> {
        if let Some(key) = given {
            return Ok(Self::Given(key));
        }
        let path = data.join(FILE);
        match fs::read_to_string(&path) {
            Ok(text) => {
                narrow(&path)?;
                let key = parse(text.trim()).ok_or_else(|| OpenError::BadKey { path: path.clone() })?;
                Ok(Self::Kept(key))
            }
            Err(cause) if cause.kind() == std::io::ErrorKind::NotFound => Ok(Self::Missing(path)),
            Err(cause) if cause.kind() == std::io::ErrorKind::InvalidData => Err(OpenError::BadKey { path }),
            Err(cause) => Err(OpenError::of_io(&path, cause)),
        }
    }

    /// The seal for a database in which nothing is sealed yet; a key is made when there is none.
    pub(super) fn first(self) -> Result<Seal, OpenError> {
        let key = match self {
            Self::Given(key) | Self::Kept(key) => key,
            Self::Missing(path) => make(&path)?,
        };
        Ok(Seal::new(&key))
    }

    /// The seal with which the credentials of this database were sealed. Where there are none
    /// left, any key will do from now on.
    pub(super) fn matching(self, connection: &Connection, database: &Path) -> Result<Seal, OpenError> {
        let failed = |error| OpenError::of_sql(database, &error);
        let needed = holds_sealed(connection).map_err(failed)?;
        if let (Self::Missing(path), true) = (&self, needed) {
            return Err(OpenError::NoKey { path: database.to_owned(), key: path.clone() });
        }
        let seal = self.first()?;
        let check = read_check(connection).map_err(failed)?.unwrap_or_default();
        if seal.open(CHECK_PLACE, &check).is_none_or(|word| word != WORD) {
            if needed {
                return Err(OpenError::OtherKey { path: database.to_owned() });
            }
            write_check(connection, &seal).map_err(failed)?;
        }
        Ok(seal)
    }
}

fn read_check(connection: &Connection) -> rusqlite::Result<Option<Vec<u8>>> {
    let stored: Option<String> =
        connection.query_row("SELECT value FROM meta WHERE key = ?1", [CHECK], |row| row.get(0)).optional()?;
    // What is no hexadecimal text was changed by hand; it opens with no key.
    Ok(stored.map(|text| from_hex(&text).unwrap_or_default()))
}

/// Notes with which key the database is sealed.
pub(super) fn write_check(connection: &Connection, seal: &Seal) -> rusqlite::Result<()> {
    let check = seal.seal(CHECK_PLACE, WORD).map_err(as_sql)?;
    let sql = "INSERT INTO meta (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = excluded.value";
    connection.execute(sql, [CHECK, &to_hex(&check)]).map(|_| ())
}

/// A failure to seal, on the way through the database's errors.
pub(super) fn as_sql(error: StoreError) -> rusqlite::Error {
    rusqlite::Error::ToSqlConversionFailure(Box::new(error))
}

fn holds_sealed(connection: &Connection) -> rusqlite::Result<bool> {
    let exists = |sql: &str, name: &[&str]| {
        connection.query_row(sql, rusqlite::params_from_iter(name), |row| row.get::<_, bool>(0))
    };
    for table in SEALED {
        // An older database has not all of them.
        if exists("SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?1)", &[table])?
            && exists(&format!("SELECT EXISTS (SELECT 1 FROM {table})"), &[])?
        {
            return Ok(true);
        }
    }
    exists("SELECT EXISTS (SELECT 1 FROM meta WHERE key = ?1)", &[ELSEWHERE])
}

/// From now on the key is needed, whatever this database itself holds.
pub(super) struct NoteElsewhere;

impl Change for NoteElsewhere {
    type Step = ();
    type Output = ();

    fn apply(&self, batch: &mut Batch<'_>) -> Result<(), Failure> {
        let sql = "INSERT INTO meta (key, value) VALUES (?1, '1') ON CONFLICT (key) DO NOTHING";
        batch.sql.execute(sql, [ELSEWHERE])?;
        Ok(())
    }

    fn publish(self, (): (), _: &mut Index) {}
}

/// Made beside and moved, so that a crash leaves no half of a key; flushed before anything is
/// sealed with it.
fn make(path: &Path) -> Result<[u8; KEY_LENGTH], OpenError> {
    let failed = |cause| OpenError::of_io(path, cause);
    let key = random(&SystemRandom::new()).ok_or_else(|| failed(std::io::Error::other("there are no random bytes")))?;
    let beside = path.with_extension("new");
    let write = || {
        let mut file = private().write(true).create(true).truncate(true).open(&beside)?;
        writeln!(file, "{}", to_hex(&key))?;
        file.sync_all()?;
        fs::rename(&beside, path)?;
        match path.parent() {
            Some(folder) => File::open(folder)?.sync_all(),
            None => Ok(()),
        }
    };
    write().map_err(failed)?;
    tracing::info!(?path, "a key for stored credentials was made; keep a copy of it beside the backups");
    Ok(key)
}

/// A key that others could read is used, because what it sealed is there already, but said so.
fn narrow(path: &Path) -> Result<(), OpenError> {
    match restrict(path) {
        Ok(false) => Ok(()),
        Ok(true) => {
            tracing::warn!(?path, "the key for stored credentials was readable by others; its rights were narrowed");
            Ok(())
        }
        Err(cause) => Err(OpenError::of_io(path, cause)),
    }
}

fn parse(text: &str) -> Option<[u8; KEY_LENGTH]> {
    from_hex(text)?.try_into().ok()
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<_> = text.chars().map(|c| c.to_digit(16)).collect::<Option<_>>()?;
    let pairs = digits.chunks_exact(2);
    let whole = pairs.remainder().is_empty();
    let bytes = pairs.map(|pair| u8::try_from(pair[0] << 4 | pair[1]).ok()).collect::<Option<_>>()?;
    whole.then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_64_hexadecimal_digits() {
        assert_eq!(parse(&to_hex(&[7; 32])), Some([7; 32]));
        assert_eq!(parse(&"AB".repeat(32)), Some([0xAB; 32]));
        for bad in ["", "ab", &"0".repeat(63), &"0".repeat(65), &"g".repeat(64)] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
