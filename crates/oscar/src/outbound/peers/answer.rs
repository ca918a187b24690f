//! What another manager answered, and what may be repeated of it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use oscar_api::problem::{Code, ERROR_HEADER};
use oscar_engine::ports::peers::PeerError;
use oscar_model::federation::expand::Audience;
use oscar_model::federation::record::{Credential, Login};
use oscar_model::secret::Secret;
use oscar_model::service::Definition;
use oscar_model::service::storage::{Provider, Rucio};
use reqwest::header::{CONTENT_TYPE, HeaderMap, LOCATION};
use reqwest::{StatusCode, Url};

use super::http::{LONGEST_REFUSAL, Trouble};

const MANAGER_HEADER: &str = "oscar-manager";

/// How much of a foreign sentence is repeated.
const LONGEST_QUOTE: usize = 300;

/// Shorter secrets are not looked for: they would be found in every word.
const SHORTEST_SECRET: usize = 4;

pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    /// Of a success what was asked for; of anything else its beginning.
    pub(super) body: Result<Vec<u8>, Trouble>,
}

impl Answer {
    /// What kind of manager says so of itself: `Oscar-Manager: <instance id>; v=<number>`.
    pub(super) fn audience(&self) -> Audience {
        let named = self.header(MANAGER_HEADER).and_then(|value| value.split_once(';'));
        let known = named.is_some_and(|(id, version)| {
            let version = version.trim().strip_prefix("v=").and_then(|version| version.parse::<u32>().ok());
            !id.trim().is_empty() && version.is_some_and(|version| version > 0)
        });
        if known { Audience::Ours } else { Audience::Foreign }
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// The code of a refusal, which only our kind has.
    pub(super) fn code(&self) -> Option<Code> {
        let code = self.header(ERROR_HEADER).filter(|_| self.audience() == Audience::Ours)?;
        Code::ALL.iter().copied().find(|known| known.as_str() == code)
    }

    /// A page is what a proxy shows when the manager behind it is gone.
    pub(super) fn is_page(&self) -> bool {
        let typed = self.header(CONTENT_TYPE.as_str()).is_some_and(|value| value.starts_with("text/html"));
        typed || self.body.as_ref().is_ok_and(|body| is_markup(body))
    }

    /// Whether a body was not understood because it has a list of ports.
    pub(super) fn knows_one_port_only(&self) -> bool {
        let says = |body: &Vec<u8>| {
            let text = String::from_utf8_lossy(body).to_ascii_lowercase();
            text.contains("cannot unmarshal array") && text.contains("port of type int")
        };
        self.status == StatusCode::BAD_REQUEST && self.body.as_ref().is_ok_and(says)
    }

    /// A sentence about an answer that is no success.
    pub(super) fn sentence(&self, confidential: &Confidential) -> String {
        let status = self.status.as_u16();
        if self.status.is_redirection() {
            return match self.elsewhere() {
                Some(place) => format!("it redirects to {place} ({status}), and redirects are not followed"),
                None => format!("it redirects ({status}), and redirects are not followed"),
            };
        }
        match self.quote(confidential) {
            Some(quote) => format!("it answered {status}: {quote}"),
            None => format!("it answered {status}"),
        }
    }

    /// Why a change was not made, or may not have been.
    pub(super) fn refusal(&self, confidential: &Confidential) -> PeerError {
        let sentence = self.sentence(confidential);
        let passing = match self.code() {
            Some(code) => code.is_retryable(),
            None => matches!(self.status.as_u16(), 408 | 425 | 429) || self.status.is_server_error(),
        };
        match self.status {
            StatusCode::UNAUTHORIZED => PeerError::Credentials(sentence),
            status if passing || status.is_redirection() || status.is_informational() => {
                PeerError::Unreachable(sentence)
            }
            _ => PeerError::Refused(sentence),
        }
    }

    /// Where a redirect goes: scheme, host and port, but no query that may hold a key.
    fn elsewhere(&self) -> Option<String> {
        let url = Url::parse(self.header(LOCATION.as_str())?).ok()?;
        url.host_str().map(|_| clean(&url.origin().ascii_serialization()))
    }

    /// What it said, when an OSCAR said it. A page of something else is noise, and repeating
    /// what an arbitrary server answers would let users read it.
    fn quote(&self, confidential: &Confidential) -> Option<String> {
        let body = self.body.as_ref().ok()?;
        let kind = self.header(CONTENT_TYPE.as_str()).unwrap_or_default();
        let spoken = ["application/json", "application/problem+json", "text/plain"];
        let ours = self.audience() == Audience::Ours;
        let short = body.len() <= LONGEST_REFUSAL && spoken.iter().any(|spoken| kind.starts_with(spoken));
        if !(ours || short) || is_markup(body) {
            return None;
        }
        let text = confidential.hide(&clean(&confidential.hide(&String::from_utf8_lossy(body))));
        let quote = cut(&text);
        (!quote.is_empty()).then_some(quote)
    }
}

/// Words that are not repeated, whoever says them: a server may answer with what it was sent.
#[derive(Default)]
pub(super) struct Confidential(Vec<String>);

impl Confidential {
    pub(super) fn of(credential: &Credential) -> Self {
        let mut words = Self::default();
        match credential {
            Credential::None => {}
            Credential::Basic(Login { user, password }) => {
                words.add(password);
                words.0.push(STANDARD.encode(format!("{user}:{}", password.expose())));
            }
            Credential::Bearer(token) | Credential::MemberKey(token) => words.add(token),
        }
        words
    }

    pub(super) fn add(&mut self, secret: &Secret) {
        if secret.expose().len() >= SHORTEST_SECRET {
            self.0.push(secret.expose().to_owned());
        }
    }

    pub(super) fn add_definition(&mut self, definition: &Definition) {
        definition.environment.secrets.values().for_each(|secret| self.add(secret));
        for provider in definition.storage_providers.values() {
            self.add(match provider {
                Provider::Minio { secret_key, .. } | Provider::S3 { secret_key, .. } => secret_key,
                Provider::Onedata { token, .. } => token,
                Provider::Webdav { password, .. } => password,
                Provider::Rucio(Rucio { refresh_token, .. }) => refresh_token,
            });
        }
    }

    fn hide(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, word| text.replace(word, "…"))
    }
}

fn is_markup(body: &[u8]) -> bool {
    let text = String::from_utf8_lossy(body).to_ascii_lowercase();
    text.trim_start().starts_with('<') || text.contains("<html") || text.contains("<!doctype")
}

/// One line of printable text.
pub(super) fn clean(text: &str) -> String {
    let unprintable = |c: char| c.is_control() || c.is_whitespace() || is_invisible(c);
    text.split(unprintable).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Marks that turn the direction of a line or hide in it.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

pub(super) fn cut(text: &str) -> String {
    match text.char_indices().nth(LONGEST_QUOTE) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_answer(status: u16, headers: &[(&'static str, &str)], body: &str) -> Answer {
        let headers = headers.iter().map(|(name, value)| {
            let name = reqwest::header::HeaderName::from_static(name);
            (name, value.parse().expect("a header"))
        });
        let status = StatusCode::from_u16(status).expect("a status");
        Answer { status, headers: headers.collect(), body: Ok(body.as_bytes().to_vec()) }
    }

    fn told(headers: &[(&'static str, &str)], body: &str) -> String {
        let confidential = Confidential::of(&Credential::Bearer("open-sesame".into()));
        mk_answer(500, headers, body).sentence(&confidential)
    }

    const TEXT: (&str, &str) = ("content-type", "text/plain; charset=utf-8");
    const OURS: (&str, &str) = (MANAGER_HEADER, "0b5d; v=1");

    #[test]
    fn only_what_an_oscar_says_is_repeated() {
        assert_eq!(told(&[TEXT], "no  room\r\n\u{202e}left"), "it answered 500: no room left");
        assert_eq!(told(&[("content-type", "application/json")], "{\"a\":1}"), "it answered 500: {\"a\":1}");
        assert_eq!(told(&[], "root:x:0:0"), "it answered 500");
        assert_eq!(told(&[("content-type", "text/html")], "hello"), "it answered 500");
        assert_eq!(told(&[TEXT], "<!DOCTYPE html><p>hello"), "it answered 500");
        assert_eq!(told(&[TEXT], &"a".repeat(LONGEST_REFUSAL + 1)), "it answered 500");
        assert_eq!(told(&[OURS], "no room"), "it answered 500: no room");
        let long = told(&[OURS], &"ü".repeat(LONGEST_REFUSAL));
        assert_eq!(long, format!("it answered 500: {}…", "ü".repeat(LONGEST_QUOTE)));
    }

    #[test]
    fn what_it_was_sent_is_not_repeated() {
        assert_eq!(told(&[TEXT], "Bearer open-sesame is bad"), "it answered 500: Bearer … is bad");
        let login = Login { user: "me".to_owned(), password: "word".into() };
        let mut confidential = Confidential::of(&Credential::Basic(login));
        confidential.add(&"a\nkey".into());
        let answer = mk_answer(400, &[TEXT], "word bWU6d29yZA== a\nkey");
        assert_eq!(answer.sentence(&confidential), "it answered 400: … … …");
    }

    #[test]
    fn a_list_of_ports_that_is_not_understood_is_told_from_other_faults() {
        let knows = |status, words| mk_answer(status, &[TEXT], words).knows_one_port_only();
        let said = "The service specification is not valid: json: cannot unmarshal array into Go struct field \
                    Expose.expose.api_port of type int";
        assert!(knows(400, said) && !knows(500, said));
        assert!(knows(400, "json: cannot unmarshal array into Go struct field Expose.expose.nodePort of type int32"));
        assert!(!knows(400, "json: cannot unmarshal array into Go struct field Service.name of type string"));
    }

    #[test]
    fn our_kind_names_itself_and_its_version() {
        let audience = |value: &str| mk_answer(404, &[(MANAGER_HEADER, value)], "").audience();
        assert_eq!(audience("5f0c; v=1"), Audience::Ours);
        assert_eq!(audience("5f0c;v=2"), Audience::Ours);
        for other in ["5f0c", "; v=1", "5f0c; v=", "5f0c; v=0", "5f0c; v=one"] {
            assert_eq!(audience(other), Audience::Foreign, "{other}");
        }
        assert_eq!(mk_answer(404, &[(ERROR_HEADER, "not-visible")], "").code(), None, "a stranger has no codes");
        assert_eq!(mk_answer(403, &[OURS, (ERROR_HEADER, "not-visible")], "").code(), Some(Code::NotVisible));
    }

    #[test]
    fn a_redirect_names_where_it_goes_and_no_more() {
        let answer = mk_answer(307, &[("location", "https://me:word@x.example/path?token=abc")], "");
        let sentence = answer.sentence(&Confidential::default());
        assert_eq!(sentence, "it redirects to https://x.example (307), and redirects are not followed");
        let answer = mk_answer(301, &[("location", "/elsewhere")], "");
        assert_eq!(answer.sentence(&Confidential::default()), "it redirects (301), and redirects are not followed");
    }

    #[test]
    fn a_refusal_tells_whether_the_change_may_have_happened() {
        let refusal =
            |status, headers: &[(&'static str, &str)]| mk_answer(status, headers, "").refusal(&Confidential::default());
        assert!(matches!(refusal(401, &[]), PeerError::Credentials(_)));
        for status in [400, 403, 404, 409, 413] {
            assert!(matches!(refusal(status, &[]), PeerError::Refused(_)), "{status}");
        }
        for status in [301, 408, 429, 500, 502, 503] {
            assert!(matches!(refusal(status, &[]), PeerError::Unreachable(_)), "{status}");
        }
        assert!(matches!(refusal(507, &[OURS, (ERROR_HEADER, "store-full")]), PeerError::Refused(_)));
        assert!(matches!(refusal(500, &[OURS, (ERROR_HEADER, "internal")]), PeerError::Unreachable(_)));
    }
}
