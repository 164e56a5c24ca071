//! Tests of HTTP/2 over TLS, in frames that no library would send (RFC 9113 §6).

use rcgen::{CertifiedKey, generate_simple_self_signed};
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{ClientConfig, RootCertStore, crypto::ring, pki_types::ServerName},
};

use super::*;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const NO_SETTINGS: &[u8] = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00";
/// Frame with `SETTINGS_INITIAL_WINDOW_SIZE` 0.
const NO_WINDOW: &[u8] = b"\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x04\x00\x00\x00\x00";
/// Frame with `GET /large` on stream 1: `:method: GET`, `:scheme: https`, and literally `:path` and
/// `:authority` (RFC 7541).
const GET_LARGE: &[u8] = b"\x00\x00\x0d\x01\x05\x00\x00\x00\x01\x82\x87\x04\x06/large\x01\x01h";
/// Frame with `GET /slow`.
const GET_SLOW: &[u8] = b"\x00\x00\x0c\x01\x05\x00\x00\x00\x01\x82\x87\x04\x05/slow\x01\x01h";
const DATA: u8 = 0;
const RST_STREAM: u8 = 3;
const GOAWAY: u8 = 7;

/// Server over TLS, and the one client that trusts it.
struct Secured {
    server: Running,
    connector: TlsConnector,
}

impl Secured {
    async fn start(limits: ServerLimits) -> Self {
        Self::start_with(app(), limits, enough()).await
    }

    async fn start_with(app: Router, limits: ServerLimits, slots: ConnectionSlots) -> Self {
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let (chain, key) = (cert.pem(), signing_key.serialize_pem());
        let certificate = Some(Certificate::parse(chain.as_bytes(), key.as_bytes()).unwrap());

        let mut roots = RootCertStore::empty();
        roots.add(cert.der().clone()).unwrap();
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec()];
        let server = Running::start_over(certificate, app, limits, slots).await;
        Self { server, connector: TlsConnector::from(Arc::new(config)) }
    }

    /// Sends the bytes on a new connection and returns that.
    async fn send(&self, bytes: &[&[u8]]) -> TlsStream<TcpStream> {
        let name = ServerName::from(self.server.addr.ip());
        let mut stream = self.connector.connect(name, self.server.connect().await).await.unwrap();
        stream.write_all(&bytes.concat()).await.unwrap();
        stream.flush().await.unwrap();
        stream
    }
}

/// Reads frames up to the first of this kind.
async fn read_until_kind(stream: &mut TlsStream<TcpStream>, kind: u8) {
    let reading = async {
        loop {
            let mut head = [0; 9];
            stream.read_exact(&mut head).await.expect("more frames");
            let mut payload =
                vec![0; usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2])];
            stream.read_exact(&mut payload).await.expect("a whole frame");
            if head[3] == kind {
                return;
            }
        }
    };
    timeout(NEVER_TIMEOUT / 4, reading).await.expect("a frame of the kind");
}

/// Reads to the close of the connection, in order or not.
async fn read_to_end(stream: &mut TlsStream<TcpStream>) {
    let mut rest = Vec::new();
    let _ = timeout(NEVER_TIMEOUT / 4, stream.read_to_end(&mut rest)).await.expect("the server closes");
}

/// Returns limits with which idle connections are closed, and cut off if they stay.
fn impatient() -> ServerLimits {
    ServerLimits { idle: SHORT_TIMEOUT, connection_age_grace: SHORT_TIMEOUT, ..patient() }
}

#[tokio::test]
async fn a_silent_connection_a_half_greeting_and_a_half_head_are_closed() {
    let server = Secured::start(ServerLimits { header_read_timeout: SHORT_TIMEOUT, ..patient() }).await;
    let half_head = [PREFACE, NO_SETTINGS, &GET_SLOW[..15]].concat();
    for half in [b"".as_slice(), &PREFACE[..9], PREFACE, &half_head] {
        read_to_end(&mut server.send(&[half]).await).await;
    }
}

#[tokio::test]
async fn an_idle_connection_gets_goaway_and_is_closed() {
    let server = Secured::start(impatient()).await;
    let mut stream = server.send(&[PREFACE, NO_SETTINGS]).await;
    read_until_kind(&mut stream, GOAWAY).await;
    read_to_end(&mut stream).await;
}

#[tokio::test]
async fn a_connection_whose_request_the_app_works_on_is_not_reclaimed() {
    let (app, begun, finish) = slow_app();
    let server = Secured::start_with(app, patient(), ConnectionSlots::new(3, 9)).await;
    let mut working = server.send(&[PREFACE, NO_SETTINGS, GET_SLOW]).await;
    begun.notified().await;
    let mut slow = Vec::new();
    for _ in 0..4 {
        slow.push(server.send(&[PREFACE, NO_SETTINGS]).await); // each makes the one before it close
    }
    finish.notify_one();
    read_until_kind(&mut working, DATA).await;
}

#[tokio::test]
async fn an_unread_answer_is_abandoned() {
    let server = Secured::start(ServerLimits { stream_deadline: SHORT_TIMEOUT, ..patient() }).await;
    let mut stream = server.send(&[PREFACE, NO_WINDOW, GET_LARGE]).await;
    read_until_kind(&mut stream, RST_STREAM).await;
}

#[tokio::test]
async fn answers_without_a_window_do_not_keep_a_connection_open() {
    let server = Secured::start(impatient()).await;
    // With a window of one byte the rest is in the server's buffer, and its request is over.
    let one_byte = [&NO_WINDOW[..14], &[1]].concat();
    read_to_end(&mut server.send(&[PREFACE, &one_byte, GET_LARGE]).await).await;
}
