//! HTTP of the public port: what is read of a request, and the fields of every answer.

mod base_path;
mod connections;
mod cors;
mod headers;
mod hostile_http2;
mod https;
mod openapi;
mod problem_details;
mod proxy_protocol;
mod requests;
mod routing;
mod unread_bodies;

use std::{net::SocketAddr, time::Duration};

use petstore_testkit::{Authority, Certificate, Client, Installation, Protocol, Server};
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    net::{TcpSocket, TcpStream},
    time::timeout,
};

use crate::{FIRST_KEY, PORTS, petstore};

/// Request that no limit counts.
pub(crate) const GET: &[u8] = b"GET /openapi.json HTTP/1.1\r\nHost: a\r\n\r\n";
/// Timeout of an answer on a busy machine.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);

/// Service with an HTTPS port.
pub(crate) struct HttpsService {
    pub(crate) authority: Authority,
    certificate: Certificate,
    installation: Installation,
    pub(crate) server: Server,
}

impl HttpsService {
    pub(crate) async fn open(flags: &[&str]) -> Self {
        let (authority, installation) = (Authority::new(), petstore());
        let certificate = authority.issue("127.0.0.1");
        let https = [
            "--https-addr",
            "127.0.0.1:0",
            "--https-cert",
            &certificate.file,
            "--https-key",
            &certificate.key_file,
        ];
        let http = if flags.contains(&"--http-addr") { 2 } else { 0 };
        let server =
            installation.start(&[["serve"].as_slice(), &PORTS[http..], &https, flags].concat()).await;
        Self { authority, certificate, installation, server }
    }

    /// Returns the expiry of the certificate, by the metric.
    async fn expiry(&self) -> i64 {
        let metrics = self.server.admin().get("/metrics").await;
        let name = "petstore_https_certificate_expiry_timestamp_seconds ";
        metrics.text().lines().find_map(|line| line.strip_prefix(name)).unwrap().parse().unwrap()
    }

    fn anonymous(&self, protocol: Protocol) -> Client {
        Client::new(self.server.address("HTTPS")).over_tls(&self.authority, protocol)
    }

    pub(crate) fn client(&self, protocol: Protocol) -> Client {
        self.anonymous(protocol).with_key(&self.key())
    }

    pub(crate) fn key(&self) -> String {
        self.installation.read(FIRST_KEY).trim().to_owned()
    }
}

/// Connects from an address of this machine, which has all of 127.0.0.0/8.
async fn connect_from(own: &str, address: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(format!("{own}:0").parse().unwrap()).unwrap();
    socket.connect(address).await.unwrap()
}

/// Reads the head of the next answer.
pub(crate) async fn head(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match timeout(ANSWER_TIMEOUT, stream.read_u8()).await.expect("an answer in time") {
            Ok(byte) => head.push(byte),
            Err(error) => panic!("no answer: {error}; {:?}", String::from_utf8_lossy(&head)),
        }
    }
    String::from_utf8(head).unwrap()
}

/// Reads the head and the body of the next answer. Returns the head.
pub(crate) async fn whole_answer(stream: &mut TcpStream) -> String {
    let head = head(stream).await;
    let lower = head.to_lowercase();
    let len = lower.split("content-length: ").nth(1).map_or("0", |rest| rest.split("\r\n").next().unwrap());
    let mut body = vec![0; len.parse().unwrap()];
    stream.read_exact(&mut body).await.unwrap();
    head
}
