//! The methods of the contract, with what their descriptors say. `build.rs` writes them.

/// A method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rpc {
    /// Its place among [`RPCS`].
    pub number: usize,
    /// `package.Service/Method`.
    pub path: &'static str,
    /// `true` if only processes of the service call it.
    pub is_internal: bool,
    /// `true` if it changes nothing.
    pub is_read: bool,
    /// `true` if repeating a call changes no more than making it once. A call of another method may be
    /// repeated if its request has a name (AIP-155).
    pub is_idempotent: bool,
    /// `true` if its request is a stream.
    pub takes_stream: bool,
    /// `true` if its response is a stream.
    pub returns_stream: bool,
}

include!(concat!(env!("OUT_DIR"), "/rpcs.rs"));

impl Rpc {
    /// Returns the method with this path.
    pub fn find(path: &[u8]) -> Option<Self> {
        RPCS.into_iter().find(|rpc| rpc.path.as_bytes() == path)
    }
}
