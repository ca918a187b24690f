//! When two texts are the address of one manager.

/// Scheme and host in small letters, without the port that the scheme means anyway and without
/// slashes at the end.
pub fn canonical(endpoint: &str) -> String {
    let endpoint = endpoint.trim().trim_end_matches('/');
    let Some((scheme, rest)) = endpoint.split_once("://") else { return endpoint.to_ascii_lowercase() };
    let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    let (scheme, authority) = (scheme.to_ascii_lowercase(), authority.to_ascii_lowercase());
    let port = match scheme.as_str() {
        "https" => ":443",
        "http" => ":80",
        _ => "",
    };
    let host = authority.strip_suffix(port).unwrap_or(&authority);
    format!("{scheme}://{host}{path}")
}

pub fn is_same(one: &str, other: &str) -> bool {
    canonical(one) == canonical(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_manager_has_one_address_however_it_is_written() {
        for same in ["https://b.example", "HTTPS://B.example:443", " https://b.example/ ", "https://b.example:443//"] {
            assert!(is_same(same, "https://b.example"), "{same}");
        }
        for other in ["http://b.example", "https://b.example:8443", "https://b.example/x", "https://b.example:4430"] {
            assert!(!is_same(other, "https://b.example"), "{other}");
        }
        assert!(is_same("http://[::1]:80/x/", "http://[::1]/x"));
        assert!(!is_same("http://a/X", "http://a/x"), "paths are as they are written");
        assert_eq!(canonical("strange"), "strange");
    }
}
