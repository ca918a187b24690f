//! From the `Authorization` header to a principal. Nothing below runs for a caller who is not
//! who he says.

use axum::http::{HeaderMap, Uri, header};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use oscar_api::problem::Code;
use oscar_engine::ports::identity::Refusal;
use oscar_model::federation::record::Bearer;
use oscar_model::identity::Principal;
use oscar_model::name::ServiceName;
use oscar_model::secret::Secret;

use super::answer::Refused;
use super::app::App;

/// What a request says of its sender.
enum Claim<'a> {
    Nothing,
    Basic(&'a str),
    Bearer(&'a str),
}

fn claim(headers: &HeaderMap) -> Claim<'_> {
    let Some(value) = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()) else {
        return Claim::Nothing;
    };
    let Some((scheme, rest)) = value.split_once(' ') else { return Claim::Nothing };
    if scheme.eq_ignore_ascii_case("basic") {
        Claim::Basic(rest.trim())
    } else if scheme.eq_ignore_ascii_case("bearer") {
        Claim::Bearer(rest.trim())
    } else {
        Claim::Nothing
    }
}

/// The bearer token of a request with the end of its life, when it is one that ends: it may
/// speak for its holder elsewhere as long as it lasts.
pub(super) fn bearer_of(headers: &HeaderMap) -> Option<Bearer> {
    let Claim::Bearer(token) = claim(headers) else { return None };
    let payload = URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
    let claims: serde_json::Value = serde_json::from_slice(&payload).ok()?;
    let expires = claims.get("exp")?.as_u64()?;
    Some(Bearer { token: Secret::new(token), expires })
}

/// The key of a member that a request offers.
pub(super) fn offered_key(headers: &HeaderMap) -> Option<&str> {
    match claim(headers) {
        Claim::Bearer(key) if key.starts_with("omk_") => Some(key),
        _ => None,
    }
}

/// The bearer token that a request offers, whatever it is for.
pub(super) fn offered_token(headers: &HeaderMap) -> Option<&str> {
    match claim(headers) {
        Claim::Bearer(token) => Some(token),
        Claim::Nothing | Claim::Basic(_) => None,
    }
}

/// The administrator by Basic, or a user by an OIDC token.
pub(super) async fn authenticate(app: &App, headers: &HeaderMap) -> Result<Principal, Refused> {
    match claim(headers) {
        Claim::Nothing => Err(Refused::unauthenticated("sign in with Basic authentication or a bearer token")),
        Claim::Basic(encoded) => basic(app, encoded),
        Claim::Bearer(token) => bearer(app, token).await,
    }
}

/// As [`authenticate`], and also whoever holds the token of the service that is named. A
/// bearer value of that length is never tried as anything else.
pub(super) async fn authenticate_for(
    app: &App,
    headers: &HeaderMap,
    service: &ServiceName,
) -> Result<Principal, Refused> {
    match claim(headers) {
        Claim::Bearer(token) if token.len() == SERVICE_TOKEN_LENGTH => {
            match app.manager.service_by_token(service, token).await {
                Some(principal) => Ok(principal),
                None => Err(Refused::new(Code::TokenRefused, "this is not the token of that service")),
            }
        }
        _ => authenticate(app, headers).await,
    }
}

const SERVICE_TOKEN_LENGTH: usize = 64;

/// Service tokens that a request to the guard of an exposed service offers: as a bearer token,
/// and only without one in the query, in the query of the address that a proxy forwards, or in
/// the cookie of an earlier visit.
pub(super) fn offered_tokens(uri: &Uri, headers: &HeaderMap, service: &ServiceName) -> Vec<String> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let is_token = |token: &str| token.len() == SERVICE_TOKEN_LENGTH;
    if let Claim::Bearer(token) = claim(headers) {
        return if is_token(token) { vec![token.to_owned()] } else { Vec::new() };
    }
    let forwarded = text("x-forwarded-uri").and_then(|uri| uri.split_once('?')).map(|(_, query)| query);
    let queries = [uri.query(), forwarded].into_iter().flatten();
    let in_queries = queries.flat_map(|query| query.split('&').filter_map(|part| part.strip_prefix("token=")));
    let cookie = format!("{}=", cookie_name(service));
    let in_cookies = text("cookie").into_iter().flat_map(|cookies| cookies.split(';'));
    let in_cookies = in_cookies.filter_map(|part| part.trim().strip_prefix(cookie.as_str()));
    in_queries.chain(in_cookies).filter(|token| is_token(token)).map(str::to_owned).collect()
}

fn cookie_name(service: &ServiceName) -> String {
    format!("oscar_service_{}_auth", service.as_str().replace('-', "_"))
}

/// Lets a browser in again without the token in its address.
pub(super) fn token_cookie(headers: &HeaderMap, service: &ServiceName, token: &str) -> String {
    let https = headers.get("x-forwarded-proto").is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"https"));
    let secure = if https { "; Secure" } else { "" };
    let (name, path) = (cookie_name(service), format!("/system/services/{service}/exposed"));
    format!("{name}={token}; Path={path}; HttpOnly; SameSite=Lax{secure}")
}

fn basic(app: &App, encoded: &str) -> Result<Principal, Refused> {
    let refused = || Refused::unauthenticated("the user name or the password is wrong");
    let decoded = STANDARD.decode(encoded).map_err(|_| refused())?;
    let decoded = String::from_utf8(decoded).map_err(|_| refused())?;
    let (username, password) = decoded.split_once(':').ok_or_else(refused)?;
    // Both are always compared, so that the time tells nothing of which one was wrong.
    let (known_user, known_password) = (app.admin.username.matches(username), app.admin.password.matches(password));
    if known_user & known_password { Ok(Principal::Admin) } else { Err(refused()) }
}

async fn bearer(app: &App, token: &str) -> Result<Principal, Refused> {
    let user = app.identity.verify(token).await.map_err(|refused| refusal(&refused))?;
    if app.manager.is_taken(&user.subject) {
        let sentence = "the subject of this token is the name of a key of this manager; no user can have it";
        return Err(Refused::new(Code::TokenRefused, sentence));
    }
    app.manager.welcome(&user).await?;
    Ok(Principal::User(user))
}

fn refusal(refusal: &Refusal) -> Refused {
    let text = refusal.to_string();
    match refusal {
        Refusal::Malformed(_) => Refused::new(Code::TokenMalformed, text),
        Refusal::IssuerNotListed(_) | Refusal::NotValid(_) | Refusal::NoAcceptedGroup(_) => {
            Refused::new(Code::TokenRefused, text)
        }
        // The log was told when the trouble began.
        Refusal::Unavailable { .. } => Refused::new(Code::IssuerUnreachable, text),
        Refusal::SwitchedOff => Refused::unauthenticated(&text),
    }
}
