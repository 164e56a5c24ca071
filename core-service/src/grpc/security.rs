//! Protection of the gRPC port: TLS, client certificates, a token.

use std::{fmt, time::Duration};

use petstore_api_key::ServiceToken;
use tonic::transport::{Certificate, Identity, Server, ServerTlsConfig};

use super::access::{Access, RequiredToken};

/// Timeout of a TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// Protection of the gRPC port. By default there is none: then only local users should be able to reach it.
#[derive(Clone, Debug, Default)]
pub struct Security {
    tls: Option<ServerTlsConfig>,
    access: Access,
}

/// Contents of PEM files.
#[derive(Clone)]
pub struct TlsFiles {
    /// Certificate of the server, followed by the intermediate ones up to its authority's.
    pub certificate: Vec<u8>,
    /// Private key of the certificate.
    pub key: Vec<u8>,
    /// Authorities whose certificates callers must show; `None` if no certificate is required.
    pub client_ca: Option<Vec<u8>>,
}

/// The files cannot be used as certificate, key and authorities.
#[derive(Debug, thiserror::Error)]
#[error("the certificate, its key or the authority cannot be used: they must be PEM and belong together")]
pub struct InvalidTls(#[source] tonic::transport::Error);

impl Security {
    /// Serves over TLS, and with `client_ca` only callers that show a certificate of that authority.
    ///
    /// # Errors
    ///
    /// If the files cannot be used.
    pub fn with_tls(mut self, files: &TlsFiles) -> Result<Self, InvalidTls> {
        let mut tls = ServerTlsConfig::new()
            .identity(Identity::from_pem(&files.certificate, &files.key))
            .timeout(HANDSHAKE_TIMEOUT);
        if let Some(authority) = &files.client_ca {
            // A wrong certificate ends the handshake. A missing one is refused by the call instead, so that
            // health stays open and the caller learns the reason.
            tls = tls.client_ca_root(Certificate::from_pem(authority)).client_auth_optional(true);
        }
        Server::builder().tls_config(tls.clone()).map_err(InvalidTls)?;
        self.access.certificate = files.client_ca.is_some();
        self.tls = Some(tls);
        Ok(self)
    }

    /// Serves only callers that send this token.
    #[must_use]
    pub fn with_token(mut self, token: ServiceToken) -> Self {
        self.access.token = Some(RequiredToken::new(token));
        self
    }

    /// Returns the token that callers must show, if there is one.
    #[must_use]
    pub fn token(&self) -> Option<RequiredToken> {
        self.access.token.clone()
    }

    /// Returns `true` if callers must authenticate.
    #[must_use]
    pub fn knows_its_callers(&self) -> bool {
        self.access.certificate || self.access.token.is_some()
    }

    pub(super) fn into_parts(self) -> (Option<ServerTlsConfig>, Access) {
        (self.tls, self.access)
    }
}

/// Omits the key.
impl fmt::Debug for TlsFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsFiles")
            .field("asks_for_certificates", &self.client_ca.is_some())
            .finish_non_exhaustive()
    }
}
