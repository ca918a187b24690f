//! What is refused before the library looks at it.

use http::{HeaderMap, Method, Request, header};
use percent_encoding::percent_decode_str;
use s3s::{Body, S3Error, S3ErrorCode};

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
    match signed_headers(authorization, query) {
        Some(signed) => check_signed(headers, &signed),
        None => Ok(()),
    }
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
            let presigned = "/b/k?X-Amz-SignedHeaders=host%3Bcontent-type&X-Amz-Signature=s";
            assert!(check(&mk_request(presigned, &[(name, "v")])).is_err(), "{name}");
        }
        assert!(check(&mk_request("/b/k?X-Amz-SignedHeaders=content-type", &[])).is_err(), "the host, too");
        assert!(
            check(&mk_request("/b/k?X-Amz-SignedHeaders=host", &[("x-amz-content-sha256", "UNSIGNED-PAYLOAD")]))
                .is_ok()
        );
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
