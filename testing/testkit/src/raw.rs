//! Bytes over TCP that no HTTP client would send.

use std::{net::SocketAddr, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use crate::Answer;

/// Timeout of an answer, longer than any deadline of the service.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);

/// Sends the bytes and reads until the service closes the connection. The request should have `Connection:
/// close`, unless the service is expected to close the connection for another reason.
pub async fn exchange(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = connect(address).await;
    stream.write_all(bytes).await.expect("the service takes the bytes");
    read_to_end(&mut stream).await
}

/// Opens a connection on which nothing has been sent.
pub async fn connect(address: SocketAddr) -> TcpStream {
    TcpStream::connect(address).await.expect("the service accepts connections")
}

/// Reads until the service closes the connection.
pub async fn read_to_end(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    match timeout(ANSWER_TIMEOUT, stream.read_to_end(&mut bytes)).await {
        Ok(Ok(_)) => bytes,
        // A reset after the answer means that the service closed a connection with unread bytes.
        Ok(Err(_)) if !bytes.is_empty() => bytes,
        Ok(Err(error)) => panic!("reset without an answer: {error}"),
        Err(elapsed) => {
            panic!("still open ({elapsed}, {ANSWER_TIMEOUT:?}); read: {}", String::from_utf8_lossy(&bytes))
        }
    }
}

/// Parses the bytes as one response.
#[track_caller]
pub fn answer(bytes: &[u8]) -> Answer {
    let mut answers = answers(bytes);
    assert_eq!(answers.len(), 1, "not one response: {}", String::from_utf8_lossy(bytes));
    answers.remove(0)
}

/// Parses consecutive responses, each with a `Content-Length` or without a body.
#[track_caller]
pub fn answers(mut bytes: &[u8]) -> Vec<Answer> {
    let mut answers = Vec::new();
    while !bytes.is_empty() {
        let (answer, rest) = split(bytes)
            .unwrap_or_else(|| panic!("not a whole response: {}", String::from_utf8_lossy(bytes)));
        answers.push(answer);
        bytes = rest;
    }
    answers
}

fn split(bytes: &[u8]) -> Option<(Answer, &[u8])> {
    let head_len = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let (head, rest) = (std::str::from_utf8(bytes.get(..head_len)?).ok()?, bytes.get(head_len + 4..)?);
    let mut lines = head.split("\r\n");
    let status = lines.next()?.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
    let mut headers = HeaderMap::new();
    for line in lines {
        let (name, value) = line.split_once(':')?;
        headers.append(HeaderName::try_from(name).ok()?, HeaderValue::try_from(value.trim()).ok()?);
    }
    let body_len =
        headers.get("content-length").map_or(Some(0), |value| value.to_str().ok()?.parse().ok())?;
    let body = Bytes::copy_from_slice(rest.get(..body_len)?);
    Some((Answer::new(status, headers, body), rest.get(body_len..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_in_a_row_are_separated() {
        let bytes =
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhiHTTP/1.1 204 No Content\r\nallow: GET\r\n\r\n";
        let [first, second] = &answers(bytes)[..] else { panic!("not two") };
        assert_eq!((first.status(), first.text()), (200, "hi"));
        assert_eq!((second.status(), second.header("allow")), (204, "GET"));
    }

    #[test]
    #[should_panic(expected = "not a whole response")]
    fn half_a_response_is_none() {
        let _ = answer(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nhi");
    }
}
