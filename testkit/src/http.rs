//! The few HTTP calls the kit makes itself: readiness, tokens, and an administrator's POST.

use std::time::Duration;

use serde_json::Value;
use ureq::Agent;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

/// A client for loopback: no proxy, short patience, and a status is an answer, not an error.
pub(crate) fn agent(authority_pem: Option<&str>) -> Agent {
    let mut config =
        Agent::config_builder().proxy(None).timeout_global(Some(Duration::from_secs(20))).http_status_as_error(false);
    if let Some(pem) = authority_pem {
        let authority = Certificate::from_pem(pem.as_bytes()).expect("the PEM is our own");
        config = config.tls_config(TlsConfig::builder().root_certs(RootCerts::new_with_certs(&[authority])).build());
    }
    config.build().into()
}

/// Does the URL answer 200?
pub(crate) fn answers(agent: &Agent, url: &str) -> bool {
    agent.get(url).call().is_ok_and(|answer| answer.status().as_u16() == 200)
}

/// Status and JSON body (null when it is none) of a GET.
pub(crate) fn get(agent: &Agent, url: &str, bearer: Option<&str>) -> (u16, Value) {
    let mut request = agent.get(url);
    if let Some(token) = bearer {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let answer = request.call().unwrap_or_else(|error| panic!("GET {url}: {error}"));
    read(url, answer)
}

/// Status and JSON body of a form POST.
pub(crate) fn post_form(agent: &Agent, url: &str, form: &[(&str, &str)]) -> (u16, Value) {
    let answer = agent.post(url).send_form(form.iter().copied()).unwrap_or_else(|error| panic!("POST {url}: {error}"));
    read(url, answer)
}

/// Status and JSON body of a JSON POST.
pub(crate) fn post_json(agent: &Agent, url: &str, bearer: &str, body: &Value) -> (u16, Value) {
    let answer = agent
        .post(url)
        .header("authorization", format!("Bearer {bearer}"))
        .send_json(body)
        .unwrap_or_else(|error| panic!("POST {url}: {error}"));
    read(url, answer)
}

fn read(url: &str, mut answer: ureq::http::Response<ureq::Body>) -> (u16, Value) {
    let status = answer.status().as_u16();
    let text =
        answer.body_mut().read_to_string().unwrap_or_else(|error| panic!("reading the answer of {url}: {error}"));
    (status, serde_json::from_str(&text).unwrap_or(Value::Null))
}
