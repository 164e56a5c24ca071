//! HTTP/1.1 client of one base address. Each request has its own connection, and no redirect is followed.

use std::{
    convert::Infallible,
    error::Error,
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    str::FromStr,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use futures_util::stream::{Pending, pending};
use http::{HeaderValue, Request, Uri, header};
use http_body_util::{BodyExt, Either, Full, Limited, StreamBody};
use hyper::{body::Frame, client::conn::http1};
use hyper_util::rt::TokioIo;
use petstore_command_line::output::{reason, with_causes};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpSocket, lookup_host},
    task::JoinSet,
    time::timeout,
};
use tokio_rustls::{
    TlsConnector,
    rustls::{
        ClientConfig, RootCertStore,
        crypto::ring,
        pki_types::{CertificateDer, ServerName},
    },
};
use uuid::Uuid;

use crate::{
    CheckError,
    answer::{Answer, Finding},
    request::CheckRequest,
};

/// Timeout of a request: the 5 s of the contract, and as much for the way.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout of a request whose body never arrives. It is less than the 5 s after which the service, and the
/// 10 s after which the proxies in `deploy/`, stop waiting for a body.
const WITHHELD_TIMEOUT: Duration = Duration::from_secs(3);
/// Upper bound of a response's body, in bytes.
const MAX_BODY: usize = 4 << 20;

/// Base address of a service, `http://` or `https://`, whose path ends with `/v1`.
#[derive(Clone, Debug)]
pub struct BaseUrl {
    authority: String,
    host: String,
    port: u16,
    is_https: bool,
    /// Path before `/v1`: empty, unless a proxy adds one.
    pub(crate) prefix: String,
}

impl FromStr for BaseUrl {
    type Err = &'static str;

    fn from_str(written: &str) -> Result<Self, Self::Err> {
        const RIGHT: &str = "must be the base address of a service, such as https://shop.example/v1";
        let url: Uri = written.parse().map_err(|_| RIGHT)?;
        let authority = url.authority().filter(|authority| !authority.as_str().contains('@')).ok_or(RIGHT)?;
        let is_https = match url.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(RIGHT),
        };
        let prefix = url.path().trim_end_matches('/').strip_suffix("/v1").filter(|_| url.query().is_none());
        Ok(Self {
            authority: authority.to_string(),
            host: authority.host().trim_matches(['[', ']']).to_owned(),
            port: authority.port_u16().unwrap_or(if is_https { 443 } else { 80 }),
            is_https,
            prefix: prefix.ok_or(RIGHT)?.to_owned(),
        })
    }
}

impl std::fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let scheme = if self.is_https { "https" } else { "http" };
        write!(f, "{scheme}://{}{}/v1", self.authority, self.prefix)
    }
}

/// Way to the service: its address, and that of this machine if one is chosen.
pub(crate) type Route = (SocketAddr, Option<IpAddr>);

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Client of a base address.
pub(crate) struct Client {
    pub(crate) base: BaseUrl,
    tls: Option<TlsConnector>,
    addresses: Vec<SocketAddr>,
    /// Route of every request that names no other.
    route: Route,
}

impl Client {
    /// Finds an address of the service that accepts connections, and whose certificate is trusted.
    pub(crate) async fn connect(
        base: BaseUrl,
        authorities: Option<Vec<CertificateDer<'static>>>,
    ) -> Result<Self, CheckError> {
        let tls = base.is_https.then(|| connector(authorities)).transpose()?;
        let unreachable = |error: &io::Error| CheckError::Unreachable(base.to_string(), reason(error));
        let found =
            lookup_host((base.host.as_str(), base.port)).await.map_err(|error| unreachable(&error))?;
        let addresses: Vec<_> = found.collect();
        let mut failure = io::ErrorKind::NotFound.into();
        for &target in &addresses {
            let client = Self {
                base: base.clone(),
                tls: tls.clone(),
                addresses: addresses.clone(),
                route: (target, None),
            };
            match client.open(client.route).await {
                Ok(_) => return Ok(client),
                Err(error) => failure = error,
            }
        }
        Err(unreachable(&failure))
    }

    /// Opens a connection, with TLS if the base address is `https://`.
    async fn open(&self, route: Route) -> io::Result<Box<dyn Stream>> {
        let opening = async {
            let (target, source) = route;
            let socket = if target.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
            if let Some(source) = source {
                socket.bind((source, 0).into())?;
            }
            let stream = socket.connect(target).await?;
            stream.set_nodelay(true)?;
            let Some(tls) = &self.tls else { return Ok(Box::new(stream) as Box<dyn Stream>) };
            let name = ServerName::try_from(self.base.host.clone()).map_err(io::Error::other)?;
            Ok(Box::new(tls.connect(name, stream).await?) as Box<dyn Stream>)
        };
        timeout(REQUEST_TIMEOUT, opening).await.unwrap_or_else(|late| Err(late.into()))
    }

    /// Returns a route on which the service sees another address of this machine, if there is one: any of the
    /// loopback's, or one of the other version of IP.
    pub(crate) fn other_route(&self) -> Option<Route> {
        let (target, _) = self.route;
        if target.ip().is_loopback() && target.is_ipv4() {
            let [.., a, b, c] = Uuid::now_v7().into_bytes();
            let source = Ipv4Addr::new(127, a | 1, b, c.clamp(1, 254)).into();
            return Some((target, Some(source)));
        }
        let other = self.addresses.iter().find(|address| address.is_ipv4() != target.is_ipv4());
        other.map(|&target| (target, None))
    }

    /// Returns the target of a request.
    fn path(&self, asked: &CheckRequest) -> String {
        match asked.path.strip_prefix("/..") {
            Some(of_host) => of_host.to_owned(),
            None => format!("{}/v1{}", self.base.prefix, asked.path),
        }
    }

    /// Sends a request, and returns the answer, or why there is none: it was not tried without a connection.
    pub(crate) async fn send(
        &self,
        asked: &CheckRequest,
        key: Option<&HeaderValue>,
        route: Option<Route>,
    ) -> Result<Answer, Finding> {
        let mut request = Request::builder()
            .method(asked.method.clone())
            .uri(self.path(asked))
            .header(header::HOST, &self.base.authority)
            .header(header::USER_AGENT, concat!("petstore-check/", env!("CARGO_PKG_VERSION")));
        for (name, value) in &asked.fields {
            request = request.header(*name, value);
        }
        if let Some(key) = key {
            request = request.header(header::AUTHORIZATION, key);
        }
        let (body, deadline) = match asked.withheld {
            None => (Either::Left(Full::new(asked.body.clone())), REQUEST_TIMEOUT),
            Some(length) => {
                request = request.header(header::CONTENT_LENGTH, length);
                (Either::Right(StreamBody::new(pending())), WITHHELD_TIMEOUT)
            }
        };
        let request = request.body(body).map_err(|error| Finding::NotTried(error.to_string()))?;
        let no_stream = |error: io::Error| Finding::NotTried(format!("no connection: {}", reason(&error)));
        let stream = self.open(route.unwrap_or(self.route)).await.map_err(no_stream)?;
        let exchange = self.exchange(request, stream);
        let shown = format!("{} {}{}", asked.method, shortened(&self.path(asked)), with_fields(asked));
        let broken = |why: String| Err(Finding::Broken(format!("{shown} got no response{why}")));
        match timeout(deadline, exchange).await {
            Ok(Ok(answer)) => Ok(Answer { shown, ..answer }),
            Ok(Err(error)) => broken(format!(": {}", with_causes(&*error))),
            Err(_) => broken(format!(" within {} s", deadline.as_secs())),
        }
    }

    async fn exchange(
        &self,
        request: Request<SentBody>,
        stream: Box<dyn Stream>,
    ) -> Result<Answer, BoxedError> {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let mut driver = JoinSet::new(); // ends the connection when it is dropped
        driver.spawn(connection);
        let (head, body) = sender.send_request(request).await?.into_parts();
        let body = Limited::new(body, MAX_BODY).collect().await?.to_bytes();
        let path = path.strip_prefix(&self.base.prefix).unwrap_or_default().to_owned();
        Ok(Answer {
            shown: String::new(),
            method,
            path,
            status: head.status.as_u16(),
            headers: head.headers,
            body,
        })
    }
}

type BoxedError = Box<dyn Error + Send + Sync>;
type SentBody = Either<Full<Bytes>, StreamBody<Pending<Result<Frame<Bytes>, Infallible>>>>;

/// Returns the beginning of a target that is too long to be shown.
fn shortened(target: &str) -> String {
    match target.char_indices().nth(60) {
        Some((end, _)) => format!("{}… ({} bytes)", &target[..end], target.len()),
        None => target.to_owned(),
    }
}

/// Returns the names of the request's own fields, which tell it from others on the same path.
fn with_fields(asked: &CheckRequest) -> String {
    let mut names: Vec<_> = asked.fields.iter().map(|(name, _)| *name).collect();
    names.dedup();
    if names.is_empty() { String::new() } else { format!(" with {}", names.join(", ")) }
}

/// Returns a TLS client that trusts these authorities, or those of the operating system.
fn connector(authorities: Option<Vec<CertificateDer<'static>>>) -> Result<TlsConnector, CheckError> {
    let mut roots = RootCertStore::empty();
    let authorities = authorities.unwrap_or_else(|| rustls_native_certs::load_native_certs().certs);
    roots.add_parsable_certificates(authorities);
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(CheckError::Tls)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}
