//! Single messages: their bounds and their names.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt};

/// Upper bound of a message in bytes. A larger one is not the protocol.
const LARGEST: usize = 256 * 1_024 * 1_024;

/// Sender of a message, by the names of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// The client.
    Frontend,
    /// The server.
    Backend,
}

/// Complete message, as it is on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Message {
    /// Type byte; `None` for the first message of a client, which has none.
    pub(super) tag: Option<u8>,
    pub(super) bytes: Vec<u8>,
}

impl Message {
    /// Returns the part after the type and the length.
    pub(super) fn body(&self) -> &[u8] {
        self.bytes.get(if self.tag.is_some() { 5 } else { 4 }..).unwrap_or_default()
    }

    /// Returns the protocol's name of the message.
    pub(super) fn name(&self, side: Side) -> &'static str {
        let Some(tag) = self.tag else { return "StartupMessage" };
        match (side, tag) {
            (Side::Frontend, b'B') => "Bind",
            (Side::Frontend, b'C') => "Close",
            (Side::Frontend, b'D') => "Describe",
            (Side::Frontend, b'E') => "Execute",
            (Side::Frontend, b'H') => "Flush",
            (Side::Frontend, b'P') => "Parse",
            (Side::Frontend, b'Q') => "Query",
            (Side::Frontend, b'S') => "Sync",
            (Side::Frontend, b'X') => "Terminate",
            (Side::Frontend, b'p') => "PasswordMessage",
            (Side::Backend, b'1') => "ParseComplete",
            (Side::Backend, b'2') => "BindComplete",
            (Side::Backend, b'3') => "CloseComplete",
            (Side::Backend, b'C') => "CommandComplete",
            (Side::Backend, b'D') => "DataRow",
            (Side::Backend, b'E') => "ErrorResponse",
            (Side::Backend, b'I') => "EmptyQueryResponse",
            (Side::Backend, b'K') => "BackendKeyData",
            (Side::Backend, b'N') => "NoticeResponse",
            (Side::Backend, b'R') => "Authentication",
            (Side::Backend, b'S') => "ParameterStatus",
            (Side::Backend, b'T') => "RowDescription",
            (Side::Backend, b'Z') => "ReadyForQuery",
            (Side::Backend, b'n') => "NoData",
            (Side::Backend, b's') => "PortalSuspended",
            (Side::Backend, b't') => "ParameterDescription",
            (Side::Frontend | Side::Backend, _) => "other",
        }
    }
}

/// Reads the next message. Returns `None` at the end of the stream.
pub(super) async fn read_message(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<Message>> {
    let mut tag = [0];
    if from.read(&mut tag).await? == 0 {
        return Ok(None);
    }
    let mut length = [0; 4];
    from.read_exact(&mut length).await?;
    let mut bytes = vec![tag[0]];
    bytes.extend(length);
    read_rest(from, &mut bytes, length).await?;
    Ok(Some(Message { tag: Some(tag[0]), bytes }))
}

/// Reads the first message of a client, or a request that comes before it. They have no type.
pub(super) async fn read_first_message(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Message> {
    let mut length = [0; 4];
    from.read_exact(&mut length).await?;
    let mut bytes = length.to_vec();
    read_rest(from, &mut bytes, length).await?;
    Ok(Message { tag: None, bytes })
}

/// Reads the rest of a message. The length includes itself.
async fn read_rest(
    from: &mut (impl AsyncRead + Unpin),
    bytes: &mut Vec<u8>,
    length: [u8; 4],
) -> io::Result<()> {
    let rest = usize::try_from(u32::from_be_bytes(length)).ok().and_then(|length| length.checked_sub(4));
    let rest = rest.filter(|rest| *rest <= LARGEST).ok_or(io::ErrorKind::InvalidData)?;
    let start = bytes.len();
    bytes.resize(start + rest, 0);
    from.read_exact(bytes.get_mut(start..).unwrap_or_default()).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn messages_are_read_exactly_to_their_end() {
        let mut wire: &[u8] = b"Q\0\0\0\x0bBEGIN;\0S\0\0\0\x04";
        let query = read_message(&mut wire).await.unwrap().unwrap();
        assert_eq!((query.name(Side::Frontend), query.body()), ("Query", b"BEGIN;\0".as_slice()));
        let sync = read_message(&mut wire).await.unwrap().unwrap();
        assert_eq!((sync.name(Side::Frontend), sync.body()), ("Sync", b"".as_slice()));
        assert_eq!(read_message(&mut wire).await.unwrap(), None);
    }

    #[tokio::test]
    async fn a_first_message_has_no_type() {
        let mut wire: &[u8] = b"\0\0\0\x08\x04\xd2\x16\x2f";
        let first = read_first_message(&mut wire).await.unwrap();
        assert_eq!((first.tag, first.body()), (None, b"\x04\xd2\x16\x2f".as_slice()));
    }

    #[tokio::test]
    async fn half_a_message_and_an_impossible_length_are_errors() {
        for mut wire in [b"Q\0\0\0\x0bBEG".as_slice(), b"Q\0\0\0\x03", b"Q\xff\xff\xff\xff"] {
            assert!(read_message(&mut wire).await.is_err(), "{wire:?}");
        }
    }
}
