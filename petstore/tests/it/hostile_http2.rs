//! Floods of HTTP/2 frames, at the HTTPS port and at the gRPC port: the connection is closed, and nobody else notices.

use std::{pin::pin, time::Duration};

use petstore_testkit::{
    Authority, Client, Protocol, Tls,
    grpc::{self, ServingStatus},
    raw,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    time::{Instant, timeout},
};

use crate::{PORTS, petstore};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// `:method: POST`, `:scheme: https`, `:path: /`, `:authority: a` (RFC 7541, appendix A and §6.2.1).
const FIELDS: &[u8] = &[0x83, 0x87, 0x84, 0x41, 0x01, b'a'];

/// Kinds of frames (RFC 9113 §6).
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;

const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// A flood is over when so many frames were sent: then nothing has stopped it.
const MOST_FRAMES: u32 = 200_000;
/// How long the service may take to close the connection.
const CLOSED: Duration = Duration::from_secs(20);

/// The n-th frames of a flood.
type Flood = fn(u32) -> Vec<u8>;

/// CVE-2023-44487: every request is taken back at once.
fn rapid_reset(number: u32) -> Vec<u8> {
    let stream = 2 * number + 1;
    let cancel = 8_u32.to_be_bytes();
    [frame(HEADERS, END_HEADERS | END_STREAM, stream, FIELDS), frame(RST_STREAM, 0, stream, &cancel)].concat()
}

/// RUSTSEC-2024-0332: header fields that never end.
fn continuations(number: u32) -> Vec<u8> {
    if number == 0 { frame(HEADERS, 0, 1, FIELDS) } else { frame(CONTINUATION, 0, 1, &[]) }
}

/// RUSTSEC-2026-0258: a body of nothing that never ends.
fn empty_data(number: u32) -> Vec<u8> {
    if number == 0 { frame(HEADERS, END_HEADERS, 1, FIELDS) } else { frame(DATA, 0, 1, &[]) }
}

const FLOODS: [(&str, Flood); 3] =
    [("rapid reset", rapid_reset), ("continuations", continuations), ("empty data", empty_data)];

#[tokio::test]
async fn a_flood_at_the_https_port_is_cut_off_and_others_are_served() {
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
    let server = installation.start(&[["serve"].as_slice(), &PORTS, &https].concat()).await;
    let address = server.address("HTTPS");
    let other = Client::new(address).over_tls(&authority, Protocol::Http2);
    for (name, flood) in FLOODS {
        let stream = Tls::trusting(&authority, Protocol::Http2).connect(address).await.unwrap();
        let attack = tokio::spawn(assert_cut_off(name, flood, stream));
        while !attack.is_finished() {
            let begin = Instant::now();
            other.get("/v1/pets").await.assert_error(401, "MISSING_API_KEY");
            assert!(begin.elapsed() < Duration::from_secs(5), "{name}: {:?}", begin.elapsed());
        }
        attack.await.unwrap();
    }
    other.get("/openapi.json").await.assert_status(200);
}

#[tokio::test]
async fn a_flood_at_the_grpc_port_is_cut_off_and_others_are_served() {
    let installation = petstore();
    let server = installation.start(&[["serve"].as_slice(), &PORTS].concat()).await;
    let address = server.address("gRPC");
    for (name, flood) in FLOODS {
        let attack = tokio::spawn(assert_cut_off(name, flood, raw::connect(address).await));
        while !attack.is_finished() {
            let begin = Instant::now();
            assert_eq!(grpc::health(address, "").await.unwrap(), ServingStatus::Serving);
            assert!(begin.elapsed() < Duration::from_secs(5), "{name}: {:?}", begin.elapsed());
        }
        attack.await.unwrap();
    }
}

/// Sends the flood until the service closes the connection.
async fn assert_cut_off(name: &'static str, flood: Flood, stream: impl AsyncRead + AsyncWrite) {
    let (mut reader, mut writer) = tokio::io::split(stream);
    let mut received = Vec::new();
    let mut sent = 0;
    let sending = async {
        writer.write_all(&[PREFACE, &frame(SETTINGS, 0, 0, &[])].concat()).await?;
        while sent < MOST_FRAMES {
            let batch: Vec<u8> = (sent..sent + 100).flat_map(flood).collect();
            writer.write_all(&batch).await?;
            sent += 100;
        }
        std::io::Result::Ok(())
    };
    // Whichever side ends first: a reset, or the end of what the service has to say.
    let mut reading = pin!(reader.read_to_end(&mut received));
    let closed = timeout(CLOSED, async {
        tokio::select! {
            _ = &mut reading => {}
            result = sending => {
                assert!(result.is_err(), "{name}: all the frames were taken");
                let _ = (&mut reading).await; // what is left, up to the end or the reset
            }
        }
    });
    assert!(closed.await.is_ok(), "{name}: still open after {sent} frames");
    let kinds = kinds(&received);
    assert!(kinds.is_empty() || kinds.contains(&GOAWAY), "{name}: closed without GOAWAY: {kinds:?}");
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let len = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&len[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// The kinds of the frames in the bytes.
fn kinds(mut bytes: &[u8]) -> Vec<u8> {
    let mut kinds = Vec::new();
    while let [a, b, c, kind, rest @ ..] = bytes {
        kinds.push(*kind);
        let len = usize::from(*a) << 16 | usize::from(*b) << 8 | usize::from(*c);
        bytes = rest.get(5 + len..).unwrap_or_default(); // flags and stream come before the payload
    }
    kinds
}
