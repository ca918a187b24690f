use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::TlsAcceptor;

use super::raw::{Conduct, Raw};
use super::*;

struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut authority = CertificateParams::default();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(authority, KeyPair::generate().expect("a key")).expect("an authority"))
    }

    /// A server at `localhost`, whose certificate is as `change` made it.
    async fn serve(&self, change: impl FnOnce(&mut CertificateParams)) -> String {
        let mut names = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
        change(&mut names);
        let key = KeyPair::generate().expect("a key");
        let certificate = names.signed_by(&key, &self.0).expect("signed");
        let private = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let config = rustls::ServerConfig::builder().with_no_client_auth();
        let config = config.with_single_cert(vec![certificate.der().clone()], private).expect("a server's settings");
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let missing = Conduct::answer("404 Not Found", "", "");
        let raw = Raw::start_at("127.0.0.1:0", missing, Some(acceptor)).await.expect("a free port");
        format!("https://localhost:{}", raw.address.port())
    }

    fn trusting(&self) -> HttpPeers {
        let pem = self.0.pem().into_bytes();
        HttpPeers::new(PeersOptions { extra_roots: Some(pem), ..mk_options() }).expect("options that work")
    }
}

async fn look(peers: &HttpPeers, endpoint: &str, verify: bool) -> Sighting {
    let mut callee = Callee::new(endpoint, Audience::Foreign);
    callee.contact.verify = verify;
    peers.look(&callee.call(), FEDERATION).await
}

#[tokio::test]
async fn a_certificate_must_be_good_unless_it_was_said_that_it_need_not() {
    let authority = Authority::new();
    let good = authority.serve(|_| ()).await;
    let stranger = look(&mk_peers(), &good, true).await;
    assert!(unreachable_because(&stranger).contains("certificate is not accepted"), "{stranger:?}");
    assert_eq!(stranger.audience, None);
    assert_eq!(look(&mk_peers(), &good, false).await.found, Found::Nothing);
    assert_eq!(look(&authority.trusting(), &good, true).await.found, Found::Nothing);

    let expired = authority.serve(|names| {
        names.not_before = rcgen::date_time_ymd(2001, 1, 1);
        names.not_after = rcgen::date_time_ymd(2002, 1, 1);
    });
    let expired = expired.await;
    let sighting = look(&authority.trusting(), &expired, true).await;
    assert!(unreachable_because(&sighting).contains("expired"), "{sighting:?}");
    assert_eq!(look(&authority.trusting(), &expired, false).await.found, Found::Nothing);

    let elsewhere = authority.serve(|names| {
        *names = CertificateParams::new(vec!["elsewhere.example".to_owned()]).expect("a name");
    });
    let sighting = look(&authority.trusting(), &elsewhere.await, true).await;
    assert!(unreachable_because(&sighting).contains("not valid for name"), "{sighting:?}");
}

#[tokio::test]
async fn a_server_without_tls_is_no_https() {
    let raw = Raw::start(Conduct::Garbage).await;
    let sighting = look(&mk_peers(), &format!("https://{}", raw.address), true).await;
    unreachable_because(&sighting);
    assert!(!raw.requests().join("").contains("alice-token"), "nothing was said in the clear");
}

#[tokio::test]
async fn authorities_that_are_none_are_refused_at_the_start() {
    for pem in ["", "-----BEGIN PRIVATE KEY-----\n"] {
        let options = PeersOptions { extra_roots: Some(pem.as_bytes().to_vec()), ..mk_options() };
        assert!(matches!(HttpPeers::new(options), Err(PeersError::ExtraRoots(_))), "{pem:?}");
    }
}
