//! What a store says when it refuses.

use reqwest::{Response, StatusCode};

use crate::cli::exit::{Exit, Failure};

/// A page of a thousand of the longest keys fits.
const MOST: usize = 16 << 20;

/// What goes wrong with one request.
pub(super) struct Trouble {
    pub(super) failure: Failure,
    /// Worth another try.
    pub(super) passing: bool,
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        Self { failure, passing: false }
    }
}

impl Trouble {
    pub(super) fn unanswered(endpoint: &str, error: &reqwest::Error) -> Self {
        let mut cause = error.to_string();
        let mut source = std::error::Error::source(error);
        while let Some(inner) = source {
            cause = inner.to_string();
            source = inner.source();
        }
        let failure =
            Failure::new(Exit::Unreachable, format!("the object store at {endpoint} cannot be reached: {cause}"))
                .hint("the manager gives this address; can this machine reach it?");
        Self { failure, passing: true }
    }

    pub(super) async fn refused(answer: Response, place: &str) -> Self {
        let status = answer.status();
        let text = text_of(answer).await.unwrap_or_default();
        Self {
            failure: sentence(status, &text, place),
            passing: status.is_server_error() && status != StatusCode::INSUFFICIENT_STORAGE,
        }
    }
}

pub(super) async fn text_of(mut answer: Response) -> Result<String, reqwest::Error> {
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await? {
        body.extend_from_slice(&chunk[..chunk.len().min(MOST.saturating_sub(body.len()))]);
    }
    Ok(String::from_utf8_lossy(&body).into_owned())
}

fn sentence(status: StatusCode, text: &str, place: &str) -> Failure {
    let code = element(text, "Code").unwrap_or_default();
    let told = element(text, "Message").filter(|told| !told.is_empty());
    let told = told.unwrap_or_else(|| format!("the object store answered {status}"));
    match (status.as_u16(), code.as_str()) {
        (_, "NoSuchBucket") => Failure::new(Exit::NotFound, format!("there is no bucket for {place}"))
            .hint("`oscar bucket list` shows the buckets that you can use"),
        (404, _) => Failure::new(Exit::NotFound, format!("there is no object {place}")),
        (401 | 403, _) => Failure::new(Exit::NotPermitted, format!("{place}: {told}"))
            .hint("`oscar bucket list` shows the buckets that you can use"),
        (412, _) => Failure::new(Exit::Conflict, format!("{place} was changed meanwhile")).hint("try again"),
        _ => Failure::new(Exit::Failed, format!("{place}: {told}")),
    }
}

/// The text of the first element of this name. Enough for answers of a few known elements whose
/// texts are encoded, which keeps an XML parser out of the command line.
pub(super) fn element(xml: &str, name: &str) -> Option<String> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    let (text, _) = rest.split_once(&format!("</{name}>"))?;
    let plain = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&apos;", "'");
    Some(plain.replace("&#34;", "\"").replace("&#39;", "'").replace("&amp;", "&"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_told_in_words() {
        let xml = "<Error><Code>AccessDenied</Code><Message>not &quot;yours&quot;</Message></Error>";
        let failure = sentence(StatusCode::FORBIDDEN, xml, "data/x");
        assert_eq!((failure.exit, failure.message.as_str()), (Exit::NotPermitted, "data/x: not \"yours\""));
        assert_eq!(sentence(StatusCode::NOT_FOUND, "", "data/x").message, "there is no object data/x");
        let strange = sentence(StatusCode::BAD_GATEWAY, "<html>", "data/x");
        assert!(strange.message.contains("502"), "{strange:?}");
    }
}
