//! What is refused before the library looks at it.

use http::{HeaderMap, Method, Request, StatusCode, header};
use percent_encoding::percent_decode_str;
use s3s::{Body, S3Error, S3ErrorCode};

use super::errors::custom;

/// - Signatures of version 2 do not cover the body, and are not compared in constant time.
/// - Forms of browsers are read into memory as a whole.
/// - A header that changes the meaning of a request has to be signed: else the holder of an
///   address for one upload could make a copy of any object of the signer.
pub(super) fn check(request: &Request<Body>) -> Result<(), S3Error> {
    let (headers, query) = (request.headers(), request.uri().query().unwrap_or_default());
    let authorization = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    if is_version_2(authorization, query) {
        let message = "The authorization mechanism you have provided is not supported. Please use AWS4-HMAC-SHA256.";
        return Err(S3Error::with_message(S3ErrorCode::InvalidRequest, message));
    }
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if request.method() == Method::POST && content_type.to_ascii_lowercase().starts_with("multipart/form-data") {
        return Err(S3Error::with_message(S3ErrorCode::NotImplemented, "Uploads by forms are not implemented."));
    }
    match authorization {
        Some(value) => check_authorization(value, headers)?,
        None => check_address(query)?,
    }
    check_hash(headers)?;
    match signed_headers(authorization, query) {
        Some(signed) => check_signed(headers, &signed),
        None => Ok(()),
    }
}

fn refuse(code: S3ErrorCode, message: &'static str) -> Result<(), S3Error> {
    Err(S3Error::with_message(code, message))
}

fn check_authorization(value: &str, headers: &HeaderMap) -> Result<(), S3Error> {
    let (algorithm, fields) = value.trim_start().split_once(' ').unwrap_or((value, ""));
    if algorithm != "AWS4-HMAC-SHA256" {
        return refuse(S3ErrorCode::InvalidArgument, "Unsupported Authorization Type");
    }
    let has = |name: &str| fields.split(',').any(|field| field.trim_start().starts_with(name));
    if !["Credential=", "SignedHeaders=", "Signature="].into_iter().all(has) {
        let message = "The authorization header is malformed; it has to name Credential, SignedHeaders and Signature.";
        return refuse(S3ErrorCode::AuthorizationHeaderMalformed, message);
    }
    if !headers.contains_key("x-amz-date") && !headers.contains_key(header::DATE) {
        return refuse(S3ErrorCode::AccessDenied, "AWS authentication requires a valid Date or x-amz-date header");
    }
    Ok(())
}

/// S3's limit: a week.
const LONGEST_ADDRESS: u64 = 7 * 24 * 60 * 60;

/// The query of a presigned address, if it is one.
fn check_address(query: &str) -> Result<(), S3Error> {
    let value = |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
    if value("X-Amz-Signature").is_none() {
        return Ok(());
    }
    let bad = |message| Err(custom("AuthorizationQueryParametersError", StatusCode::BAD_REQUEST, message));
    let whole = ["X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Date", "X-Amz-Expires", "X-Amz-SignedHeaders"];
    if whole.into_iter().any(|name| value(name).is_none()) {
        return bad(
            "Query-string authentication version 4 requires the X-Amz-Algorithm, X-Amz-Credential, X-Amz-Signature, \
             X-Amz-Date, X-Amz-SignedHeaders, and X-Amz-Expires parameters.",
        );
    }
    match value("X-Amz-Expires").and_then(|seconds| seconds.parse::<u64>().ok()) {
        Some(seconds) if seconds <= LONGEST_ADDRESS => Ok(()),
        Some(_) => bad(
            "X-Amz-Expires must be less than a week (in seconds); that is, the given X-Amz-Expires must be less than 604800 seconds",
        ),
        None => bad("X-Amz-Expires should be a number"),
    }
}

/// A word that is neither a hash nor a kind of body is told apart from a wrong signature.
fn check_hash(headers: &HeaderMap) -> Result<(), S3Error> {
    let Some(value) = headers.get(SPEAKS_FOR_ITSELF).map(http::HeaderValue::as_bytes) else { return Ok(()) };
    let is_hash = value.len() == 64 && value.iter().all(u8::is_ascii_hexdigit);
    if is_hash || value == b"UNSIGNED-PAYLOAD" || value.starts_with(b"STREAMING-") || value.is_empty() {
        return Ok(());
    }
    let message = "x-amz-content-sha256 must be UNSIGNED-PAYLOAD, a kind of STREAMING body, or a valid sha256 value.";
    refuse(S3ErrorCode::InvalidArgument, message)
}

fn is_version_2(authorization: Option<&str>, query: &str) -> bool {
    let in_query = query.split('&').any(|pair| pair.starts_with("Signature=") || pair.starts_with("AWSAccessKeyId="));
    in_query || authorization.is_some_and(|value| value.trim_start().starts_with("AWS "))
}

fn signed_headers(authorization: Option<&str>, query: &str) -> Option<String> {
    let in_query = query.split('&').find_map(|pair| pair.strip_prefix("X-Amz-SignedHeaders="));
    if let Some(value) = in_query {
        return Some(percent_decode_str(value).decode_utf8_lossy().into_owned());
    }
    let list = authorization?.split_once("SignedHeaders=")?.1;
    Some(list.split(',').next().unwrap_or_default().trim().to_owned())
}

/// The hash of the body speaks for itself: a wrong one is refused.
const SPEAKS_FOR_ITSELF: &str = "x-amz-content-sha256";

fn check_signed(headers: &HeaderMap, signed: &str) -> Result<(), S3Error> {
    let is_signed = |name: &str| signed.split(';').any(|one| one.eq_ignore_ascii_case(name));
    let missing = headers
        .keys()
        .map(http::HeaderName::as_str)
        .find(|name| name.starts_with("x-amz-") && *name != SPEAKS_FOR_ITSELF && !is_signed(name));
    if missing.is_some() || !is_signed("host") {
        let message = "There were headers present in the request which were not signed";
        return Err(S3Error::with_message(S3ErrorCode::AccessDenied, message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_request(uri: &str, headers: &[(&str, &str)]) -> Request<Body> {
        let mut request = Request::builder().method(Method::PUT).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(Body::empty()).expect("a request")
    }

    #[test]
    fn headers_that_mean_something_have_to_be_signed() {
        let signed =
            "AWS4-HMAC-SHA256 Credential=a/20260101/r/s3/aws4_request,SignedHeaders=host;x-amz-date,Signature=s";
        assert!(check(&mk_request("/b/k", &[("authorization", signed), ("x-amz-date", "d")])).is_ok());
        for name in ["x-amz-copy-source", "x-amz-meta-a", "x-amz-tagging"] {
            assert!(check(&mk_request("/b/k", &[("authorization", signed), (name, "v")])).is_err(), "{name}");
            let presigned = mk_address("host%3Bcontent-type", "60");
            assert!(check(&mk_request(&presigned, &[])).is_ok());
            assert!(check(&mk_request(&presigned, &[(name, "v")])).is_err(), "{name}");
        }
        assert!(check(&mk_request("/b/k?X-Amz-SignedHeaders=content-type", &[])).is_err(), "the host, too");
        assert!(
            check(&mk_request("/b/k?X-Amz-SignedHeaders=host", &[("x-amz-content-sha256", "UNSIGNED-PAYLOAD")]))
                .is_ok()
        );
    }

    fn mk_address(signed: &str, expires: &str) -> String {
        format!(
            "/b/k?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=c&X-Amz-Date=d&X-Amz-Expires={expires}\
             &X-Amz-SignedHeaders={signed}&X-Amz-Signature=s"
        )
    }

    #[test]
    fn what_is_no_signature_at_all_is_told_apart_from_a_wrong_one() {
        let code = |uri: &str, headers: &[(&str, &str)]| {
            check(&mk_request(uri, headers)).map_err(|error| error.code().as_str().to_owned()).err().unwrap_or_default()
        };
        assert_eq!(code(&mk_address("host", "604800"), &[]), "");
        for expires in ["604801", "-1", "soon", ""] {
            assert_eq!(code(&mk_address("host", expires), &[]), "AuthorizationQueryParametersError", "{expires}");
        }
        assert_eq!(code("/b/k?X-Amz-Signature=s", &[]), "AuthorizationQueryParametersError");
        assert_eq!(code("/b/k", &[("authorization", "AWS4-HMAC-SHA512 Credential=a")]), "InvalidArgument");
        assert_eq!(code("/b/k", &[("authorization", "Basic YTpi")]), "InvalidArgument");
        assert_eq!(code("/b/k", &[("authorization", "AWS4-HMAC-SHA256 Credential=a")]), "AuthorizationHeaderMalformed");
        let whole = "AWS4-HMAC-SHA256 Credential=a, SignedHeaders=host, Signature=s";
        assert_eq!(code("/b/k", &[("authorization", whole)]), "AccessDenied");
        assert_eq!(code("/b/k", &[("authorization", whole), ("date", "d")]), "");
        assert_eq!(code("/b/k", &[("x-amz-content-sha256", "nonsense")]), "InvalidArgument");
    }

    #[test]
    fn old_signatures_and_forms_are_refused() {
        assert!(check(&mk_request("/b/k", &[("authorization", "AWS key:signature")])).is_err());
        assert!(check(&mk_request("/b/k?AWSAccessKeyId=a&Signature=b&Expires=1", &[])).is_err());
        let mut form = mk_request("/b", &[("content-type", "Multipart/Form-Data; boundary=x")]);
        *form.method_mut() = Method::POST;
        assert!(check(&form).is_err());
    }
}
