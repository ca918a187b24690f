//! From the `Authorization` header to a principal. Nothing below runs for a caller who is not
//! who he says.

use axum::http::{HeaderMap, header};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use oscar_api::problem::Code;
use oscar_engine::ports::identity::Refusal;
use oscar_model::identity::Principal;
use oscar_model::name::ServiceName;

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
    let user = app.identity.verify(token).await.map_err(refusal)?;
    app.manager.welcome(&user).await?;
    Ok(Principal::User(user))
}

fn refusal(refusal: Refusal) -> Refused {
    let text = refusal.to_string();
    match refusal {
        Refusal::Malformed(_) => Refused::new(Code::TokenMalformed, text),
        Refusal::IssuerNotListed(_) | Refusal::NotValid(_) | Refusal::NoAcceptedGroup(_) => {
            Refused::new(Code::TokenRefused, text)
        }
        Refusal::Unavailable { .. } => {
            tracing::warn!("{text}");
            Refused::new(Code::IssuerUnreachable, text)
        }
        Refusal::SwitchedOff => Refused::unauthenticated(&text),
    }
}
