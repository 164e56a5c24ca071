//! How the gRPC port is protected: TLS, client certificates, a token.

use std::{fmt, time::Duration};

use petstore_api_key::ServiceToken;
use tonic::transport::{Certificate, Identity, Server, ServerTlsConfig};

use super::access::{Access, RequiredToken};

/// How long a TLS handshake may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// How the gRPC port is protected. By default it is not: then only the machine's own users should reach it.
#[derive(Clone, Debug, Default)]
pub struct Security {
    tls: Option<ServerTlsConfig>,
    access: Access,
}

/// PEM files, read.
#[derive(Clone)]
pub struct TlsFiles {
    /// The server's certificate, followed by those between it and its authority's.
    pub certificate: Vec<u8>,
    /// The private key of the certificate.
    pub key: Vec<u8>,
    /// The authorities whose certificates callers must show; without it, none is asked for.
    pub client_ca: Option<Vec<u8>>,
}

/// The files cannot be used as certificate, key and authorities.
#[derive(Debug, thiserror::Error)]
#[error("the certificate, its key or the authority cannot be used: they must be PEM and belong together")]
pub struct InvalidTls(#[source] tonic::transport::Error);

impl Security {
    /// Serves over TLS, and with `client_ca` only those who show a certificate of that authority.
    ///
    /// # Errors
    ///
    /// When the files cannot be used.
    pub fn with_tls(mut self, files: &TlsFiles) -> Result<Self, InvalidTls> {
        let mut tls = ServerTlsConfig::new()
            .identity(Identity::from_pem(&files.certificate, &files.key))
            .timeout(HANDSHAKE_TIMEOUT);
        if let Some(authority) = &files.client_ca {
            // A wrong certificate ends the handshake. None at all is refused by the call instead, so that
            // health stays open and the caller learns the reason.
            tls = tls.client_ca_root(Certificate::from_pem(authority)).client_auth_optional(true);
        }
        Server::builder().tls_config(tls.clone()).map_err(InvalidTls)?;
        self.access.certificate = files.client_ca.is_some();
        self.tls = Some(tls);
        Ok(self)
    }

    /// Serves only those who send this token along.
    #[must_use]
    pub fn with_token(mut self, token: ServiceToken) -> Self {
        self.access.token = Some(RequiredToken::new(token));
        self
    }

    /// The token that callers must show, if there is one.
    #[must_use]
    pub fn token(&self) -> Option<RequiredToken> {
        self.access.token.clone()
    }

    /// Whether a caller must prove who it is.
    #[must_use]
    pub fn knows_its_callers(&self) -> bool {
        self.access.certificate || self.access.token.is_some()
    }

    pub(super) fn into_parts(self) -> (Option<ServerTlsConfig>, Access) {
        (self.tls, self.access)
    }
}

/// Without the key.
impl fmt::Debug for TlsFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsFiles")
            .field("asks_for_certificates", &self.client_ca.is_some())
            .finish_non_exhaustive()
    }
}
