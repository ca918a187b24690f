//! Browsers may call from anywhere: what counts is the signature, which no page has by itself.

use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, header};
use s3s::Body;

const METHODS: HeaderValue = HeaderValue::from_static("GET, PUT, POST, DELETE, HEAD");
const EXPOSED: HeaderValue = HeaderValue::from_static(
    "ETag, Content-Length, Content-Range, Content-Type, Accept-Ranges, Last-Modified, x-amz-request-id, \
     x-amz-mp-parts-count, x-amz-meta-oscar-job, x-amz-checksum-crc32, x-amz-checksum-crc64nvme, x-amz-checksum-sha256",
);
const AN_HOUR: HeaderValue = HeaderValue::from_static("3600");

pub(super) fn preflight(request: &Request<Body>) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let asked = |name: HeaderName| request.headers().get(name).cloned();
    if let (Some(_), Some(_)) = (asked(header::ORIGIN), asked(header::ACCESS_CONTROL_REQUEST_METHOD)) {
        let headers = response.headers_mut();
        headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, METHODS);
        if let Some(wanted) = asked(header::ACCESS_CONTROL_REQUEST_HEADERS) {
            headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, wanted);
        }
        headers.insert(header::ACCESS_CONTROL_MAX_AGE, AN_HOUR);
    }
    response
}

pub(super) fn allow(headers: &mut HeaderMap) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED);
}
