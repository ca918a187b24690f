//! The certificate authority and keys of one API server.

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

/// Everything as PEM.
pub(crate) struct Pki {
    pub(crate) authority: String,
    pub(crate) server_certificate: String,
    pub(crate) server_key: String,
    /// Signs service-account tokens.
    pub(crate) account_key: String,
    pub(crate) account_public_key: String,
}

impl Pki {
    pub(crate) fn create() -> Pki {
        let authority_key = key();
        let mut authority = named("oscar-testkit");
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let certificate = authority.self_signed(&authority_key).expect("the authority's parameters are complete");
        let issuer = Issuer::new(authority, authority_key);

        let server_key = key();
        let mut server = CertificateParams::new(vec![
            "127.0.0.1".to_owned(),
            "localhost".to_owned(),
            "kubernetes.default.svc".to_owned(),
        ])
        .expect("these names are valid");
        server.distinguished_name = name("kube-apiserver");
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let server = server.signed_by(&server_key, &issuer).expect("the server's parameters are complete");

        let account_key = key();
        Pki {
            authority: certificate.pem(),
            server_certificate: server.pem(),
            server_key: server_key.serialize_pem(),
            account_key: account_key.serialize_pem(),
            account_public_key: account_key.public_key_pem(),
        }
    }
}

fn key() -> KeyPair {
    KeyPair::generate().expect("the system has randomness")
}

fn named(common_name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = name(common_name);
    params
}

fn name(common_name: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    name
}
