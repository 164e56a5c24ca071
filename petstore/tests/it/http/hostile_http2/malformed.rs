//! Malformed requests (RFC 9113 §8.1.1, §8.2), such as one that a translation to HTTP/1.1 could turn into
//! two.

use super::{
    Port, Target,
    frames::{
        END_HEADERS, END_STREAM, Frame, GOAWAY, HEADERS, PROTOCOL_ERROR, Peer, RST_STREAM, field, frame,
        request_fields,
    },
};

#[tokio::test]
async fn a_malformed_request_is_reset_without_an_answer() {
    let cases = [
        ("a field of the connection", field("connection", "close")),
        ("a body in chunks", field("transfer-encoding", "chunked")),
        ("a body that does not come", field("content-length", "5")),
        ("a name in upper case", field("X-Field", "v")),
        ("a name with a line end", field("x-field: v\r\nx-other", "v")),
        ("a value with a line end", field("x-field", "v\r\nx-other: v")),
        ("a value with NUL", field("x-field", "v\0")),
        ("a second path", field(":path", "/v1/pets")),
        ("a pseudo-field that does not exist", field(":host", "a")),
        ("a pseudo-field behind a field", [field("x-field", "v"), field(":authority", "a")].concat()),
    ];
    for port in Port::ALL {
        let target = Target::open(port).await;
        let well_formed = request_fields(port, &target.key());
        assert_eq!(outcome(&target, &well_formed).await.kind, HEADERS, "{port:?}: an answer");
        for (name, malformed) in &cases {
            let frame = outcome(&target, &[&well_formed[..], malformed].concat()).await;
            let reason = match frame.kind {
                RST_STREAM => frame.number(0),
                GOAWAY => frame.number(1),
                _ => panic!("{port:?}: {name}: answered"),
            };
            assert_eq!(reason, PROTOCOL_ERROR, "{port:?}: {name}");
        }
        target.serves_others().await;
        target.ends_in_order().await;
    }
}

/// Returns the outcome of a request with these fields: the head of an answer, or a refusal.
async fn outcome(target: &Target, fields: &[u8]) -> Frame {
    let mut peer = Peer::greet(target.connect().await, None).await;
    peer.send(&frame(HEADERS, END_HEADERS | END_STREAM, 1, fields)).await.unwrap();
    loop {
        let frame = peer.next().await;
        if [HEADERS, RST_STREAM, GOAWAY].contains(&frame.kind) {
            return frame;
        }
    }
}
