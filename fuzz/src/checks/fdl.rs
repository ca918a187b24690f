use oscar_api::fdl::{FdlError, decode_entry, describe, entries, script_is_path, script_text, set_script, single};

use super::definition::{is_told, survives};

/// A definition file: every service of it is accepted and survives, or is refused with the
/// lines at fault.
pub fn fdl(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    // Line breaks of YAML are more than those of `lines`.
    let lines = text.split(['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}']).count();
    let found = match entries(text) {
        Ok(found) => found,
        Err(error) => {
            assert!(!describe(&error).is_empty());
            if let FdlError::Faults(faults) = &error {
                is_told(faults, Some(lines));
            }
            assert!(single(text).is_err());
            return;
        }
    };
    assert!((1..=100).contains(&found.len()));
    for mut entry in found.iter().cloned() {
        match decode_entry(&entry) {
            Ok(draft) => survives(draft.definition),
            Err(faults) => is_told(&faults, Some(lines)),
        }
        if script_text(&entry).is_some_and(script_is_path) {
            set_script(&mut entry, "#!/bin/sh\n".to_owned());
            assert_eq!(script_text(&entry), Some("#!/bin/sh\n"));
        }
    }
    assert_eq!(single(text).is_ok(), found.len() == 1, "one service per request");
}
