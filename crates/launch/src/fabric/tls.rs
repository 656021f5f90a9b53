//! TLS to the manager (crate `rustls`): its certificate must be signed by somebody whom the system or the user's file trusts, be in date, and name its host.

use super::http::Timed;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io;
use std::net::TcpStream;
use std::sync::Arc;

/// Whose certificates are believed.
#[derive(Debug)]
pub struct Trust(Arc<ClientConfig>);

impl Trust {
    /// Those that are signed by the certificates in `file` (PEM); if that is empty, by the system's.
    pub fn new(file: &str) -> Result<Trust, String> {
        let roots = if file.is_empty() { system_roots()? } else { roots_in(file)? };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|e| format!("TLS: {e}"))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Trust(Arc::new(config)))
    }

    /// A connection to `host` over `stream`. Its certificate is checked before the first byte is sent over it.
    pub(super) fn over(
        &self,
        stream: Timed<TcpStream>,
        host: &str,
    ) -> Result<StreamOwned<ClientConnection, Timed<TcpStream>>, String> {
        let name = ServerName::try_from(host.to_string()).map_err(|_| format!("'{host}' can't be in a certificate"))?;
        let connection = ClientConnection::new(self.0.clone(), name).map_err(|e| format!("TLS: {e}"))?;
        Ok(StreamOwned::new(connection, stream))
    }

    /// Why a manager isn't believed, if that is what the error is about.
    pub fn distrust(error: &io::Error) -> Option<String> {
        let why = error.get_ref()?.downcast_ref::<rustls::Error>()?;
        Some(match why {
            rustls::Error::InvalidCertificate(_) => {
                format!("the manager's certificate is not believed: {why} (FERRULE_FABRIC_TLS_CA)")
            }
            _ => format!("the manager doesn't speak TLS as it should: {why}"),
        })
    }
}

fn roots_in(file: &str) -> Result<RootCertStore, String> {
    let unreadable =
        |e: &dyn std::fmt::Display| format!("cannot read certificates in {file} (FERRULE_FABRIC_TLS_CA): {e}");
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(file).map_err(|e| unreadable(&e))? {
        roots.add(certificate.map_err(|e| unreadable(&e))?).map_err(|e| unreadable(&e))?;
    }
    if roots.is_empty() { Err(unreadable(&"there are none")) } else { Ok(roots) }
}

fn system_roots() -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let why: Vec<String> = found.errors.iter().map(|e| e.to_string()).collect();
        return Err(format!("the system has no certificates to trust (FERRULE_FABRIC_TLS_CA) {}", why.join("; ")));
    }
    Ok(roots)
}
