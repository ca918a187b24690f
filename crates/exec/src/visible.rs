//! What of this machine a sandbox shows: programs and libraries, and the part of `/etc` that
//! programs need and that holds no secrets.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// Folders at the root that are links into `/usr` on most machines, and folders on some.
const SYSTEM: [&str; 6] = ["bin", "sbin", "lib", "lib32", "lib64", "libx32"];

/// Names of the network, certificates, time, loader, tables that C libraries read.
const SETTINGS: &[&str] = &[
    "alternatives",
    "ca-certificates",
    "ca-certificates.conf",
    "crypto-policies",
    "fonts",
    "gai.conf",
    "host.conf",
    "hosts",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "magic",
    "magic.mime",
    "mime.types",
    "nsswitch.conf",
    "os-release",
    "pki/ca-trust",
    "pki/tls/cert.pem",
    "pki/tls/certs",
    "profile.d",
    "protocols",
    "resolv.conf",
    "rpc",
    "services",
    "ssl/cert.pem",
    "ssl/certs",
    "ssl/openssl.cnf",
    "timezone",
];

/// Folders in `/etc` of languages, whose names hold a version.
const SETTINGS_OF_LANGUAGES: [&str; 5] = ["java", "python", "perl", "R", "ImageMagick"];

const GPU_DEVICES: [&str; 4] = ["nvidia", "dri", "kfd", "dxg"];

/// The lines of `bwrap` that show the system read-only. `hidden` is covered wherever it would
/// be in sight.
pub(crate) fn system(more: &[PathBuf], hidden: &[PathBuf]) -> Vec<OsString> {
    let mut words: Vec<OsString> = Vec::new();
    // Folders that come into being on the way to another one would be closed to other users.
    let above = more.iter().flat_map(|path| {
        path.ancestors().skip(1).filter(|path| path.parent().is_some()).collect::<Vec<_>>().into_iter().rev()
    });
    for folder in ["/etc", "/etc/pki", "/etc/pki/tls", "/etc/ssl"].map(Path::new).into_iter().chain(above) {
        push(&mut words, &["--perms".as_ref(), "0755".as_ref(), "--dir".as_ref(), folder.as_os_str()]);
    }
    show(&mut words, Path::new("/usr"));
    for name in SYSTEM {
        let path = Path::new("/").join(name);
        match fs::read_link(&path) {
            Ok(target) => push(&mut words, &["--symlink".as_ref(), target.as_os_str(), path.as_os_str()]),
            Err(_) => show(&mut words, &path),
        }
    }
    for name in SETTINGS {
        show(&mut words, &Path::new("/etc").join(name));
    }
    for entry in fs::read_dir("/etc").into_iter().flatten().flatten() {
        let name = entry.file_name();
        if SETTINGS_OF_LANGUAGES.iter().any(|start| name.to_string_lossy().starts_with(start)) {
            show(&mut words, &entry.path());
        }
    }
    for path in more {
        show(&mut words, path);
    }
    let shown = |path: &Path| {
        std::iter::once(Path::new("/usr")).chain(more.iter().map(PathBuf::as_path)).any(|top| path.starts_with(top))
    };
    for path in hidden.iter().filter_map(|path| fs::canonicalize(path).ok()).filter(|path| shown(path)) {
        push(&mut words, &["--perms".as_ref(), "0000".as_ref(), "--tmpfs".as_ref(), path.as_os_str()]);
        push(&mut words, &["--remount-ro".as_ref(), path.as_os_str()]);
    }
    words
}

/// The devices of graphics processors that are here.
pub(crate) fn gpu_devices() -> Vec<OsString> {
    let mut words = Vec::new();
    for entry in fs::read_dir("/dev").into_iter().flatten().flatten() {
        if GPU_DEVICES.iter().any(|start| entry.file_name().to_string_lossy().starts_with(start)) {
            let path = entry.path();
            push(&mut words, &["--dev-bind".as_ref(), path.as_os_str(), path.as_os_str()]);
        }
    }
    words
}

fn show(words: &mut Vec<OsString>, path: &Path) {
    if path.exists() {
        push(words, &["--ro-bind".as_ref(), path.as_os_str(), path.as_os_str()]);
    }
}

fn push(words: &mut Vec<OsString>, more: &[&std::ffi::OsStr]) {
    words.extend(more.iter().map(OsString::from));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_the_list_of_settings_is_known_to_hold_secrets() {
        for secret in ["shadow", "gshadow", "ssh", "ssl/private", "pki/tls/private", "sudoers", "passwd"] {
            let inside = |name: &&str| Path::new(secret).starts_with(name);
            assert!(!SETTINGS.iter().any(inside), "{secret}");
        }
    }

    #[test]
    fn a_hidden_folder_in_sight_is_covered_and_one_out_of_sight_needs_nothing() {
        let words = system(&[], &["/usr/share".into(), "/root".into(), "/usr/no-such".into()]);
        let covered: Vec<_> = words.windows(2).filter(|pair| pair[0] == "--tmpfs").map(|pair| &pair[1]).collect();
        assert_eq!(covered, ["/usr/share"]);
    }
}
