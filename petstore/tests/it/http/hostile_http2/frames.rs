//! Frames of HTTP/2 (RFC 9113 §6), as no library would send them.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::timeout,
};

use super::{Port, Wire};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Fields `:method: POST`, `:scheme: https`, `:path: /`, `:authority: a` (RFC 7541, appendix A and §6.2.1).
pub(super) const FIELDS: &[u8] = &[0x83, 0x87, 0x84, 0x41, 0x01, b'a'];

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PING: u8 = 6;
pub(super) const GOAWAY: u8 = 7;
pub(super) const WINDOW_UPDATE: u8 = 8;
pub(super) const CONTINUATION: u8 = 9;

pub(super) const END_STREAM: u8 = 1;
pub(super) const END_HEADERS: u8 = 4;

/// Identifier of a setting (RFC 9113 §6.5.2).
pub(super) const MAX_CONCURRENT_STREAMS: u16 = 3;
pub(super) const INITIAL_WINDOW_SIZE: u16 = 4;
/// Error code (RFC 9113 §7).
pub(super) const PROTOCOL_ERROR: u32 = 1;
pub(super) const REFUSED_STREAM: u32 = 7;
pub(super) const CANCEL: u32 = 8;

/// Timeout longer than any deadline of the service.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let len = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&len[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Returns the client's preface, with one setting or none.
pub(super) fn greeting(setting: Option<(u16, u32)>) -> Vec<u8> {
    let settings = setting.map(|(name, value)| [&name.to_be_bytes()[..], &value.to_be_bytes()].concat());
    [PREFACE, &frame(SETTINGS, 0, 0, &settings.unwrap_or_default())].concat()
}

/// Returns the field block of a request (RFC 7541). Every field is literal, so that no table has to be kept.
fn fields(port: Port, method: u8, path: &str, key: &str) -> Vec<u8> {
    let literal =
        |name: &[u8], value: &str| [name, &[u8::try_from(value.len()).unwrap()], value.as_bytes()].concat();
    let head = [vec![method, 0x87], literal(&[0x04], path), literal(&[0x01], "a")].concat();
    match port {
        Port::Https => [head, literal(&[0x0f, 0x08], &format!("Bearer {key}"))].concat(), // 23: authorization
        Port::Grpc => [head, literal(&[0x0f, 0x10], "application/grpc")].concat(),        // 31: content-type
    }
}

/// Returns the complete field block of a request without a body.
pub(super) fn request_fields(port: Port, key: &str) -> Vec<u8> {
    match port {
        Port::Https => fields(port, 0x82, "/v1/pets", key),
        Port::Grpc => fields(port, 0x83, "/petstore.v1.PetStore/ListPets", key),
    }
}

/// Returns one more field of a block, as it is.
pub(super) fn field(name: &str, value: &str) -> Vec<u8> {
    let text = |text: &str| [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
    [vec![0], text(name), text(value)].concat()
}

/// Returns a request whose body does not arrive.
pub(super) fn unfinished_request(port: Port, stream: u32, key: &str) -> Vec<u8> {
    let path = match port {
        Port::Https => "/v1/pets",
        Port::Grpc => "/petstore.v1.PetStore/CreatePet",
    };
    frame(HEADERS, END_HEADERS, stream, &fields(port, 0x83, path, key))
}

/// Returns a request that adds a pet.
pub(super) fn create_request(stream: u32, key: &str) -> Vec<u8> {
    let body = frame(DATA, END_STREAM, stream, br#"{"name":"Rex","categoryId":1}"#);
    [unfinished_request(Port::Https, stream, key), body].concat()
}

/// Returns the reset of a stream by its client.
pub(super) fn reset(stream: u32) -> Vec<u8> {
    frame(RST_STREAM, 0, stream, &CANCEL.to_be_bytes())
}

/// Returns a request for a page of a hundred pets.
pub(super) fn page_request(port: Port, stream: u32, key: &str) -> Vec<u8> {
    match port {
        Port::Https => {
            let fields = fields(port, 0x82, "/v1/pets?limit=100", key);
            frame(HEADERS, END_HEADERS | END_STREAM, stream, &fields)
        }
        Port::Grpc => {
            let fields = fields(port, 0x83, "/petstore.v1.PetStore/ListPets", key);
            let message = [0, 0, 0, 0, 2, 0x08, 100]; // not compressed, 2 bytes: page_size = 100
            [frame(HEADERS, END_HEADERS, stream, &fields), frame(DATA, END_STREAM, stream, &message)].concat()
        }
    }
}

/// Frame, as the service sent it.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) kind: u8,
    pub(super) stream: u32,
    pub(super) payload: Vec<u8>,
}

impl Frame {
    /// Returns a number of the payload. The reason is the first of `RST_STREAM`, and the second of `GOAWAY`.
    pub(super) fn number(&self, at: usize) -> u32 {
        u32::from_be_bytes(self.payload[4 * at..][..4].try_into().unwrap())
    }

    /// Returns the value of this setting in a SETTINGS frame.
    pub(super) fn setting(&self, name: u16) -> Option<u32> {
        let mut settings = self.payload.chunks_exact(6);
        let setting = settings.find(|setting| setting.starts_with(&name.to_be_bytes()))?;
        Some(u32::from_be_bytes(setting[2..].try_into().unwrap()))
    }
}

/// Peer that sends its own frames.
pub(super) struct Peer(Box<dyn Wire>);

impl Peer {
    /// Sends the preface to the service.
    pub(super) async fn greet(mut wire: Box<dyn Wire>, setting: Option<(u16, u32)>) -> Self {
        wire.write_all(&greeting(setting)).await.unwrap();
        Self(wire)
    }

    pub(super) async fn send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.0.write_all(bytes).await?;
        self.0.flush().await
    }

    /// Waits until the service has taken everything that was sent.
    pub(super) async fn settle(&mut self) {
        self.send(&frame(PING, 0, 0, b"settled?")).await.unwrap();
        while self.next().await.payload != b"settled?" {}
    }

    /// Returns the next frame.
    pub(super) async fn next(&mut self) -> Frame {
        timeout(READ_TIMEOUT, self.read()).await.expect("a frame in time").expect("a frame")
    }

    async fn read(&mut self) -> std::io::Result<Frame> {
        let mut head = [0; 9];
        self.0.read_exact(&mut head).await?;
        let [a, b, c, kind, _flags, stream @ ..] = head;
        let mut payload = vec![0; usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c)];
        self.0.read_exact(&mut payload).await?;
        Ok(Frame { kind, stream: u32::from_be_bytes(stream), payload })
    }
}
