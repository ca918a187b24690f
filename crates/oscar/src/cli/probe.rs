//! Who answers at an address: whether it is OSCAR, of our kind, in time, and lets us in.

use std::time::{Duration, SystemTime};

use oscar_api::client::{ClientError, Credentials, causes, is_loopback};
use oscar_api::problem::Problem;
use oscar_model::image::NO_IMAGE;
use reqwest::header::{DATE, HeaderMap};
use serde_json::Value;

use super::exit::Failure;
use super::target::Target;

/// Managers of our kind say so here; only they know dry runs.
const MANAGER_HEADER: &str = "oscar-manager";

/// The description of a manager is small; more is somebody else's page.
const MOST_BYTES: usize = 64 << 10;

#[derive(Debug, Clone)]
pub(super) struct Hello {
    pub(super) answer: Answer,
    /// Whether the manager is of our kind.
    pub(super) ours: bool,
    /// How far its clock is before ours, in seconds.
    pub(super) ahead: Option<i64>,
}

#[derive(Debug, Clone)]
pub(super) enum Answer {
    /// It is OSCAR and knows us.
    Welcome(Info),
    NotAuthenticated,
    /// The status of something else.
    Other(u16),
}

/// What a manager says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Info {
    pub(super) version: String,
    pub(super) kubernetes: String,
    pub(super) backend: String,
    /// What runs scripts; blank when it does not tell.
    pub(super) executor: String,
}

impl Info {
    fn read(value: &Value) -> Option<Self> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Some(Self {
            version: value.get("version")?.as_str()?.to_owned(),
            kubernetes: text(&value["kubernetes_version"]),
            backend: text(&value["serverless_backend"]["name"]),
            executor: text(&value["executor"]),
        })
    }

    pub(super) fn sentence(&self) -> String {
        let part = |before: &str, text: &str| if text.is_empty() { String::new() } else { format!("{before}{text}") };
        let (kubernetes, backend) = (part(" on Kubernetes ", &self.kubernetes), part(" with ", &self.backend));
        format!("OSCAR {}{kubernetes}{backend}", self.version)
    }

    /// Whether scripts run beside the manager, with the programs of its machine, so that the image
    /// of a service says nothing. Services without one call it `none`.
    pub(super) fn ignores_image(&self, image: &str) -> bool {
        ["bubblewrap", "process"].contains(&self.executor.as_str()) && !["", NO_IMAGE].contains(&image)
    }

    /// Lists of ports came with 4.1; managers before it take one number.
    pub(super) fn takes_one_port(&self) -> bool {
        let mut parts = self.version.trim_start_matches('v').split('.').map(str::parse::<u32>);
        match (parts.next(), parts.next()) {
            (Some(Ok(major)), Some(Ok(minor))) => (major, minor) < (4, 1),
            _ => false,
        }
    }
}

/// Asks for `/system/info`, which needs credentials and changes nothing.
pub(super) async fn hello(target: &Target, timeout: Duration) -> Result<Hello, Failure> {
    let failed = |error: reqwest::Error| {
        let cause = causes(&error.without_url());
        Failure::from(ClientError::Unreachable { endpoint: target.url.clone(), cause })
    };
    let mut response = request(target, timeout).map_err(failed)?.send().await.map_err(failed)?;
    let ours = response.headers().contains_key(MANAGER_HEADER);
    let ahead = ahead(response.headers(), SystemTime::now());
    let status = response.status();
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(failed)?
        && body.len() <= MOST_BYTES
    {
        body.extend_from_slice(&chunk);
    }
    let info = serde_json::from_slice(&body).ok().and_then(|value| Info::read(&value));
    let answer = match (status.as_u16(), info) {
        (200, Some(info)) => Answer::Welcome(info),
        (401 | 403, _) => Answer::NotAuthenticated,
        (status, _) => Answer::Other(status),
    };
    Ok(Hello { answer, ours, ahead })
}

impl Hello {
    /// The manager's description, or the failure that its answer is.
    pub(super) fn welcome(&self, target: &Target) -> Result<&Info, Failure> {
        let refused = |status, detail: &str| {
            let problem = Problem { status, detail: detail.to_owned(), ..Problem::default() };
            Failure::from(ClientError::Refused(Box::new(problem)))
        };
        match &self.answer {
            Answer::Welcome(info) => Ok(info),
            Answer::NotAuthenticated => Err(refused(401, &format!("{} refuses the credentials", target.title()))),
            Answer::Other(status @ (300..400 | 500..600)) => {
                Err(refused(*status, &format!("{} answered {status}", target.title())))
            }
            Answer::Other(status) => Err(Failure::from(ClientError::NotOscar {
                endpoint: target.url.clone(),
                cause: format!("it answered {status} to `/system/info`"),
            })),
        }
    }
}

fn request(target: &Target, timeout: Duration) -> Result<reqwest::RequestBuilder, reqwest::Error> {
    let mut builder = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .timeout(timeout)
        .user_agent(concat!("oscar/", env!("CARGO_PKG_VERSION")))
        .tls_danger_accept_invalid_certs(target.insecure);
    if is_loopback(&target.url) {
        builder = builder.no_proxy();
    }
    if let Some(pem) = &target.ca {
        builder = builder.add_root_certificate(reqwest::Certificate::from_pem(pem)?);
    }
    let request = builder.build()?.get(format!("{}/system/info", target.url));
    Ok(match &target.credentials {
        Credentials::None => request,
        Credentials::Basic { user, password } => request.basic_auth(user, Some(password.expose())),
        Credentials::Bearer(token) => request.bearer_auth(token.expose()),
    })
}

fn ahead(headers: &HeaderMap, now: SystemTime) -> Option<i64> {
    let theirs = httpdate::parse_http_date(headers.get(DATE)?.to_str().ok()?).ok()?;
    let seconds = |distance: Duration| i64::try_from(distance.as_secs()).unwrap_or(i64::MAX);
    Some(match theirs.duration_since(now) {
        Ok(ahead) => seconds(ahead),
        Err(behind) => -seconds(behind.duration()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_managers_take_one_port() {
        let of = |version: &str| Info { version: version.to_owned(), ..Info::default() }.takes_one_port();
        assert!(of("v3.6.5") && of("v4.0.0") && of("4.0"));
        assert!(!of("v4.1.0") && !of("v4.10.2") && !of("devel") && !of(""));
    }

    #[test]
    fn only_containers_use_images() {
        let with = |executor: &str| Info { executor: executor.to_owned(), ..Info::default() };
        assert!(with("bubblewrap").ignores_image("cowsay") && with("process").ignores_image("cowsay"));
        assert!(!with("container").ignores_image("cowsay") && !with("").ignores_image("cowsay"));
        assert!(!with("bubblewrap").ignores_image("none"));
    }

    #[test]
    fn the_clock_of_the_manager_is_compared() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        let mut headers = HeaderMap::new();
        assert_eq!(ahead(&headers, now), None);
        headers.insert(DATE, httpdate::fmt_http_date(now + Duration::from_secs(90)).parse().expect("a header"));
        assert_eq!(ahead(&headers, now), Some(90));
        assert_eq!(ahead(&headers, now + Duration::from_secs(100)), Some(-10));
    }
}
