//! Deleting many objects, whose request is read here: the library refuses characters beyond
//! U+FFFF that are written as numbers (`&#129408;`), and some clients write them so.

use http::{Extensions, HeaderMap, HeaderValue, Method, Uri, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use md5::{Digest as _, Md5};
use percent_encoding::percent_decode_str;
use s3s::dto::{Delete, DeleteObjectsInput};
use s3s::path::{S3Path, parse_path_style};
use s3s::route::S3Route;
use s3s::xml::{Deserialize as _, Deserializer, Serialize as _, Serializer};
use s3s::{Body, S3Error, S3ErrorCode, S3Request, S3Response, S3Result};

use super::api::Api;
use super::checksums::{check_said, compare, from_dto, from_headers, hasher};
use super::write_api::{check_md5, delete_objects};
use crate::intake::of_stream;

/// A thousand keys at their longest, each byte written as a number.
const LARGEST_LIST: usize = 8 * 1024 * 1024;

/// The digits of a character: `x10FFFF` or `1114111`. Looking further would let a list without an end
/// be read again and again.
const LONGEST_NUMBER: usize = 7;

/// Called when the signature was found to be right.
pub(super) struct DeleteRoute(pub(super) Api);

#[async_trait::async_trait]
impl S3Route for DeleteRoute {
    fn is_match(&self, method: &Method, uri: &Uri, _: &HeaderMap, _: &mut Extensions) -> bool {
        let mut names = uri.query().unwrap_or_default().split('&').map(|pair| pair.split('=').next());
        method == Method::POST && names.any(|name| name == Some("delete")) && bucket_of(uri).is_some()
    }

    async fn call(&self, mut request: S3Request<Body>) -> S3Result<S3Response<Body>> {
        let body = std::mem::take(&mut request.input);
        let body = Limited::new(body, LARGEST_LIST).collect().await.map_err(|error| {
            if error.is::<LengthLimitError>() {
                S3Error::new(S3ErrorCode::MaxMessageLengthExceeded)
            } else {
                of_stream(&error).into()
            }
        })?;
        let body = body.to_bytes();
        check_sums(&body, &request.headers)?;
        let delete = read(&body).ok_or_else(|| S3Error::new(S3ErrorCode::MalformedXML))?;
        let bucket = bucket_of(&request.uri).ok_or_else(|| S3Error::new(S3ErrorCode::InvalidBucketName))?;
        let input = DeleteObjectsInput {
            bucket,
            delete,
            bypass_governance_retention: None,
            checksum_algorithm: None,
            expected_bucket_owner: None,
            mfa: None,
            request_payer: None,
        };
        let output = delete_objects(&self.0, request.map_input(|_| input)).await?.output;
        let mut text = Vec::new();
        let mut serializer = Serializer::new(&mut text);
        serializer.decl().and_then(|()| output.serialize(&mut serializer)).map_err(S3Error::internal_error)?;
        let mut response = S3Response::new(Body::from(text));
        response.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/xml"));
        Ok(response)
    }
}

/// Compares the list with what its headers say of it.
fn check_sums(body: &[u8], headers: &HeaderMap) -> S3Result<()> {
    if let Some(said) = headers.get("content-md5") {
        check_md5(said.to_str().unwrap_or_default(), &Md5::digest(body))?;
    }
    let said = from_headers(headers);
    check_said(&said)?;
    let mut hasher = hasher(said.values.keys().map(String::as_str));
    hasher.update(body);
    Ok(compare(&said, &from_dto(&hasher.finalize()))?)
}

fn bucket_of(uri: &Uri) -> Option<String> {
    let path = percent_decode_str(uri.path()).decode_utf8().ok()?;
    match parse_path_style(&path).ok()? {
        S3Path::Bucket { bucket } => Some(bucket.into()),
        _ => None,
    }
}

fn read(body: &[u8]) -> Option<Delete> {
    let text = spell_out(std::str::from_utf8(body).ok()?);
    let mut deserializer = Deserializer::new(text.as_bytes());
    let delete = Delete::deserialize(&mut deserializer).ok()?;
    deserializer.expect_eof().ok()?;
    Some(delete)
}

/// Writes characters beyond U+FFFF, none of which means anything in XML, as themselves.
fn spell_out(text: &str) -> String {
    let mut whole = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("&#") {
        whole.push_str(before);
        let end = after.bytes().take(LONGEST_NUMBER + 1).position(|byte| byte == b';');
        let named = end.and_then(|end| Some((far_character(&after[..end])?, &after[end + 1..])));
        if let Some((character, behind)) = named {
            whole.push(character);
            rest = behind;
        } else {
            whole.push_str("&#");
            rest = after;
        }
    }
    whole.push_str(rest);
    whole
}

fn far_character(number: &str) -> Option<char> {
    let code = match number.strip_prefix('x') {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => number.parse(),
    };
    code.ok().filter(|code| *code > 0xFFFF).and_then(char::from_u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_may_be_written_as_numbers() {
        assert_eq!(spell_out("a&#129408;b&#x1F980;c"), "a🦀b🦀c");
        for kept in ["&#60;&#252;&amp;", "&#;&#x;&#zz;", "&#1", "&#4294967296;&#1114112;"] {
            assert_eq!(spell_out(kept), kept);
        }
        let endless = "&#".repeat(LARGEST_LIST / 2);
        assert_eq!(spell_out(&endless), endless, "each is looked at once");
        let body = "<Delete><Object><Key>&#252;&#129408;&lt;&#38;</Key></Object></Delete>";
        let keys: Vec<String> =
            read(body.as_bytes()).expect("it can be read").objects.into_iter().map(|object| object.key).collect();
        assert_eq!(keys, ["ü🦀<&"]);
        for bad in ["", "hello", "<Delete></Delete>", "<Delete><Object><Key>a</Key></Object></Delete><x/>"] {
            assert!(read(bad.as_bytes()).is_none(), "{bad}");
        }
    }
}
