//! Protection of the gRPC port: TLS, client certificates and their names, a token. Clients must show the
//! credentials that the operator requires. Only health is open, because load balancers and orchestrators have
//! no credentials.

use std::{collections::BTreeSet, net::IpAddr, sync::Arc, time::Duration};

use http::{HeaderMap, HeaderValue, Request};
use parking_lot::{Mutex, RwLock};
use petstore_caller::api_key::{ServiceToken, bearer};
use petstore_caller::headers::only_field;
use tokio::time::Instant;
use tonic::{
    Status,
    body::Body,
    metadata::MetadataValue,
    transport::{Certificate, CertificateDer, Identity, Server, ServerTlsConfig, server::TlsConnectInfo},
};
use webpki::EndEntityCert;

use crate::{connection::ConnectionInfo, methods::Callers};

/// Protection of the gRPC port. By default there is none: then only local users should be able to reach it.
/// Clones share TLS and tokens, so they can be replaced while the port is served. Open connections continue.
#[derive(Clone, Debug, Default)]
pub struct Security {
    /// Server of a new connection, with TLS.
    pub tls: Option<Arc<RwLock<Server>>>,
    /// Tokens of which callers must show one.
    pub tokens: Option<Arc<RwLock<Vec<ServiceToken>>>>,
    /// `true` if callers must show a certificate, which the TLS handshake verifies.
    requires_certificate: bool,
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

/// Reason why a caller is refused, whatever it calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    NoCertificate,
    NoToken,
    WrongToken,
}

/// Minimum time between two lines about refused callers.
const REFUSAL_LOG_INTERVAL: Duration = Duration::from_mins(1);

/// Caller of a request on a socket.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Address; `None` for a Unix socket.
    pub address: Option<IpAddr>,
    /// Name in the certificate that it showed; `None` if it showed none.
    pub certificate: Option<Arc<str>>,
    /// `true` for a caller that has proved to be a process of the service.
    pub is_gateway: bool,
}

impl Security {
    /// Serves over TLS, and with `client_ca` only callers that show a certificate of that authority.
    ///
    /// # Errors
    ///
    /// If the files cannot be used.
    pub fn with_tls(self, files: &TlsFiles) -> Result<Self, InvalidTls> {
        let tls = Some(Arc::new(RwLock::new(files.server()?)));
        Ok(Self { tls, requires_certificate: files.client_ca.is_some(), ..self })
    }

    /// Serves only callers that send one of these tokens.
    pub fn with_tokens(self, tokens: Vec<ServiceToken>) -> Self {
        Self { tokens: Some(Arc::new(RwLock::new(tokens))), ..self }
    }

    /// Returns `true` if callers must authenticate.
    pub fn knows_its_callers(&self) -> bool {
        self.requires_certificate || self.tokens.is_some()
    }

    /// Returns the server of a new connection, with the TLS of this moment.
    pub(super) fn server(&self) -> Server {
        self.tls.as_ref().map_or_else(Server::builder, |tls| tls.read().clone())
    }

    /// Returns the caller if it may call; `None` if the method is open to everyone.
    pub(super) fn check(&self, callers: Callers, request: &Request<Body>) -> Result<Option<Peer>, Refusal> {
        if callers == Callers::Everyone {
            return Ok(None);
        }
        if self.requires_certificate && !shows_certificate(request) {
            return Err(Refusal::NoCertificate);
        }
        if let Some(tokens) = &self.tokens {
            let shown = if callers == Callers::Operators {
                token_beside(request.headers())
            } else {
                bearer(request.headers()).ok().map(str::as_bytes)
            };
            let shown = shown.ok_or(Refusal::NoToken)?;
            // The time that this takes shows which token it is, and nothing of its text.
            if !tokens.read().iter().any(|token| token.is(shown)) {
                return Err(Refusal::WrongToken);
            }
        }
        let address = request.extensions().get::<ConnectionInfo>().and_then(|connection| connection.peer);
        // A Unix socket, which has no address, is open to its owner only.
        let is_gateway = self.knows_its_callers() || address.is_none();
        Ok(Some(Peer { address, certificate: certificate_name(request), is_gateway }))
    }
}

impl TlsFiles {
    /// Returns a server with TLS, to replace that of new connections.
    ///
    /// # Errors
    ///
    /// If the files cannot be used.
    pub fn server(&self) -> Result<Server, InvalidTls> {
        let mut tls = ServerTlsConfig::new()
            .identity(Identity::from_pem(&self.certificate, &self.key))
            .timeout(Duration::from_secs(5)); // of the handshake
        if let Some(authority) = &self.client_ca {
            // A wrong certificate ends the handshake. A missing one is refused by the call instead, so that
            // health stays open and the caller learns the reason.
            tls = tls.client_ca_root(Certificate::from_pem(authority)).client_auth_optional(true);
        }
        Server::builder().tls_config(tls).map_err(InvalidTls)
    }
}

/// Returns `true` if the caller showed a certificate. Without the TLS layer the extension is missing.
fn shows_certificate(request: &Request<Body>) -> bool {
    let connection = request.extensions().get::<TlsConnectInfo<ConnectionInfo>>();
    connection.and_then(TlsConnectInfo::peer_certs).is_some_and(|chain| !chain.is_empty())
}

/// Returns the name in the certificate that the caller showed. A connection's certificate is read once.
pub(super) fn certificate_name(request: &Request<Body>) -> Option<Arc<str>> {
    let connection = request.extensions().get::<TlsConnectInfo<ConnectionInfo>>()?;
    let read = || Some(name(connection.peer_certs()?.first()?));
    connection.get_ref().certificate.get_or_init(read).clone()
}

/// Returns the token that is present exactly once, in addition to the credential of an operator.
fn token_beside(headers: &HeaderMap) -> Option<&[u8]> {
    only_field(headers, "petstore-service-token").ok()?.map(HeaderValue::as_bytes)
}

impl Refusal {
    /// Returns the value of its label in metrics.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::NoCertificate => "no_certificate",
            Self::NoToken => "no_token",
            Self::WrongToken => "wrong_token",
        }
    }

    /// Returns the status for such a caller. Unlike the refusal of an operator it has no details: by that
    /// gateways of 1.1 tell the two apart. The reason is a header field.
    pub(super) fn status(self, callers: Callers) -> Status {
        let mut status = Status::unauthenticated(match self {
            Self::NoCertificate => "the caller must show a client certificate",
            Self::NoToken if callers == Callers::Operators => {
                "the call must carry the service token as petstore-service-token"
            }
            Self::NoToken => "the call must carry the service token as bearer credential",
            Self::WrongToken => "the service token is not this core's",
        });
        status.metadata_mut().insert("petstore-refusal", MetadataValue::from_static(self.name()));
        status
    }

    /// Logs the refusal, unless there was a line within [`REFUSAL_LOG_INTERVAL`], at `last`: any caller may
    /// cause it.
    pub(super) fn log(self, last: &Mutex<Option<Instant>>, request: &Request<Body>) {
        let mut logged = last.lock();
        if logged.is_none_or(|logged| logged.elapsed() >= REFUSAL_LOG_INTERVAL) {
            *logged = Some(Instant::now());
            let connection = request.extensions().get::<ConnectionInfo>();
            let peer = connection.and_then(|connection| connection.peer).map(tracing::field::display);
            // No text of the caller, which could hold a key.
            tracing::warn!(
                peer,
                certificate = certificate_name(request).as_deref(),
                reason = self.name(),
                "refused a caller, which needs this core's service token or a certificate; further ones are \
                 counted, and logged once a minute"
            );
        }
    }
}

/// Maximum number of names in metrics. The authority decides how many there are.
const MAX_NAMES: usize = 32;

/// Name of the holder of a certificate that gives none, or none that a log line can show.
const UNNAMED: &str = "unnamed";

/// Returns the name that a verified certificate gives its holder: its first DNS name or, if it has none, its
/// first URI, such as a SPIFFE ID (RFC 5280, 4.2.1.6); otherwise [`UNNAMED`]. A common name is not read.
fn name(certificate: &CertificateDer<'_>) -> Arc<str> {
    let certificate = EndEntityCert::try_from(certificate);
    let names = certificate.iter().flat_map(|it| it.valid_dns_names().chain(it.valid_uri_names()));
    let is_shown = |name: &&str| name.len() <= 255 && name.bytes().all(|byte| byte.is_ascii_graphic());
    names.take(1).find(is_shown).unwrap_or(UNNAMED).into()
}

/// Returns the value of the name's label in metrics that show these: `other` once [`MAX_NAMES`] other names
/// are shown.
pub(super) fn label<'n>(shown: &Mutex<BTreeSet<Arc<str>>>, name: &'n Arc<str>) -> &'n str {
    let mut shown = shown.lock();
    if shown.len() < MAX_NAMES {
        shown.insert(Arc::clone(name));
    }
    if shown.contains(name) { name } else { "other" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_that_cannot_be_read_is_no_missing_one() {
        assert_eq!(&*name(&CertificateDer::from(b"no certificate".to_vec())), UNNAMED);
    }

    #[test]
    fn the_number_of_names_in_metrics_is_bounded() {
        let shown = Mutex::default();
        let names: Vec<Arc<str>> = (0..40).map(|number| format!("caller-{number}").into()).collect();
        for _ in 0..2 {
            let labels: Vec<_> = names.iter().map(|name| label(&shown, name)).collect();
            assert_eq!((labels[0], labels[31], labels[32]), ("caller-0", "caller-31", "other"));
        }
    }
}
