//! The typed client: what the command line, and later peers, use to talk to a manager.

mod buckets;
mod federation;
mod jobs;

use std::net::IpAddr;
use std::time::Duration;

use oscar_model::secret::Secret;
use reqwest::{Method, RequestBuilder, Response, StatusCode, header};
use serde_json::Value;

use crate::problem::{PROBLEM_JSON, Problem};
use crate::service::UNREADABLE_HEADER;

pub use federation::MembersChange;
pub use jobs::{Log, LogWish, RunAnswer};

/// How a caller proves who he is.
#[derive(Debug, Clone)]
pub enum Credentials {
    None,
    Basic { user: String, password: Secret },
    Bearer(Secret),
}

/// One manager, reached over connections that are kept.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    endpoint: String,
    credentials: Credentials,
}

/// Why a call did not give what was asked for.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody answered, or not in time, or the answer broke off.
    #[error("cannot reach {endpoint}: {cause}")]
    Unreachable { endpoint: String, cause: String },
    /// The manager refused. `problem.detail` is its sentence.
    #[error("{}", .0.detail)]
    Refused(Box<Problem>),
    /// Something answered that is not OSCAR.
    #[error("{endpoint} gave an answer that is not OSCAR's: {cause}")]
    NotOscar { endpoint: String, cause: String },
}

/// How a connection is made.
#[derive(Debug, Clone)]
pub struct Transport {
    pub verify_tls: bool,
    /// A certificate authority to trust beside the usual ones, PEM.
    pub ca_certificate: Option<Vec<u8>>,
    pub timeout: Duration,
}

impl Default for Transport {
    fn default() -> Self {
        Self { verify_tls: true, ca_certificate: None, timeout: Duration::from_secs(20) }
    }
}

/// An answer with what a change needs: the state it is about.
#[derive(Debug, Clone)]
pub struct Tagged {
    pub value: Value,
    /// The `ETag`, for `If-Match`.
    pub revision: Option<String>,
}

/// Every service that one may see.
#[derive(Debug, Clone, Default)]
pub struct Services {
    pub list: Vec<Value>,
    /// Names of those whose stored definition the manager cannot read; only the administrator
    /// is told.
    pub unreadable: Vec<String>,
}

/// The largest answer that is read: a list of ten thousand services fits.
const MOST_BYTES: usize = 64 << 20;

/// Whether an address is on this machine. What goes there, credentials too, is nobody else's:
/// it must not go by way of a proxy, and needs no TLS.
pub fn is_loopback(endpoint: &str) -> bool {
    let Ok(url) = reqwest::Url::parse(endpoint) else { return false };
    let host = url.host_str().unwrap_or_default();
    match host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
        Ok(address) => address.is_loopback(),
        Err(_) => host == "localhost" || host.ends_with(".localhost"),
    }
}

impl Client {
    pub fn new(endpoint: &str, credentials: Credentials, transport: &Transport) -> Result<Self, ClientError> {
        let endpoint = endpoint.trim_end_matches('/').to_owned();
        let fail = |cause: String| ClientError::Unreachable { endpoint: endpoint.clone(), cause };
        let mut builder = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .timeout(transport.timeout)
            .connect_timeout(transport.timeout.min(Duration::from_secs(10)))
            .user_agent(concat!("oscar/", env!("CARGO_PKG_VERSION")))
            .tls_danger_accept_invalid_certs(!transport.verify_tls);
        if is_loopback(&endpoint) {
            builder = builder.no_proxy();
        }
        if let Some(pem) = &transport.ca_certificate {
            let certificate = reqwest::Certificate::from_pem(pem).map_err(|error| fail(error.to_string()))?;
            builder = builder.add_root_certificate(certificate);
        }
        let http = builder.build().map_err(|error| fail(causes(&error)))?;
        Ok(Self { http, endpoint, credentials })
    }

    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    pub async fn health(&self) -> Result<String, ClientError> {
        let response = self.send(Method::GET, "/health", None, &[]).await?;
        String::from_utf8(self.bytes(response).await?).map_err(|error| self.not_oscar(&error))
    }

    /// Any JSON resource below the endpoint.
    pub async fn get(&self, path: &str) -> Result<Tagged, ClientError> {
        let response = self.send(Method::GET, path, None, &[]).await?;
        let revision = etag(&response);
        Ok(Tagged { value: self.json(response).await?, revision })
    }

    pub async fn services(&self) -> Result<Services, ClientError> {
        let response = self.send(Method::GET, "/system/services", None, &[]).await?;
        let header = response.headers().get(UNREADABLE_HEADER).and_then(|value| value.to_str().ok());
        let names = header.unwrap_or_default().split(',').map(|name| name.trim().to_owned());
        let unreadable = names.filter(|name| !name.is_empty()).collect();
        match self.json(response).await? {
            Value::Array(list) => Ok(Services { list, unreadable }),
            _ => Err(self.not_oscar(&"a list was expected")),
        }
    }

    async fn list(&self, path: &str) -> Result<Vec<Value>, ClientError> {
        match self.get(path).await?.value {
            Value::Array(items) => Ok(items),
            _ => Err(self.not_oscar(&"a list was expected")),
        }
    }

    /// `None` when there is no such service.
    pub async fn service(&self, name: &str) -> Result<Option<Tagged>, ClientError> {
        match self.get(&format!("/system/services/{name}")).await {
            Ok(tagged) => Ok(Some(tagged)),
            Err(ClientError::Refused(problem)) if problem.status == 404 => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// What became of each member of its federation; `None` when it has none, or when the manager
    /// does not tell.
    pub async fn create_service(&self, body: &Value) -> Result<Option<Value>, ClientError> {
        let response = self.send(Method::POST, "/system/services", Some(body), &[]).await?;
        // The service is there, whatever the answer says besides.
        let told = self.bytes(response).await.unwrap_or_default();
        Ok(serde_json::from_slice(&told).ok().filter(Value::is_object))
    }

    /// With a revision the change is made only if nobody else changed the service meanwhile.
    /// The answer is what the manager has to say about it, mostly nothing.
    pub async fn update_service(&self, body: &Value, revision: Option<&str>) -> Result<String, ClientError> {
        let guard: Vec<_> = revision.map(|revision| (header::IF_MATCH.as_str(), revision)).into_iter().collect();
        let response = self.send(Method::PUT, "/system/services", Some(body), &guard).await?;
        let told = self.bytes(response).await.unwrap_or_default();
        Ok(String::from_utf8_lossy(&told).into_owned())
    }

    /// What creating (`exists` false) or updating would store.
    pub async fn dry_run(&self, body: &Value, exists: bool) -> Result<Value, ClientError> {
        let method = if exists { Method::PUT } else { Method::POST };
        let response = self.send(method, "/system/services?dry_run=true", Some(body), &[]).await?;
        self.json(response).await
    }

    /// A replica belongs to its coordinator: with `detach` it is taken out of its federation first.
    /// With `keep_data` the buckets that were made for it stay; only managers of our kind know that.
    /// The answer is what the manager has to say about it, mostly nothing.
    pub async fn delete_service(&self, name: &str, detach: bool, keep_data: bool) -> Result<String, ClientError> {
        let flags = [("detach", detach), ("keep_data", keep_data)];
        let query: Vec<_> = flags.into_iter().filter(|(_, set)| *set).collect();
        let request = self.request(Method::DELETE, &format!("/system/services/{name}")).query(&query);
        let response = self.answered(request).await?;
        let told = self.bytes(response).await.unwrap_or_default();
        Ok(String::from_utf8_lossy(&told).into_owned())
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        headers: &[(&str, &str)],
    ) -> Result<Response, ClientError> {
        let mut request = self.request(method, path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        self.answered(request).await
    }

    /// A request that says who asks.
    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.http.request(method, format!("{}{path}", self.endpoint));
        let request = request.header(header::ACCEPT, format!("application/json, {PROBLEM_JSON}"));
        match &self.credentials {
            Credentials::None => request,
            Credentials::Basic { user, password } => request.basic_auth(user, Some(password.expose())),
            Credentials::Bearer(token) => request.bearer_auth(token.expose()),
        }
    }

    /// Sends; everything but a success is an error.
    async fn answered(&self, request: RequestBuilder) -> Result<Response, ClientError> {
        let response = request.send().await.map_err(|error| ClientError::Unreachable {
            endpoint: self.endpoint.clone(),
            // The error's own text would repeat the address.
            cause: causes(&error.without_url()),
        })?;
        if response.status().is_success() { Ok(response) } else { Err(self.refusal(response).await) }
    }

    async fn refusal(&self, response: Response) -> ClientError {
        let status = response.status();
        let is_problem = response
            .headers()
            .get(header::CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .is_some_and(|value| value.starts_with(PROBLEM_JSON));
        let body = self.bytes(response).await.unwrap_or_default();
        if is_problem && let Ok(problem) = serde_json::from_slice::<Problem>(&body) {
            return ClientError::Refused(Box::new(problem));
        }
        let text: String = String::from_utf8_lossy(&body).chars().take(2000).collect();
        let detail = if text.trim().is_empty() { plain_reason(status) } else { text };
        ClientError::Refused(Box::new(Problem { status: status.as_u16(), detail, ..Problem::default() }))
    }

    async fn json(&self, response: Response) -> Result<Value, ClientError> {
        let bytes = self.bytes(response).await?;
        serde_json::from_slice(&bytes).map_err(|error| self.not_oscar(&error))
    }

    async fn bytes(&self, mut response: Response) -> Result<Vec<u8>, ClientError> {
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.broke_off(error))? {
            bytes.extend_from_slice(&chunk);
            if bytes.len() > MOST_BYTES {
                return Err(self.not_oscar(&"the answer is too large"));
            }
        }
        Ok(bytes)
    }

    /// The connection ended before the answer did.
    fn broke_off(&self, error: reqwest::Error) -> ClientError {
        let cause = format!("the answer broke off ({})", causes(&error.without_url()));
        ClientError::Unreachable { endpoint: self.endpoint.clone(), cause }
    }

    fn not_oscar(&self, cause: &dyn std::fmt::Display) -> ClientError {
        ClientError::NotOscar { endpoint: self.endpoint.clone(), cause: cause.to_string() }
    }
}

fn etag(response: &Response) -> Option<String> {
    response.headers().get(header::ETAG).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

/// What a manager without a body means.
fn plain_reason(status: StatusCode) -> String {
    match status.as_u16() {
        401 => "the credentials were refused".to_owned(),
        403 => "you are not permitted to do this".to_owned(),
        404 => "it does not exist".to_owned(),
        _ => format!("the manager answered {status}"),
    }
}

/// The causes of an error, outermost first, once.
pub fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let part = cause.to_string();
        if !text.contains(&part) {
            text.push_str(": ");
            text.push_str(&part);
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_known_by_all_its_names() {
        let here =
            ["http://127.0.0.1:1", "https://127.1.2.3/x", "http://LOCALHOST", "http://a.localhost", "http://[::1]:80"];
        assert!(here.into_iter().all(is_loopback));
        let elsewhere =
            ["http://localhost.example.org", "http://127.example.org", "http://10.0.0.1", "http://[2001:db8::1]", "x"];
        assert!(!elsewhere.into_iter().any(is_loopback));
    }
}
