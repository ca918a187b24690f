//! The embedded object store beside the API on one listener.

use std::convert::Infallible;

use axum::body::Body;
use axum::extract::Request;
use axum::http::header;
use axum::response::Response;
use oscar_store::Endpoint;
use tower::ServiceExt as _;

/// Requests that are signed as S3 has it go to the store, all others to the API. Nobody can be
/// taken for somebody else by this: each side checks for itself who is calling.
pub fn with_store<S>(
    api: S,
    store: Option<Endpoint>,
) -> impl tower::Service<Request, Response = Response, Error = Infallible, Future: Send> + Clone + Send + 'static
where
    S: tower::Service<Request, Response = Response, Error = Infallible, Future: Send> + Clone + Send + 'static,
{
    tower::service_fn(move |request: Request| {
        let (api, store) = (api.clone(), store.clone());
        async move {
            match store {
                Some(store) if is_for_store(&request) => answer(store, request).await,
                _ => api.oneshot(request).await,
            }
        }
    })
}

/// The store alone, for a listener of its own.
pub fn store_only(
    store: Endpoint,
) -> impl tower::Service<Request, Response = Response, Error = Infallible, Future: Send> + Clone + Send + 'static {
    tower::service_fn(move |request: Request| answer(store.clone(), request))
}

async fn answer(store: Endpoint, request: Request) -> Result<Response, Infallible> {
    store.oneshot(request).await.map(|response| response.map(Body::new))
}

fn is_for_store(request: &Request) -> bool {
    let signed = request.headers().get(header::AUTHORIZATION);
    signed.is_some_and(|value| value.as_bytes().starts_with(b"AWS"))
        || request.uri().query().is_some_and(|query| {
            // Those of version 2 get an answer that their clients understand.
            let marks = ["X-Amz-Algorithm=", "X-Amz-Signature=", "AWSAccessKeyId="];
            query.split('&').any(|part| marks.iter().any(|mark| part.starts_with(mark)))
        })
}
