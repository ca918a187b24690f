//! The program against a manager whose certificate a private authority signed.

use std::sync::Arc;

use oscar_testkit::Scratch;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::home::Home;

const ANSWER: &str = "HTTP/1.1 200 OK\r\nconnection: close\r\ndate: Mon, 01 Jan 2001 00:00:00 GMT\r\n\
    content-length: 20\r\n\r\n{\"version\":\"v4.1.2\"}";

/// A manager that says who it is, and the authority that vouches for it (PEM).
fn manager() -> (String, String, tokio::runtime::Runtime) {
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().expect("a key")).expect("an authority");
    let key = KeyPair::generate().expect("a key");
    let names = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
    let certificate = names.signed_by(&key, &authority).expect("signed");
    let private = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let _ = rustls::crypto::ring::default_provider().install_default();
    let config = rustls::ServerConfig::builder().with_no_client_auth();
    let config = config.with_single_cert(vec![certificate.der().clone()], private).expect("a server's settings");
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).expect("a port");
    let port = listener.local_addr().expect("an address").port();
    runtime.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            // A client that does not trust us hangs up; the next one may.
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let _ = stream.read(&mut [0; 4096]).await;
            let _ = stream.write_all(ANSWER.as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    });
    (format!("https://localhost:{port}"), authority.pem(), runtime)
}

#[test]
fn a_private_authority_must_be_named() {
    let (url, authority, _runtime) = manager();
    let (home, elsewhere) = (Home::new(), Scratch::new("authority"));
    let add = |more: &[&str]| {
        let arguments = [&["cluster", "add", "main", &url, "--password-stdin"], more].concat();
        home.run_with(&arguments, &[], "pass")
    };
    add(&[]).ends(0).says("warning: cannot reach").says("certificate").says("hint: if a private authority signed it");
    home.run(&["service", "list"]).ends(3).says("certificate");

    let file = elsewhere.write("ca.pem", &authority);
    add(&["--ca", &file.display().to_string()]).ends(0).says("OSCAR v4.1.2").says("replaced");
    let doctor = home.run(&["doctor"]).ends(1);
    doctor.says("TLS verified").says("✗ main: its clock is").says("s behind this machine's");

    add(&["--insecure"]).ends(0).says("OSCAR v4.1.2");
    home.run(&["doctor"]).ends(1).says("! main: any certificate is accepted");

    let file = elsewhere.write("key.pem", "-----BEGIN PRIVATE KEY-----\n");
    add(&["--ca", &file.display().to_string()]).ends(2).says("is no certificate");
}
