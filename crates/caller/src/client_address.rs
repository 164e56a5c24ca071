//! The address that a request is counted against: that of its client, even behind proxies.
//!
//! A [`ClientAddress`] is the network that one host controls: an IPv4 address, or the /64 of an IPv6 address.
//! Limits count these, so that a host cannot evade one by changing its address.
//! [`TrustedProxies`] finds the client of a request in `X-Forwarded-For`. Nothing that a client writes into
//! this field changes its own address. A malformed field is no error: the request then counts against the
//! proxy that sent it.
//!
//! ```
//! use std::net::IpAddr;
//!
//! use http::{HeaderMap, HeaderValue};
//! use petstore_caller::client_address::{ClientAddress, TrustedProxies};
//!
//! let proxies = TrustedProxies::new(vec!["10.0.0.0/8".parse().unwrap()]);
//! let mut headers = HeaderMap::new();
//! headers.insert("x-forwarded-for", HeaderValue::from_static("192.0.2.1, 2001:db8::1, 10.0.0.2"));
//!
//! let client = proxies.client([10, 0, 0, 1].into(), &headers);
//! assert_eq!(client.to_string(), "2001:db8::/64"); // what is left of it may be forged
//!
//! let stranger: IpAddr = [198, 51, 100, 7].into();
//! assert_eq!(proxies.client(stranger, &headers), ClientAddress::from(stranger));
//! ```

use std::{
    fmt,
    net::{IpAddr, Ipv6Addr, SocketAddr},
    str::FromStr,
};

use http::{HeaderMap, HeaderName};
use ipnet::IpNet;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Network that a request came from: an IPv4 address, or the /64 of an IPv6 address, because one host may use
/// any address of its /64. An IPv4-mapped IPv6 address (RFC 4291 §2.5.5.2) is its IPv4 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClientAddress(IpAddr);

impl From<IpAddr> for ClientAddress {
    fn from(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
            address @ IpAddr::V4(_) => address,
        })
    }
}

/// Writes `192.0.2.1` or `2001:db8::/64`.
impl fmt::Display for ClientAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)?;
        if self.0.is_ipv6() { f.write_str("/64") } else { Ok(()) }
    }
}

/// A block of addresses (RFC 4632, RFC 4291): `10.0.0.0/8`, `2001:db8::/32`, or a single address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr(IpNet);

impl Cidr {
    fn parse(written: &str) -> Option<Self> {
        // ipnet's parser reads 010.0.0.0 as 10.0.0.0, which others read as 8.0.0.0.
        let address: IpAddr = written.split('/').next().unwrap_or_default().parse().ok()?;
        let block: IpNet = if written.contains('/') { written.parse().ok()? } else { address.into() };
        if block.addr() != block.network() {
            return None;
        }
        // A mapped block of IPv4 addresses: ::ffff:10.0.0.0/104 is 10.0.0.0/8.
        match (block, block.addr().to_canonical()) {
            (IpNet::V6(mapped), IpAddr::V4(address)) => {
                let prefix = mapped.prefix_len().checked_sub(96)?;
                IpNet::new(address.into(), prefix).ok().map(Self)
            }
            (block, _) => Some(Self(block)),
        }
    }

    fn contains(self, address: IpAddr) -> bool {
        self.0.contains(&address.to_canonical())
    }
}

/// Writes `10.0.0.0/8`, or `192.0.2.1` for a single address.
impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.prefix_len() == self.0.max_prefix_len() { self.0.addr().fmt(f) } else { self.0.fmt(f) }
    }
}

impl FromStr for Cidr {
    type Err = &'static str;

    fn from_str(written: &str) -> Result<Self, Self::Err> {
        Self::parse(written).ok_or(
            "must be an address or a block of addresses such as 10.0.0.0/8 or 2001:db8::/32, without host \
             bits",
        )
    }
}

/// Proxies in front of the gateway, whose `X-Forwarded-For` is trusted. By default there are none.
#[derive(Clone, Debug, Default)]
pub struct TrustedProxies(Vec<Cidr>);

impl TrustedProxies {
    /// Trusts the proxies in these blocks.
    pub const fn new(blocks: Vec<Cidr>) -> Self {
        Self(blocks)
    }

    /// Returns the client whose request `peer` forwarded.
    ///
    /// `X-Forwarded-For` counts only if `peer` is trusted. Its field lines are one list, in order, to which
    /// each proxy appends its own peer. So the client is the right-most hop that is not trusted, because the
    /// client can forge everything to the left of it. If all hops are trusted, the client is the left-most.
    /// If a hop is not an address, the client is `peer`.
    pub fn client(&self, peer: IpAddr, headers: &HeaderMap) -> ClientAddress {
        self.client_ip(peer, headers).into()
    }

    /// Returns the full address of the client, for logs. Limits use [`Self::client`].
    pub fn client_ip(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        self.forwarded_for(peer, headers).unwrap_or(peer)
    }

    fn forwarded_for(&self, peer: IpAddr, headers: &HeaderMap) -> Option<IpAddr> {
        if !self.trusts(peer) {
            return None;
        }
        let lines = headers.get_all(X_FORWARDED_FOR).into_iter().rev();
        let hops = lines.flat_map(|line| line.as_bytes().rsplit(|byte| *byte == b','));
        let mut left_most = None;
        for hop in hops.map(<[u8]>::trim_ascii).filter(|hop| !hop.is_empty()) {
            let address = parse_hop(hop)?;
            left_most = Some(address);
            if !self.trusts(address) {
                break;
            }
        }
        left_most
    }

    /// Returns `true` if the address is one of the proxies.
    pub fn trusts(&self, address: IpAddr) -> bool {
        self.0.iter().any(|block| block.contains(address))
    }
}

/// Blocks of the addresses from which something may be used: at most 16. If there are none, any address may.
///
/// They are compared with a client's full address, even of IPv6: a block may be smaller than the /64 of a
/// [`ClientAddress`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowedAddresses(Vec<Cidr>);

impl AllowedAddresses {
    /// Parses blocks, each once.
    ///
    /// # Errors
    ///
    /// If one of them is malformed, or there are more than 16. The error names the rule.
    pub fn parse<'a>(written: impl IntoIterator<Item = &'a str>) -> Result<Self, &'static str> {
        let mut blocks = Vec::new();
        for block in written {
            let block = block.parse()?;
            if !blocks.contains(&block) {
                blocks.push(block);
            }
            if blocks.len() > 16 {
                return Err("must be at most 16 addresses or blocks of addresses");
            }
        }
        Ok(Self(blocks))
    }

    /// Returns `true` if it may be used from this address.
    pub fn allow(&self, client: IpAddr) -> bool {
        self.0.is_empty() || self.0.iter().any(|block| block.contains(client))
    }

    /// Returns the blocks as they are written: without host bits, those of IPv4-mapped addresses as IPv4.
    pub fn written(&self) -> Vec<String> {
        self.0.iter().map(Cidr::to_string).collect()
    }
}

/// Parses an address with or without a port, IPv6 with or without brackets: proxies write all of these.
fn parse_hop(hop: &[u8]) -> Option<IpAddr> {
    let hop = std::str::from_utf8(hop).ok()?;
    let bare = hop.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(hop);
    bare.parse().ok().or_else(|| hop.parse().ok().map(|address: SocketAddr| address.ip()))
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::{collection::vec, prelude::*};

    use super::*;

    fn address(written: &str) -> IpAddr {
        written.parse().unwrap()
    }

    fn proxies(blocks: &[&str]) -> TrustedProxies {
        TrustedProxies::new(blocks.iter().map(|block| block.parse().unwrap()).collect())
    }

    /// Returns the client if `peer` forwards these lines of `X-Forwarded-For` and 10.0.0.0/8 is trusted.
    fn client(peer: &str, lines: &[&str]) -> String {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(X_FORWARDED_FOR, HeaderValue::from_bytes(line.as_bytes()).unwrap());
        }
        proxies(&["10.0.0.0/8"]).client(address(peer), &headers).to_string()
    }

    #[test]
    fn a_client_is_its_ipv4_address_or_the_64_of_its_ipv6_address() {
        let client = |written| ClientAddress::from(address(written)).to_string();
        assert_eq!(client("192.0.2.1"), "192.0.2.1");
        assert_eq!(client("::ffff:192.0.2.1"), "192.0.2.1");
        assert_eq!(client("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::/64");
        assert_eq!(client("2001:db8:1:2::"), client("2001:db8:1:2:ffff:ffff:ffff:ffff"));
        assert_ne!(client("2001:db8:1:2::"), client("2001:db8:1:3::"));
    }

    #[test]
    fn an_untrusted_peer_is_the_client_whatever_it_forwards() {
        assert_eq!(client("192.0.2.1", &["203.0.113.7"]), "192.0.2.1");
        assert_eq!(client("192.0.2.1", &["10.0.0.1", "203.0.113.7, 10.0.0.2"]), "192.0.2.1");
    }

    #[test]
    fn a_trusted_peer_that_forwards_nothing_is_the_client() {
        assert_eq!(client("10.0.0.1", &[]), "10.0.0.1");
        assert_eq!(client("10.0.0.1", &[""]), "10.0.0.1");
        assert_eq!(client("10.0.0.1", &[" , ,"]), "10.0.0.1");
    }

    #[test]
    fn the_client_is_the_right_most_hop_that_is_not_trusted() {
        assert_eq!(client("10.0.0.1", &["203.0.113.7"]), "203.0.113.7");
        assert_eq!(client("10.0.0.1", &["198.51.100.9, 203.0.113.7, 10.0.0.2"]), "203.0.113.7");
        assert_eq!(client("10.0.0.1", &["203.0.113.7, ,", ""]), "203.0.113.7", "empty elements do not count");
        assert_eq!(client("10.0.0.1", &["10.0.0.3,10.0.0.2"]), "10.0.0.3", "all are trusted");
    }

    #[test]
    fn all_field_lines_are_one_list_in_order() {
        assert_eq!(client("10.0.0.1", &["198.51.100.9", "203.0.113.7", "10.0.0.2"]), "203.0.113.7");
        assert_eq!(client("10.0.0.1", &["203.0.113.7", "198.51.100.9"]), "198.51.100.9");
    }

    #[test]
    fn hops_may_carry_ports_and_brackets() {
        assert_eq!(client("10.0.0.1", &["203.0.113.7:4711"]), "203.0.113.7");
        assert_eq!(client("10.0.0.1", &["[2001:db8::1]:4711"]), "2001:db8::/64");
        assert_eq!(client("10.0.0.1", &["[2001:db8::1]"]), "2001:db8::/64");
        assert_eq!(client("10.0.0.1", &["::ffff:203.0.113.7, ::ffff:10.0.0.2"]), "203.0.113.7");
    }

    #[test]
    fn a_malformed_hop_makes_the_peer_the_client_unless_the_client_wrote_it() {
        for malformed in
            ["unknown", "203.0.113", "203.0.113.7:x", "_hidden", "\"203.0.113.7\"", "fe80::1%eth0"]
        {
            assert_eq!(client("10.0.0.1", &[malformed]), "10.0.0.1");
            assert_eq!(client("10.0.0.1", &[malformed, "10.0.0.2"]), "10.0.0.1");
            assert_eq!(client("10.0.0.1", &[malformed, "203.0.113.7"]), "203.0.113.7");
        }
    }

    #[test]
    fn a_block_holds_its_addresses_and_no_others() {
        let holds = |block: &str, written| block.parse::<Cidr>().unwrap().contains(address(written));
        assert!(holds("10.0.0.0/8", "10.255.255.255") && !holds("10.0.0.0/8", "11.0.0.0"));
        assert!(holds("192.0.2.1", "192.0.2.1") && !holds("192.0.2.1", "192.0.2.2"));
        assert!(holds("2001:db8::/33", "2001:db8:7fff::") && !holds("2001:db8::/33", "2001:db8:8000::"));
        assert!(holds("0.0.0.0/0", "255.255.255.255") && !holds("0.0.0.0/0", "::1"));
        assert!(holds("::/0", "2001:db8::1") && !holds("::/0", "192.0.2.1"));
        assert!(holds("10.0.0.0/8", "::ffff:10.1.2.3") && holds("::ffff:10.0.0.0/104", "10.1.2.3"));
    }

    #[test]
    fn allowed_addresses_are_written_in_one_form_each_once() {
        let allowed = AllowedAddresses::parse([
            "192.0.2.7",
            "::ffff:192.0.2.7",
            "192.0.2.7/32",
            "::ffff:10.0.0.0/104",
            "2001:DB8:0::1",
        ]);
        let allowed = allowed.unwrap();
        assert_eq!(allowed.written(), ["192.0.2.7", "10.0.0.0/8", "2001:db8::1"]);
        assert!(allowed.allow(address("192.0.2.7")) && allowed.allow(address("::ffff:10.1.2.3")));
        assert!(allowed.allow(address("2001:db8::1")) && !allowed.allow(address("2001:db8::2")));
        assert!(AllowedAddresses::default().allow(address("192.0.2.1")), "none are any");
    }

    #[test]
    fn at_most_16_addresses_can_be_allowed() {
        let blocks: Vec<_> = (0..17).map(|host| format!("192.0.2.{host}")).collect();
        let parse = |count| AllowedAddresses::parse(blocks[..count].iter().map(String::as_str));
        assert_eq!(parse(16).unwrap().written(), blocks[..16]);
        assert!(parse(17).unwrap_err().contains("at most 16"));
        assert!(AllowedAddresses::parse(["10.0.0.1/8"]).unwrap_err().contains("without host bits"));
    }

    #[test]
    fn invalid_blocks_are_refused() {
        let faults = [
            "",
            "/",
            "10.0.0.0/",
            "10.0.0.0/33",
            "::/129",
            "10.0.0.1/8",
            "2001:db8::1/64",
            "10.0.0.0/+8",
            "010.0.0.0/8",
            "10.0.0.0/-1",
            "10.0.0.0/8/8",
            "10.0.0/8",
            "localhost",
            " 10.0.0.0/8",
            "::ffff:10.0.0.0/95",
            "::1/256",
        ];
        for fault in faults {
            assert!(fault.parse::<Cidr>().is_err(), "{fault}");
        }
    }

    fn hop() -> impl Strategy<Value = String> {
        prop_oneof!["[0-9a-f:.,\\[\\] ]{0,40}", "\\PC{0,20}"]
    }

    proptest! {
        #[test]
        fn no_header_makes_it_panic(lines in vec(vec(hop(), 0..4), 0..4)) {
            let mut headers = HeaderMap::new();
            for line in lines.iter().map(|hops| hops.join(",")) {
                headers.append(X_FORWARDED_FOR, HeaderValue::from_bytes(line.as_bytes()).unwrap());
            }
            let _ = proxies(&["0.0.0.0/0", "::/0"]).client(address("10.0.0.1"), &headers);
        }

        #[test]
        fn no_text_makes_parsing_a_block_panic(text in "[0-9a-f:./]{0,45}|\\PC{0,20}") {
            let _ = text.parse::<Cidr>();
        }

        #[test]
        fn the_trusted_proxys_hop_decides_whatever_a_client_forwards(forged in "[ -~]{0,60}") {
            prop_assert_eq!(client("10.0.0.1", &[&forged, "203.0.113.7"]), "203.0.113.7");
            prop_assert_eq!(client("192.0.2.1", &[&forged]), "192.0.2.1");
        }
    }
}
