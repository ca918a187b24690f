//! Signatures of requests, version 4, in headers: what the administrative interface asks for, and
//! good for S3 too. Pure.

use jiff::Timestamp;
use oscar_model::secret::Secret;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use ring::{digest, hmac};

/// What S3 leaves as it is.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
const PLAIN_PATH: &AsciiSet = &PLAIN.remove(b'/');

pub(crate) struct Signer {
    pub(crate) access_key: String,
    pub(crate) secret_key: Secret,
    pub(crate) region: String,
}

/// What a signature covers.
pub(crate) struct Covered<'a> {
    pub(crate) method: &'a str,
    pub(crate) host: &'a str,
    /// Encoded.
    pub(crate) path: &'a str,
    /// Encoded and in order.
    pub(crate) query: &'a str,
    /// Further headers; names in lower case.
    pub(crate) headers: &'a [(String, String)],
    pub(crate) body: &'a [u8],
}

impl Signer {
    /// The headers that make a request a signed one.
    pub(crate) fn sign(&self, covered: &Covered<'_>, now: Timestamp) -> Vec<(String, String)> {
        let time = now.strftime("%Y%m%dT%H%M%SZ").to_string();
        let day = &time[..8];
        let body = hex(digest::digest(&digest::SHA256, covered.body).as_ref());
        let mut headers: Vec<(String, String)> =
            covered.headers.iter().map(|(name, value)| (name.clone(), value.trim().to_owned())).collect();
        headers.push(("host".to_owned(), covered.host.to_owned()));
        headers.push(("x-amz-content-sha256".to_owned(), body.clone()));
        headers.push(("x-amz-date".to_owned(), time.clone()));
        headers.sort();
        let names: Vec<&str> = headers.iter().map(|(name, _)| name.as_str()).collect();
        let names = names.join(";");
        let lines: String = headers.iter().map(|(name, value)| format!("{name}:{value}\n")).collect();
        let Covered { method, path, query, .. } = covered;
        let canonical = format!("{method}\n{path}\n{query}\n{lines}\n{names}\n{body}");
        let scope = format!("{day}/{}/s3/aws4_request", self.region);
        let hashed = hex(digest::digest(&digest::SHA256, canonical.as_bytes()).as_ref());
        let signature = hex(&self.key(day, format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{hashed}").as_bytes()));
        let credential = format!("{}/{scope}", self.access_key);
        let authorization =
            format!("AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders={names}, Signature={signature}");
        headers.retain(|(name, _)| name != "host");
        headers.push(("authorization".to_owned(), authorization));
        headers
    }

    fn key(&self, day: &str, text: &[u8]) -> Vec<u8> {
        let first = format!("AWS4{}", self.secret_key.expose());
        let parts = [day.as_bytes(), self.region.as_bytes(), b"s3", b"aws4_request", text];
        parts.iter().fold(first.into_bytes(), |key, part| {
            let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
            hmac::sign(&key, part).as_ref().to_vec()
        })
    }
}

/// A path of a request; slashes stay.
pub(crate) fn encoded_path(path: &str) -> String {
    utf8_percent_encode(path, PLAIN_PATH).to_string()
}

/// A query in the order that signatures want.
pub(crate) fn encoded_query(parts: &[(&str, &str)]) -> String {
    let encode = |text: &str| utf8_percent_encode(text, PLAIN).to_string();
    let mut parts: Vec<_> = parts.iter().map(|(name, value)| (encode(name), encode(value))).collect();
    parts.sort();
    let parts: Vec<String> = parts.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
    parts.join("&")
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of Amazon's documentation of S3's signatures: reading a bucket's lifecycle.
    #[test]
    fn the_documented_example_is_signed_as_documented() {
        let signer = Signer {
            access_key: "AKIAIOSFODNN7EXAMPLE".to_owned(),
            secret_key: Secret::new("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
            region: "us-east-1".to_owned(),
        };
        let query = encoded_query(&[("lifecycle", "")]);
        let covered = Covered {
            method: "GET",
            host: "examplebucket.s3.amazonaws.com",
            path: "/",
            query: &query,
            headers: &[],
            body: b"",
        };
        let now = "2013-05-24T00:00:00Z".parse().expect("a time");
        let headers = signer.sign(&covered, now);
        let authorization = headers.iter().find(|(name, _)| name == "authorization").expect("signed");
        let wanted = "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543";
        assert!(authorization.1.ends_with(wanted), "{}", authorization.1);
    }

    #[test]
    fn what_s3_does_not_leave_plain_is_encoded() {
        assert_eq!(encoded_path("/b/a b+ä*~.txt"), "/b/a%20b%2B%C3%A4%2A~.txt");
        assert_eq!(encoded_query(&[("prefix", "a/b"), ("list-type", "2")]), "list-type=2&prefix=a%2Fb");
    }
}
