//! TLS towards a server: whose certificates are believed, and this side's own. Files are read anew for each connection.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// What TLS is made of.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct TlsFiles {
    /// The authorities to believe, instead of the system's.
    pub(super) authorities: Option<PathBuf>,
    /// This side's certificate, with what leads up to its authority, and its key.
    pub(super) own: Option<(PathBuf, PathBuf)>,
    /// The name to expect in a server's certificate, instead of the one that it was called by.
    pub(super) server_name: Option<String>,
}

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub(super) enum TlsError {
    #[error("{}: {reason}", path.display())]
    File { path: PathBuf, reason: String },
    #[error("the system has no certificate authorities to believe")]
    NoAuthorities,
    #[error("{0:?} can be no name in a certificate")]
    Name(String),
    #[error("no TLS: {0}")]
    Handshake(std::io::Error),
    #[error("no TLS: {0}")]
    Settings(#[from] tokio_rustls::rustls::Error),
}

impl TlsFiles {
    /// Speaks TLS on a connection to `host`.
    pub(super) async fn over(&self, tcp: TcpStream, host: &str) -> Result<TlsStream<TcpStream>, TlsError> {
        let name = self.server_name.as_deref().unwrap_or(host);
        let name = ServerName::try_from(name.to_owned()).map_err(|_| TlsError::Name(name.to_owned()))?;
        let connector = TlsConnector::from(Arc::new(self.settings()?));
        connector.connect(name, tcp).await.map_err(TlsError::Handshake)
    }

    fn settings(&self) -> Result<ClientConfig, TlsError> {
        let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(self.roots()?);
        let Some((certificate, key)) = &self.own else { return Ok(builder.with_no_client_auth()) };
        let own_key = PrivateKeyDer::from_pem_file(key).map_err(|error| unreadable(key, error))?;
        Ok(builder.with_client_auth_cert(certificates(certificate)?, own_key)?)
    }

    fn roots(&self) -> Result<RootCertStore, TlsError> {
        let mut roots = RootCertStore::empty();
        match &self.authorities {
            Some(path) => {
                for certificate in certificates(path)? {
                    roots.add(certificate).map_err(|error| unreadable(path, error))?;
                }
            }
            // One that cannot be read is passed over, as every client of the system's store does.
            None => drop(roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs)),
        }
        if roots.is_empty() { Err(TlsError::NoAuthorities) } else { Ok(roots) }
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read = |path| CertificateDer::pem_file_iter(path)?.collect::<Result<Vec<_>, _>>();
    match read(path) {
        Ok(certificates) if certificates.is_empty() => Err(unreadable(path, "no certificate in it")),
        read => read.map_err(|error| unreadable(path, error)),
    }
}

fn unreadable(path: &Path, reason: impl ToString) -> TlsError {
    TlsError::File { path: path.to_owned(), reason: reason.to_string() }
}
