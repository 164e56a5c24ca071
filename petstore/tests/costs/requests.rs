//! Load: one request after the other on a kept connection, without allocations.

use std::net::SocketAddr;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// Number of pets of a deployment at the start of the counting.
pub(crate) const PETS: usize = 100;

/// Size of the buffer in bytes, enough for any answer.
const BUFFER: usize = 64 * 1_024;

/// Operation that is requested.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operation {
    Get,
    List,
    Create,
}

impl Operation {
    pub(crate) const ALL: [Self; 3] = [Self::Get, Self::List, Self::Create];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Create => "create",
        }
    }

    /// Returns the requests, to be sent in turn: every pet, lists of different lengths, one creation.
    pub(crate) fn requests(self, host: SocketAddr, key: &str) -> Vec<Vec<u8>> {
        let fields = format!("Host: {host}\r\nAuthorization: Bearer {key}\r\n");
        let get = |path: String| format!("GET /v1/pets{path} HTTP/1.1\r\n{fields}\r\n");
        let requests: Vec<String> = match self {
            Self::Get => (1..=PETS).map(|id| get(format!("/{id}"))).collect(),
            Self::List => (15..=25).map(|limit| get(format!("?limit={limit}&status=available"))).collect(),
            Self::Create => {
                let body = r#"{"name":"Rex","categoryId":7,"status":"available"}"#;
                let length = body.len();
                vec![format!(
                    "POST /v1/pets HTTP/1.1\r\n{fields}Content-Type: application/json\r\n\
                     Content-Length: {length}\r\n\r\n{body}"
                )]
            }
        };
        requests.into_iter().map(String::into_bytes).collect()
    }
}

/// Connection that is kept.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.expect("the service accepts connections");
        stream.set_nodelay(true).expect("a TCP socket");
        Self { stream, buffer: vec![0; BUFFER] }
    }

    /// Sends the request until it succeeds: on a very busy machine the store may take longer than a request
    /// may wait.
    pub(crate) async fn exchange(&mut self, request: &[u8]) {
        for _ in 0..20 {
            self.stream.write_all(request).await.expect("the service takes the request");
            let answer = self.answer().await;
            if answer.starts_with(b"HTTP/1.1 20") {
                return;
            }
            assert!(answer.starts_with(b"HTTP/1.1 503"), "{}", String::from_utf8_lossy(answer));
        }
        panic!("the store is not available");
    }

    async fn answer(&mut self) -> &[u8] {
        let mut filled = 0;
        while !is_whole(&self.buffer[..filled]) {
            let read = self.stream.read(&mut self.buffer[filled..]).await.expect("the service answers");
            assert!(read > 0, "closed in the middle of an answer");
            filled += read;
        }
        &self.buffer[..filled]
    }
}

fn is_whole(answer: &[u8]) -> bool {
    let Some(head) = answer.windows(4).position(|window| window == b"\r\n\r\n") else { return false };
    let name = b"content-length: ";
    let fields = &answer[..head];
    let value = fields.windows(name.len()).position(|window| window.eq_ignore_ascii_case(name));
    let digits = &fields[value.expect("every answer here has a length") + name.len()..];
    let digits = digits.iter().take_while(|byte| byte.is_ascii_digit());
    let length = digits.fold(0, |length, digit| length * 10 + usize::from(digit - b'0'));
    answer.len() == head + 4 + length
}
