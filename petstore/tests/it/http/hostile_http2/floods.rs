//! Floods of frames.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, split},
    time::timeout,
};

use super::{
    Port, Target, Wire,
    frames::{
        CANCEL, CONTINUATION, DATA, END_HEADERS, END_STREAM, FIELDS, GOAWAY, HEADERS, PING, RST_STREAM,
        SETTINGS, frame, greeting,
    },
};

/// Maximum number of frames in a flood: a flood of this length was not stopped.
const MOST_FRAMES: u32 = 200_000;
/// Number of frames that shows that a flood is processed in turn.
const SOME_FRAMES: u32 = 50_000;
/// Timeout of a flood, on a busy machine and in a build that is not optimized.
const FLOOD_TIMEOUT: Duration = Duration::from_mins(3);

/// Payload of a ping after the flood: its answer means that all frames were processed.
const LAST: &[u8; 8] = b"the end!";

/// Function that returns the n-th frames of a flood.
type Flood = fn(u32) -> Vec<u8>;

/// Returns frames of CVE-2023-44487: every request is reset at once.
fn rapid_reset(number: u32) -> Vec<u8> {
    let stream = 2 * number + 1;
    let reset = frame(RST_STREAM, 0, stream, &CANCEL.to_be_bytes());
    [frame(HEADERS, END_HEADERS | END_STREAM, stream, FIELDS), reset].concat()
}

/// Returns frames of RUSTSEC-2024-0332: header fields that never end.
fn continuations(number: u32) -> Vec<u8> {
    if number == 0 { frame(HEADERS, 0, 1, FIELDS) } else { frame(CONTINUATION, 0, 1, &[]) }
}

/// Returns frames of RUSTSEC-2026-0258: an empty body that never ends.
fn empty_data(number: u32) -> Vec<u8> {
    if number == 0 { frame(HEADERS, END_HEADERS, 1, FIELDS) } else { frame(DATA, 0, 1, &[]) }
}

/// Returns frames of CVE-2019-9512: each has to be answered.
fn pings(number: u32) -> Vec<u8> {
    frame(PING, 0, 0, &u64::from(number).to_be_bytes())
}

/// Returns frames of CVE-2019-9515: each has to be acknowledged.
fn settings(_: u32) -> Vec<u8> {
    frame(SETTINGS, 0, 0, &[])
}

#[tokio::test]
async fn a_flood_of_hostile_frames_is_cut_off() {
    for port in Port::ALL {
        let target = Target::open(port).await;
        for (name, flood) in [
            ("rapid reset", rapid_reset as Flood),
            ("continuations", continuations),
            ("empty data", empty_data),
        ] {
            let wire = target.connect().await;
            target.withstands(name, assert_cut_off(name, flood, wire)).await;
        }
        target.ends_in_order().await;
    }
}

#[tokio::test]
async fn a_flood_of_frames_that_need_answers_delays_no_other_client() {
    for port in Port::ALL {
        let target = Target::open(port).await;
        for (name, flood) in [("pings", pings as Flood), ("settings", settings)] {
            let wire = target.connect().await;
            target.withstands(name, assert_taken_or_cut_off(name, flood, wire)).await;
        }
        target.ends_in_order().await;
    }
}

/// Sends the flood until the service closes the connection.
async fn assert_cut_off(name: &'static str, flood: Flood, wire: Box<dyn Wire>) {
    let (is_cut_off, received) = send(name, flood, MOST_FRAMES, wire).await;
    assert!(is_cut_off, "{name}: all the frames were taken");
    let kinds = kinds(&received);
    assert!(kinds.is_empty() || kinds.contains(&GOAWAY), "{name}: closed without GOAWAY: {kinds:?}");
}

/// Sends the flood to its end, or until the service closes the connection.
async fn assert_taken_or_cut_off(name: &'static str, flood: Flood, wire: Box<dyn Wire>) {
    send(name, flood, SOME_FRAMES, wire).await;
}

/// Sends this number of frames and reads all answers. Returns `true` if the service closed the connection
/// before it had all frames, and its answers.
async fn send(name: &str, flood: Flood, frames: u32, wire: Box<dyn Wire>) -> (bool, Vec<u8>) {
    let (mut reader, mut writer) = split(wire);
    let sending = async {
        writer.write_all(&greeting(None)).await?;
        for begin in (0..frames).step_by(100) {
            writer.write_all(&(begin..begin + 100).flat_map(flood).collect::<Vec<_>>()).await?;
        }
        writer.write_all(&frame(PING, 0, 0, LAST)).await?;
        writer.flush().await
    };
    let reading = async {
        let (mut received, mut chunk) = (Vec::new(), vec![0; 8_192]);
        loop {
            match reader.read(&mut chunk).await {
                Ok(0) | Err(_) => return (true, received),
                Ok(len) => received.extend(&chunk[..len]),
            }
            let fresh = received.len().saturating_sub(chunk.len() + LAST.len());
            if received[fresh..].windows(LAST.len()).any(|bytes| bytes == LAST) {
                return (false, received);
            }
        }
    };
    let over = timeout(FLOOD_TIMEOUT, async { tokio::join!(sending, reading).1 });
    over.await.unwrap_or_else(|_| panic!("{name}: not over in {FLOOD_TIMEOUT:?}"))
}

/// Returns the kinds of the frames in the bytes.
fn kinds(mut bytes: &[u8]) -> Vec<u8> {
    let mut kinds = Vec::new();
    while let [a, b, c, kind, rest @ ..] = bytes {
        kinds.push(*kind);
        let len = usize::from(*a) << 16 | usize::from(*b) << 8 | usize::from(*c);
        bytes = rest.get(5 + len..).unwrap_or_default(); // flags and stream come before the payload
    }
    kinds
}
