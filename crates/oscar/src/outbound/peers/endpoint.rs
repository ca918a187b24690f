//! The address of a manager, as far as it can be judged before anybody is asked.

use std::net::IpAddr;

use reqwest::Url;

use crate::outbound::address::{AddressPolicy, bare};

/// The address of a manager that may be called, or a sentence why it may not.
pub(super) fn parse(endpoint: &str, policy: &AddressPolicy) -> Result<Url, String> {
    let url = Url::parse(endpoint).map_err(|error| format!("its address cannot be read: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err("its address is neither http nor https".to_owned());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("its address contains credentials".to_owned());
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("its address has a query or a fragment".to_owned());
    }
    let host = url.host_str().unwrap_or_default();
    // An address is not looked up, so the resolver never sees it. Spellings such as `0x7f.1`
    // were made plain by the parser.
    if let Ok(address) = bare(host).parse::<IpAddr>() {
        policy.permits(host, address).map_err(|error| error.to_string())?;
    }
    Ok(url)
}

/// The same for every spelling of one address: case, default port, slash at the end.
pub(super) fn normalise(endpoint: &str) -> Option<String> {
    let url = Url::parse(endpoint).ok()?;
    let port = url.port_or_known_default()?;
    Some(format!("{}://{}:{port}{}", url.scheme(), url.host_str()?, url.path().trim_end_matches('/')))
}

/// What calls to one machine share, whatever the port.
pub(super) fn host(url: &Url) -> String {
    url.host_str().unwrap_or_default().to_ascii_lowercase()
}

pub(super) fn join(url: &Url, path: &str) -> Url {
    let mut joined = url.clone();
    joined.set_path(&format!("{}{path}", url.path().trim_end_matches('/')));
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_addresses_of_managers_are_called() {
        let policy = AddressPolicy::default();
        for good in ["https://oscar.example.org", "http://oscar.example.org:8080/oscar/", "https://1.1.1.1"] {
            assert!(parse(good, &policy).is_ok(), "{good}");
        }
        let wrong = [
            ("ftp://example.org", "neither http nor https"),
            ("file:///etc/passwd", "neither http nor https"),
            ("http://me:word@example.org", "credentials"),
            ("http://me@example.org", "credentials"),
            ("http://example.org/?x=1", "query"),
            ("http://example.org/#x", "fragment"),
            ("http://", "cannot be read"),
            ("example.org", "cannot be read"),
        ];
        for (address, why) in wrong {
            let told = parse(address, &policy).expect_err(address);
            assert!(told.contains(why) && !told.contains("word"), "{address}: {told}");
        }
    }

    #[test]
    fn an_address_of_numbers_is_judged_however_it_is_spelled() {
        let policy = AddressPolicy::default();
        let spellings = [
            "http://127.0.0.1:8080",
            "http://127.1",
            "http://2130706433",
            "http://0x7f.0.0.1",
            "http://017700000001",
            "http://0",
            "http://127.0.0.1.",
            "http://[::1]:80",
            "http://[::ffff:7f00:1]",
            "http://[::ffff:169.254.169.254]",
            "http://[64:ff9b::a9fe:a9fe]",
            "http://10.0.0.1",
            "http://169.254.169.254/latest/meta-data",
        ];
        for address in spellings {
            let told = parse(address, &policy).expect_err(address);
            assert!(told.contains("not permitted") && told.contains("peer_networks"), "{address}: {told}");
        }
    }

    #[test]
    fn spellings_of_one_address_are_one() {
        let same = ["https://Oscar.Example.org", "https://oscar.example.org:443/", "HTTPS://oscar.example.org//"];
        for spelling in same {
            assert_eq!(normalise(spelling).as_deref(), Some("https://oscar.example.org:443"), "{spelling}");
        }
        assert_ne!(normalise("http://oscar.example.org"), normalise("https://oscar.example.org"));
        assert_ne!(normalise("https://oscar.example.org/a"), normalise("https://oscar.example.org/b"));
        assert_eq!(normalise("x"), None);
    }

    #[test]
    fn paths_are_put_behind_the_address() {
        let joined = |base: &str| join(&Url::parse(base).expect("an address"), "/system/x").to_string();
        assert_eq!(joined("https://a.example"), "https://a.example/system/x");
        assert_eq!(joined("https://a.example/oscar/"), "https://a.example/oscar/system/x");
    }
}
