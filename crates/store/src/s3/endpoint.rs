//! The service that a listener calls.

use std::convert::Infallible;
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, CONTENT_RANGE, EXPECT, TRANSFER_ENCODING};
use http::{HeaderName, HeaderValue, Method, Request, Response, StatusCode, Version};
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s::{Body, StdError};
use tracing::instrument::WithSubscriber as _;
use tracing::subscriber::NoSubscriber;

use super::api::Api;
use super::auth::StoredKeys;
use super::delete_route::DeleteRoute;
use super::{cors, guard, lent, rechunk, subresource};
use crate::store::Store;

/// Who is on the other end, as the listener knows it. To be put into a request's extensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer(pub IpAddr);

/// S3 over HTTP, as a `tower` service that never fails. Clones are cheap.
#[derive(Clone)]
pub struct Endpoint {
    service: S3Service,
    requests: Arc<AtomicU64>,
}

const REQUEST_ID: HeaderName = HeaderName::from_static("x-amz-request-id");

impl Store {
    /// The store for a listener of its own.
    pub fn service(&self) -> Endpoint {
        let mut builder = S3ServiceBuilder::new(Api::new(self.clone()));
        builder.set_auth(StoredKeys::new(self.clone()));
        builder.set_route(DeleteRoute(Api::new(self.clone())));
        Endpoint { service: builder.build(), requests: Arc::default() }
    }
}

impl Endpoint {
    async fn answer(&self, request: Request<Body>) -> Response<Body> {
        let origin = request.headers().contains_key(http::header::ORIGIN);
        let is_head = request.method() == Method::HEAD;
        let is_waiting = request.headers().contains_key(EXPECT);
        let has_body = request.version() <= Version::HTTP_11
            && [CONTENT_LENGTH, EXPECT, TRANSFER_ENCODING]
                .iter()
                .any(|name| request.headers().get(name).is_some_and(|value| value != "0"));
        let (head, body) = request.into_parts();
        let (lent, lender) = lent::lend(body);
        let request = Request::from_parts(head, Body::http_body_unsync(lent));
        let mut response =
            if request.method() == Method::OPTIONS { cors::preflight(&request) } else { self.serve(request).await };
        if has_body && !response.status().is_success() {
            // Part of a refused body may still be on its way; on a connection that stays open it
            // would be read as the beginning of the next request. And a client that is still
            // sending would lose the answer with the connection.
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            if !is_waiting || lender.is_begun() {
                lender.throw_away().await;
            }
        }
        // The library has only one status for looking at an object.
        if is_head && response.status() == StatusCode::OK && response.headers().contains_key(CONTENT_RANGE) {
            *response.status_mut() = StatusCode::PARTIAL_CONTENT;
        }
        if origin {
            cors::allow(response.headers_mut());
        }
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        let id = HeaderValue::try_from(format!("{number:016X}")).expect("digits are a header value");
        response.headers_mut().insert(REQUEST_ID, id);
        response
    }

    async fn serve(&self, request: Request<Body>) -> Response<Body> {
        let checked = guard::check(&request).and_then(|()| subresource::check(request.method(), request.uri()));
        let request = match checked {
            Ok(()) => rechunk::bound(request),
            Err(refusal) => return to_response(refusal),
        };
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        // The library logs every refusal as an error; ours is the one line below.
        let outcome = self.service.call(request).with_subscriber(NoSubscriber::default()).await;
        let response = outcome.unwrap_or_else(|error| {
            let error: StdError = error.into();
            tracing::error!(%error, "a request to the object store could not be answered");
            plain(StatusCode::INTERNAL_SERVER_ERROR)
        });
        if response.status().is_server_error() && response.status() != StatusCode::NOT_IMPLEMENTED {
            tracing::warn!(%method, path, status = response.status().as_u16(), "the object store failed a request");
        }
        response
    }
}

fn to_response(refusal: s3s::S3Error) -> Response<Body> {
    refusal.to_http_response().unwrap_or_else(|_| plain(StatusCode::INTERNAL_SERVER_ERROR))
}

fn plain(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

impl<B> tower::Service<Request<B>> for Endpoint
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    StdError: From<B::Error>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let endpoint = self.clone();
        let request = request.map(Body::http_body_unsync);
        Box::pin(async move { Ok(endpoint.answer(request).await) })
    }
}
