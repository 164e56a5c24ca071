//! PROXY protocol, versions 1 and 2: the header in which a proxy names the client of a connection, before the
//! client's first byte (<https://www.haproxy.org/download/3.2/doc/proxy-protocol.txt>).

use std::{
    io,
    net::{IpAddr, SocketAddr},
};

use tokio::{io::AsyncReadExt, net::TcpStream};

/// First bytes of a header of version 2. No header of version 1 is as short.
const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// Maximum length of a header of version 1, in bytes, by its specification.
const MAX_LINE: usize = 107;
/// Maximum length of addresses and extensions in a header of version 2, in bytes. The addresses take at most
/// 216; proxies add little to them.
const MAX_BLOCK: u16 = 4 * 1024;

/// Reads a header, and no byte beyond it. Returns the client, or `None` if the proxy speaks for itself
/// (`LOCAL`) or does not know the client's address.
///
/// # Errors
///
/// If reading fails, or what comes is no header ([`io::ErrorKind::InvalidData`]).
pub(super) async fn read_client(stream: &mut TcpStream) -> io::Result<Option<SocketAddr>> {
    let mut start = [0; SIGNATURE.len()];
    stream.read_exact(&mut start).await?;
    if start == SIGNATURE {
        let mut kind = [0; 2];
        stream.read_exact(&mut kind).await?;
        let length = stream.read_u16().await?;
        if length > MAX_BLOCK {
            return Err(malformed());
        }
        let mut block = vec![0; length.into()];
        stream.read_exact(&mut block).await?;
        return client_of_block(kind, &block);
    }
    if !start.starts_with(b"PROXY ") {
        return Err(malformed());
    }
    client_of_line(&read_line(stream, start.to_vec()).await?)
}

/// Reads the rest of a line. Bytes are taken once it is known that they belong to it.
async fn read_line(stream: &mut TcpStream, mut line: Vec<u8>) -> io::Result<Vec<u8>> {
    while !line.ends_with(b"\n") {
        let mut next = [0; MAX_LINE];
        let next = next.get_mut(line.len()..).filter(|next| !next.is_empty()).ok_or_else(malformed)?;
        let seen = match stream.peek(next).await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            seen => next.get_mut(..seen).unwrap_or_default(),
        };
        let end = seen.iter().position(|byte| *byte == b'\n').map_or(seen.len(), |at| at + 1);
        let seen = seen.get_mut(..end).unwrap_or_default();
        stream.read_exact(seen).await?;
        line.extend_from_slice(seen);
    }
    Ok(line)
}

fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "it does not begin with a PROXY header of version 1 or 2")
}

/// Returns the client in a header of version 1, `PROXY TCP4 192.0.2.7 192.0.2.1 4711 443` with CRLF.
fn client_of_line(line: &[u8]) -> io::Result<Option<SocketAddr>> {
    let line = str::from_utf8(line).ok().and_then(|line| line.strip_suffix("\r\n")).ok_or_else(malformed)?;
    let mut words = line.split(' ').skip(1); // the first was compared
    let is_ipv4 = match words.next() {
        Some("TCP4") => true,
        Some("TCP6") => false,
        Some("UNKNOWN") => return Ok(None), // whatever follows
        _ => return Err(malformed()),
    };
    let addresses =
        [(); 2].map(|()| words.next()?.parse().ok().filter(|it: &IpAddr| it.is_ipv4() == is_ipv4));
    let ports = [(); 2].map(|()| words.next()?.parse().ok());
    match (addresses, ports, words.next()) {
        ([Some(client), Some(_)], [Some(port), Some(_)], None) => Ok(Some((client, port).into())),
        _ => Err(malformed()),
    }
}

/// Returns the client in the block of a header of version 2, behind the bytes that say what it is.
fn client_of_block([version, family]: [u8; 2], block: &[u8]) -> io::Result<Option<SocketAddr>> {
    const LOCAL: u8 = 0x20;
    const PROXY: u8 = 0x21;
    let (client, rest): (IpAddr, _) = match (version, family) {
        (LOCAL, _) | (PROXY, 0x00) => return Ok(None),
        // For sockets of Unix, where only the machine is known.
        (PROXY, 0x31 | 0x32) if block.len() >= 216 => return Ok(None),
        // A stream or datagrams, such as those of HTTP/3: the client is the same.
        (PROXY, 0x11 | 0x12) => addresses::<4>(block).map(|([client, _], rest)| (client.into(), rest))?,
        (PROXY, 0x21 | 0x22) => addresses::<16>(block).map(|([client, _], rest)| (client.into(), rest))?,
        _ => return Err(malformed()),
    };
    let ([port, _], _extensions) = addresses(rest)?;
    Ok(Some((client, u16::from_be_bytes(port)).into()))
}

/// Splits the source and the destination, of `N` bytes each, from the rest.
fn addresses<const N: usize>(block: &[u8]) -> io::Result<([[u8; N]; 2], &[u8])> {
    let (source, rest) = block.split_first_chunk().ok_or_else(malformed)?;
    let (destination, rest) = rest.split_first_chunk().ok_or_else(malformed)?;
    Ok(([*source, *destination], rest))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use proptest::prelude::*;
    use tokio::{io::AsyncWriteExt, net::TcpListener};

    use super::*;

    fn line(line: &str) -> Result<Option<String>, io::ErrorKind> {
        let client = client_of_line(line.as_bytes()).map_err(|error| error.kind())?;
        Ok(client.map(|client| client.to_string()))
    }

    #[test]
    fn a_line_names_its_client() {
        let client = |written: &str| Ok(Some(written.to_owned()));
        assert_eq!(line("PROXY TCP4 192.0.2.7 192.0.2.1 4711 443\r\n"), client("192.0.2.7:4711"));
        assert_eq!(line("PROXY TCP6 2001:db8::7 2001:db8::1 4711 443\r\n"), client("[2001:db8::7]:4711"));
        assert_eq!(line("PROXY UNKNOWN\r\n"), Ok(None));
        assert_eq!(line("PROXY UNKNOWN 192.0.2.7 192.0.2.1 4711 443\r\n"), Ok(None));
        for malformed in [
            "PROXY TCP4 192.0.2.7 192.0.2.1 4711 443\n",
            "PROXY TCP4 192.0.2.7 192.0.2.1 4711\r\n",
            "PROXY TCP4 192.0.2.7 192.0.2.1 4711 443 1\r\n",
            "PROXY TCP4 192.0.2.7 192.0.2.1 4711 65536\r\n",
            "PROXY TCP4  192.0.2.7 192.0.2.1 4711 443\r\n",
            "PROXY TCP4 2001:db8::7 2001:db8::1 4711 443\r\n",
            "PROXY TCP6 192.0.2.7 192.0.2.1 4711 443\r\n",
            "PROXY TCP4 shop.example 192.0.2.1 4711 443\r\n",
            "PROXY UDP4 192.0.2.7 192.0.2.1 4711 443\r\n",
            "PROXY \r\n",
        ] {
            assert_eq!(line(malformed), Err(io::ErrorKind::InvalidData), "{malformed:?}");
        }
    }

    #[test]
    fn a_block_names_its_client() {
        let client = |kind, block: &[u8]| {
            let client = client_of_block(kind, block).map_err(|error| error.kind())?;
            Ok(client.map(|client| client.to_string()))
        };
        let of_ipv4 = [192, 0, 2, 7, 192, 0, 2, 1, 0x12, 0x67, 1, 0xbb];
        let of_ipv6 = [&Ipv6Addr::LOCALHOST.octets()[..], &[0; 16], &[0x12, 0x67, 1, 0xbb]].concat();
        let with_extension = [&of_ipv4[..], &[4, 0, 1, 0]].concat();
        assert_eq!(client([0x21, 0x11], &of_ipv4), Ok(Some("192.0.2.7:4711".to_owned())));
        assert_eq!(client([0x21, 0x12], &with_extension), Ok(Some("192.0.2.7:4711".to_owned())));
        assert_eq!(client([0x21, 0x21], &of_ipv6), Ok(Some("[::1]:4711".to_owned())));
        for (kind, block) in [
            ([0x20, 0x00], &[][..]),      // LOCAL
            ([0x20, 0x11], &of_ipv4),     // LOCAL, whatever follows
            ([0x21, 0x00], &of_ipv4),     // of an unknown family
            ([0x21, 0x31], &[b'/'; 216]), // of a socket of Unix
        ] {
            assert_eq!(client(kind, block), Ok(None), "{kind:?}");
        }
        for (kind, block) in [
            ([0x21, 0x11], &of_ipv4[..11]),
            ([0x21, 0x21], &of_ipv6[..35]),
            ([0x21, 0x31], &[b'/'; 215]),
            ([0x21, 0x41], &of_ipv6),
            ([0x21, 0x13], &of_ipv4),
            ([0x22, 0x11], &of_ipv4),
            ([0x11, 0x11], &of_ipv4),
        ] {
            assert_eq!(client(kind, block), Err(io::ErrorKind::InvalidData), "{kind:?}");
        }
    }

    /// Returns what is read of a connection on which these bytes arrive, and what is left of them.
    async fn read_of(bytes: &[u8]) -> (io::Result<Option<SocketAddr>>, Vec<u8>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut proxy = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (mut stream, _) = listener.accept().await.unwrap();
        proxy.write_all(bytes).await.unwrap();
        drop(proxy);
        let (client, mut left) = (read_client(&mut stream).await, Vec::new());
        stream.read_to_end(&mut left).await.unwrap();
        (client, left)
    }

    #[tokio::test]
    async fn a_header_is_bounded_and_whole() {
        let long_line = [b"PROXY UNKNOWN ".as_slice(), &[b'x'; 200], b"\r\n"].concat();
        let long_block = [&SIGNATURE[..], &[0x21, 0x11, 0x10, 0x01], &[0; 4097]].concat();
        let short_block = [&SIGNATURE[..], &[0x21, 0x11, 0, 12], &[0; 11]].concat();
        for (bytes, kind) in [
            (long_line.as_slice(), io::ErrorKind::InvalidData),
            (&long_block, io::ErrorKind::InvalidData),
            (b"GET / HTTP/1.1\r\n\r\n", io::ErrorKind::InvalidData),
            (b"PROXY TCP4 192.0.2.7", io::ErrorKind::UnexpectedEof),
            (&short_block, io::ErrorKind::UnexpectedEof),
            (b"", io::ErrorKind::UnexpectedEof),
        ] {
            assert_eq!(read_of(bytes).await.0.unwrap_err().kind(), kind, "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_parsing_panic(kind: [u8; 2], block: Vec<u8>, rest in "[TCP46UNKOW.: \r\n]{0,95}") {
            let _ = client_of_block(kind, &block);
            let _ = client_of_line(format!("PROXY {rest}").as_bytes());
            let _ = client_of_line(&block);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))] // each opens a connection

        #[test]
        fn what_follows_a_header_is_left_for_the_client(client: SocketAddr, is_line: bool, rest: Vec<u8>) {
            let (family, server) = match client {
                SocketAddr::V4(_) => (0x11, "192.0.2.1"),
                SocketAddr::V6(_) => (0x21, "2001:db8::1"),
            };
            let header = if is_line {
                let version = if client.is_ipv4() { 4 } else { 6 };
                let (ip, port) = (client.ip(), client.port());
                format!("PROXY TCP{version} {ip} {server} {port} 443\r\n").into_bytes()
            } else {
                let ip = match client.ip() {
                    IpAddr::V4(ip) => ip.octets().to_vec(),
                    IpAddr::V6(ip) => ip.octets().to_vec(),
                };
                let block = [&ip[..], &ip, &client.port().to_be_bytes(), &[1, 0xbb], b"\x04\0\x01x"].concat();
                let length = u16::try_from(block.len()).unwrap().to_be_bytes();
                [&SIGNATURE[..], &[0x21, family], &length, &block].concat()
            };
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let (read, left) = runtime.block_on(read_of(&[header, rest.clone()].concat()));
            prop_assert_eq!(read.unwrap().map(|it| (it.ip(), it.port())), Some((client.ip(), client.port())));
            prop_assert_eq!(left, rest);
        }
    }
}
