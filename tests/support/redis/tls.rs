//! Certificates that are made for one test, and a server that shows one. It stands beside `mod.rs`, so that only who includes
//! it needs what makes certificates.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use tempfile::TempDir;

use crate::redis_server::{RedisServer, free_port};

/// An authority, and what it has signed: a server's certificate for `localhost`, and a client's.
pub(crate) struct Certificates {
    folder: TempDir,
}

impl Certificates {
    pub(crate) fn make() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        // What has one name with its authority counts as its own authority.
        params.distinguished_name.push(DnType::CommonName, "authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write("ca.crt", &authority.pem());
        for (name, host) in [("server", "localhost"), ("client", "router")] {
            let key = KeyPair::generate().unwrap();
            let params = CertificateParams::new(vec![host.to_owned()]).unwrap();
            let certificate = params.signed_by(&key, &authority).unwrap();
            write(&format!("{name}.crt"), &certificate.pem());
            write(&format!("{name}.key"), &key.serialize_pem());
        }
        Self { folder }
    }

    /// The path of one of `ca.crt`, `server.crt`, `server.key`, `client.crt` and `client.key`.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A server that speaks nothing but TLS on the port that is handed back, and asks for a client's certificate where
    /// `asks_clients` says so.
    pub(crate) fn server(&self, asks_clients: bool) -> (RedisServer, u16) {
        let port = free_port();
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        let [authority, certificate, key] =
            ["ca.crt", "server.crt", "server.key"].map(|name| text(&self.path(name)));
        let asks = if asks_clients { "yes" } else { "no" };
        let arguments = ["--tls-port", &port.to_string(), "--tls-ca-cert-file", &authority];
        let own = ["--tls-cert-file", &certificate, "--tls-key-file", &key, "--tls-auth-clients", asks];
        (RedisServer::start_with(&[&arguments[..], &own[..]].concat()), port)
    }
}
