//! URLs of cores, and connections to them across a network or a Unix socket.

use std::{
    fmt, io,
    net::{IpAddr, SocketAddr},
    pin::pin,
    sync::Arc,
    time::Duration,
    vec,
};

use http::{HeaderMap, HeaderName, HeaderValue, Uri, header::AUTHORIZATION};
use hyper_util::{
    client::legacy::connect::{HttpConnector, dns::Name},
    rt::TokioIo,
};
use parking_lot::RwLock;
use petstore_caller::api_key::ServiceToken;
use petstore_proto::internal::v1::batch_service_server;
use tokio::{
    net::{TcpStream, UnixStream, lookup_host},
    time::timeout,
};
use tokio_rustls::rustls::pki_types::{CertificateDer, pem::PemObject};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tower::{ServiceExt, service_fn};

use super::{breaker::PROBE, coalesced::CoalescedWrites};

/// Time for a TCP connection to open.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(250);

/// Time for a lookup of a name before the addresses found last are used. A lost answer of a name server is
/// asked for again only after 5 s by default (resolv.conf(5)), which is the whole time of a call.
const LOOKUP_TIMEOUT: Duration = Duration::from_millis(250);

/// Metadata with the service token of a call whose bearer credential is an operator's token.
const SERVICE_TOKEN: HeaderName = HeaderName::from_static("petstore-service-token");

/// Contents of PEM files.
pub struct CoreTls {
    /// Authorities that may have signed the core's certificate.
    pub authority: Vec<u8>,
    /// The certificate that the gateway shows, and its private key.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
}

/// Address of a core that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum InvalidCoreAddress {
    /// The URL is malformed.
    #[error(
        "must be a URL such as http://127.0.0.1:50051, https://core.example:50051 or unix:///run/core.sock"
    )]
    Url,
    /// https without an authority to trust.
    #[error("https needs the authority of the core's certificate, in --core-ca")]
    NoAuthority,
    /// An authority without https, which has no certificate to verify.
    #[error("there is no TLS without https:// in --core-url")]
    NotEncrypted,
    /// The authority is not a certificate.
    #[error("must be certificates in PEM")]
    Authority,
    /// The certificate and its key cannot be used.
    #[error("the certificate and its key cannot be used: they must be PEM and belong together")]
    Tls(#[source] tonic::transport::Error),
}

/// URL of a core, or of several behind one name or address.
#[derive(Clone, Debug)]
pub(super) struct Url {
    endpoint: Endpoint,
    /// Path of a Unix socket.
    path: Option<String>,
    /// The addresses that were found last for the name.
    last_addresses: Arc<RwLock<Vec<SocketAddr>>>,
}

impl Url {
    pub(super) fn parse(url: String, tls: Option<&CoreTls>) -> Result<Self, InvalidCoreAddress> {
        let scheme = url.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
        if !names_a_port_and_nothing_else(&url) {
            return Err(InvalidCoreAddress::Url);
        }
        let path = url.strip_prefix("unix://").map(str::to_owned);
        let mut endpoint = Endpoint::from_shared(url).map_err(|_| InvalidCoreAddress::Url)?;
        match (scheme.as_deref(), tls) {
            (Some("http" | "unix"), None) => {}
            (Some("http" | "unix"), Some(_)) => return Err(InvalidCoreAddress::NotEncrypted),
            (Some("https"), None) => return Err(InvalidCoreAddress::NoAuthority),
            (Some("https"), Some(tls)) => {
                endpoint = endpoint.tls_config(tls.config()?).map_err(InvalidCoreAddress::Tls)?;
            }
            _ => return Err(InvalidCoreAddress::Url),
        }
        let endpoint = endpoint
            // A core that stops answering is noticed within 3 s, also when no call is in flight.
            .http2_keep_alive_interval(Duration::from_secs(2))
            .keep_alive_timeout(Duration::from_secs(1))
            .keep_alive_while_idle(true);
        Ok(Self { endpoint, path, last_addresses: Arc::default() })
    }

    /// Returns a connection to the address, or to the first of the URL's addresses that can be reached. It
    /// opens with the first call and again whenever it is lost.
    pub(super) fn channel(&self, address: Option<SocketAddr>) -> Channel {
        match (self.path.clone(), address) {
            (Some(path), _) => self
                .endpoint
                .connect_with_connector_lazy(service_fn(move |_: Uri| connect_unix(path.clone()))),
            (None, Some(address)) => {
                self.endpoint.connect_with_connector_lazy(service_fn(move |_: Uri| connect_tcp(address)))
            }
            (None, None) => {
                let last = self.last_addresses.clone();
                let lookup = service_fn(move |name: Name| {
                    let found = async move { Ok(lookup_host((name.as_str(), 0)).await?.collect()) };
                    found_or_last(Arc::clone(&last), found)
                });
                let mut connector = HttpConnector::new_with_resolver(lookup);
                connector.enforce_http(false); // TLS comes on top
                connector.set_nodelay(true);
                connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
                self.endpoint.connect_with_connector_lazy(connector.map_response(CoalescedWrites::new))
            }
        }
    }

    /// Returns the host, without the brackets of an IPv6 address.
    fn host(&self) -> &str {
        self.endpoint.uri().host().unwrap_or_default().trim_matches(['[', ']'])
    }

    /// Returns `true` if the host is a name, whose addresses may change.
    pub(super) fn has_a_name(&self) -> bool {
        self.path.is_none() && self.host().parse::<IpAddr>().is_err()
    }

    /// Looks up the addresses. `None` stands for the Unix socket.
    pub(super) async fn addresses(&self) -> io::Result<Vec<Option<SocketAddr>>> {
        if self.path.is_some() {
            return Ok(vec![None]);
        }
        let uri = self.endpoint.uri();
        let port = uri.port_u16().unwrap_or(if uri.scheme_str() == Some("https") { 443 } else { 80 });
        Ok(lookup_host((self.host(), port)).await?.map(Some).collect())
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            Some(path) => write!(f, "unix://{path}"),
            None => self.endpoint.uri().fmt(f),
        }
    }
}

/// Returns the result of a lookup, or the last addresses if that fails or takes too long.
async fn found_or_last(
    last_addresses: Arc<RwLock<Vec<SocketAddr>>>,
    lookup: impl Future<Output = io::Result<Vec<SocketAddr>>>,
) -> io::Result<vec::IntoIter<SocketAddr>> {
    let mut lookup = pin!(lookup);
    let last = last_addresses.read().clone();
    let found = match timeout(LOOKUP_TIMEOUT, &mut lookup).await {
        Ok(Ok(found)) => found,
        Ok(Err(_)) | Err(_) if !last.is_empty() => return Ok(last.into_iter()),
        Ok(Err(error)) => return Err(error),
        Err(_) => lookup.await?,
    };
    last_addresses.write().clone_from(&found);
    Ok(found.into_iter())
}

async fn connect_tcp(address: SocketAddr) -> io::Result<CoalescedWrites<TokioIo<TcpStream>>> {
    let stream = timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await??;
    stream.set_nodelay(true)?;
    Ok(CoalescedWrites::new(TokioIo::new(stream)))
}

async fn connect_unix(path: String) -> io::Result<CoalescedWrites<TokioIo<UnixStream>>> {
    UnixStream::connect(path).await.map(TokioIo::new).map(CoalescedWrites::new)
}

/// Returns `true` if the gateway calls the method for itself, or to authenticate a client.
pub(super) fn is_its_own(path: &str) -> bool {
    let method = path.strip_prefix('/').unwrap_or(path);
    let is_batch = method.starts_with(batch_service_server::SERVICE_NAME);
    path == PROBE || method.starts_with("petstore.internal.") && !is_batch
}

/// Returns `true` if the URL is `SCHEME://HOST:PORT` without a user and a path, which would be ignored, or
/// `unix://` with an absolute path, since a relative one would depend on the working directory.
fn names_a_port_and_nothing_else(url: &str) -> bool {
    let Some((scheme, rest)) = url.split_once("://") else { return false };
    if scheme.eq_ignore_ascii_case("unix") {
        return rest.len() > 1 && rest.starts_with('/');
    }
    let authority = rest.strip_suffix('/').unwrap_or(rest);
    authority.parse::<http::uri::Authority>().is_ok_and(|parsed| {
        let port = authority.strip_prefix(parsed.host()).unwrap_or_default();
        let is_port = port.is_empty() || parsed.port_u16().is_some();
        !authority.contains('@') && is_port
    })
}

/// Service token, as the bearer credential of a call and as an additional header field beside another one.
/// Both are marked so that neither a log nor HTTP/2's table of header fields keeps them.
pub(super) struct Credentials {
    bearer: HeaderValue,
    beside: HeaderValue,
}

impl Credentials {
    pub(super) fn new(token: &ServiceToken) -> Option<Self> {
        let sensitive = |text: String| {
            let mut value = HeaderValue::try_from(text).ok()?; // a token is ASCII
            value.set_sensitive(true);
            Some(value)
        };
        let bearer = sensitive(format!("Bearer {}", token.expose()))?;
        Some(Self { bearer, beside: sensitive(token.expose().to_owned())? })
    }

    pub(super) fn add_to(&self, headers: &mut HeaderMap) {
        if headers.contains_key(AUTHORIZATION) {
            headers.insert(SERVICE_TOKEN, self.beside.clone()); // the credential is an operator's token
        } else {
            headers.insert(AUTHORIZATION, self.bearer.clone());
        }
    }
}

impl CoreTls {
    fn config(&self) -> Result<ClientTlsConfig, InvalidCoreAddress> {
        // tonic ignores what it cannot read, and would then trust no authority.
        let authorities: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&self.authority).collect();
        if authorities.map_or(true, |found| found.is_empty()) {
            return Err(InvalidCoreAddress::Authority);
        }
        let config = ClientTlsConfig::new()
            .ca_certificate(Certificate::from_pem(&self.authority))
            .timeout(Duration::from_secs(1));
        Ok(match &self.identity {
            Some((certificate, key)) => config.identity(Identity::from_pem(certificate, key)),
            None => config,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    fn refusal(url: &str, tls: Option<&CoreTls>) -> Option<String> {
        Url::parse(url.to_owned(), tls).err().map(|error| error.to_string())
    }

    fn tls(authority: &str) -> CoreTls {
        CoreTls { authority: authority.into(), identity: None }
    }

    #[test]
    fn an_address_is_http_or_https_or_a_unix_socket() {
        for url in ["http://127.0.0.1:50051", "HTTP://core.example", "unix:///run/petstore/core.sock"] {
            assert_eq!(refusal(url, None), None, "{url}");
        }
        for url in [
            "",
            "127.0.0.1:50051",
            "ftp://core.example",
            "http//core",
            "http://a b",
            "core.example",
            "http://user@core.example:1",
            "http://core.example:",
            "http://core.example/path",
            "unix://run/core.sock",
            "unix:///",
        ] {
            let refusal = refusal(url, None).unwrap_or_else(|| panic!("{url} is accepted"));
            assert!(refusal.starts_with("must be a URL such as"), "{refusal}");
        }
    }

    #[tokio::test]
    async fn a_name_server_that_does_not_answer_holds_up_no_connection_to_a_known_address() {
        let address: SocketAddr = "192.0.2.7:0".parse().unwrap();
        let last = Arc::default();
        found_or_last(Arc::clone(&last), ready(Ok(vec![address]))).await.unwrap();
        let never = found_or_last(Arc::clone(&last), pending());
        let found = timeout(Duration::from_secs(4), never).await.unwrap().unwrap();
        assert_eq!(found.collect::<Vec<_>>(), [address]);
        let found = found_or_last(last, ready(Err(io::ErrorKind::NotFound.into()))).await.unwrap();
        assert_eq!(found.collect::<Vec<_>>(), [address]);
    }

    #[test]
    fn calls_of_clients_have_a_connection_of_their_own() {
        for path in [PROBE, "/petstore.internal.v1.KeyService/ResolveKeys"] {
            assert!(is_its_own(path), "{path}");
        }
        for path in ["/petstore.internal.v1.BatchService/Call", "/petstore.v1.OrderService/ListOrders"] {
            assert!(!is_its_own(path), "{path}");
        }
    }

    #[test]
    fn the_service_token_is_sent_as_a_secret() {
        let token = "0123456789abcdef0123456789abcdef";
        let Credentials { bearer, beside } = Credentials::new(&ServiceToken::parse(token).unwrap()).unwrap();
        assert_eq!(
            (bearer.as_bytes(), beside.as_bytes()),
            (format!("Bearer {token}").as_bytes(), token.as_bytes())
        );
        assert!(bearer.is_sensitive() && beside.is_sensitive());
    }

    #[test]
    fn https_and_an_authority_come_together() {
        assert!(refusal("https://core.example:1", None).unwrap().contains("--core-ca"));
        for url in ["http://127.0.0.1:1", "unix:///run/core.sock"] {
            let refusal = refusal(url, Some(&tls(""))).unwrap();
            assert_eq!(refusal, "there is no TLS without https:// in --core-url", "{url}");
        }
        for authority in ["", "not PEM", "-----BEGIN CERTIFICATE-----\nMA==\n"] {
            assert_eq!(
                refusal("https://core.example:1", Some(&tls(authority))).unwrap(),
                "must be certificates in PEM"
            );
        }
    }
}
