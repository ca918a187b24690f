//! Which addresses another manager may have.
//!
//! Where members are is the word of a user, and a manager stands in a network whose other
//! machines that user may not reach: its node's metadata service, the database next door. So
//! only public addresses are called, and what the operator lists. Must be judged on the address
//! that is connected to: a name may mean another one a moment later.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The setting that permits more.
pub const SETTING: &str = "peer_networks";

/// What is permitted beside public addresses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AddressPolicy {
    networks: Vec<Network>,
    /// In lower case, without a dot at the end.
    names: BTreeSet<String>,
    loopback: bool,
}

/// An address that is not permitted, with the name that it was found under.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} is not permitted; the operator of this manager can list it in {SETTING}", place(.host, .address))]
pub struct NotPermitted {
    pub host: String,
    pub address: IpAddr,
}

fn place(host: &str, address: &IpAddr) -> String {
    if bare(host).parse::<IpAddr>().is_ok() {
        format!("the address {address}")
    } else {
        format!("the address {address} of {host}")
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Network {
    base: IpAddr,
    bits: u8,
}

impl AddressPolicy {
    /// `entries` are networks (`10.1.0.0/16`), addresses and exact names. `loopback` is for a
    /// manager that itself listens there: who reaches it reaches its neighbours anyway.
    pub fn parse<'a>(entries: impl IntoIterator<Item = &'a str>, loopback: bool) -> Result<Self, String> {
        let mut policy = Self { loopback, ..Self::default() };
        for entry in entries.into_iter().map(str::trim).filter(|entry| !entry.is_empty()) {
            if let Some(network) = Network::parse(entry) {
                policy.networks.push(network);
            } else if is_host_name(entry) {
                policy.names.insert(plain(entry));
            } else {
                return Err(format!("'{entry}' is no network such as 10.1.0.0/16, no address and no name of a host"));
            }
        }
        Ok(policy)
    }

    /// Whether `host` may be called at `address`. A name that the operator listed may be on a
    /// private address; it still cannot be a multicast group or the metadata service.
    pub fn permits(&self, host: &str, address: IpAddr) -> Result<(), NotPermitted> {
        let listed = self.names.contains(&plain(host)) && is_somebody(address.to_canonical());
        if listed || allowed(address, self) { Ok(()) } else { Err(NotPermitted { host: host.to_owned(), address }) }
    }
}

/// Whether an address may be called, whatever its name.
pub fn allowed(address: IpAddr, policy: &AddressPolicy) -> bool {
    // `::ffff:10.0.0.1` connects to 10.0.0.1.
    let address = address.to_canonical();
    let listed = |address: IpAddr| policy.networks.iter().any(|network| network.contains(address));
    if listed(address) || (policy.loopback && address.is_loopback()) {
        return true;
    }
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => match embedded(address) {
            Some(inner) => is_public_v4(inner) || listed(inner.into()),
            None => is_public_v6(address),
        },
    }
}

impl Network {
    fn parse(text: &str) -> Option<Self> {
        let (base, bits) = match text.split_once('/') {
            Some((base, bits)) => (base, Some(bits.parse().ok()?)),
            None => (text, None),
        };
        let base: IpAddr = base.parse().ok()?;
        let most = if base.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(most);
        (bits <= most).then_some(Self { base, bits })
    }

    fn contains(self, address: IpAddr) -> bool {
        match (self.base, address) {
            (IpAddr::V4(base), IpAddr::V4(address)) => within_v4(address, base, self.bits),
            (IpAddr::V6(base), IpAddr::V6(address)) => within_v6(address, base, self.bits),
            _ => false,
        }
    }
}

fn within_v4(address: Ipv4Addr, base: Ipv4Addr, bits: u8) -> bool {
    let different = address.to_bits() ^ base.to_bits();
    different.checked_shr(32 - u32::from(bits)).unwrap_or(0) == 0
}

fn within_v6(address: Ipv6Addr, base: Ipv6Addr, bits: u8) -> bool {
    let different = address.to_bits() ^ base.to_bits();
    different.checked_shr(128 - u32::from(bits)).unwrap_or(0) == 0
}

/// Networks that no machine elsewhere on the internet is in (RFC 6890 and its kin).
const SPECIAL_V4: [([u8; 4], u8); 15] = [
    ([0, 0, 0, 0], 8),
    ([10, 0, 0, 0], 8),
    ([100, 64, 0, 0], 10),
    ([127, 0, 0, 0], 8),
    ([169, 254, 0, 0], 16),
    ([172, 16, 0, 0], 12),
    ([192, 0, 0, 0], 24),
    ([192, 0, 2, 0], 24),
    ([192, 88, 99, 0], 24),
    ([192, 168, 0, 0], 16),
    ([198, 18, 0, 0], 15),
    ([198, 51, 100, 0], 24),
    ([203, 0, 113, 0], 24),
    ([224, 0, 0, 0], 4),
    ([240, 0, 0, 0], 4),
];

fn is_public_v4(address: Ipv4Addr) -> bool {
    !SPECIAL_V4.iter().any(|(base, bits)| within_v4(address, (*base).into(), *bits))
}

/// Parts of the global unicast space that are set aside: protocol assignments with Teredo,
/// ORCHID and benchmarks, and two for documentation.
const SPECIAL_V6: [(Ipv6Addr, u8); 3] = [
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),
];

const GLOBAL_V6: Ipv6Addr = Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0);

fn is_public_v6(address: Ipv6Addr) -> bool {
    within_v6(address, GLOBAL_V6, 3) && !SPECIAL_V6.iter().any(|(base, bits)| within_v6(address, *base, *bits))
}

/// The IPv4 address that a gateway or the kernel would make of it: IPv4-compatible, NAT64, 6to4.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let parts = address.segments();
    let from = |high: u16, low: u16| Some(Ipv4Addr::from_bits((u32::from(high) << 16) | u32::from(low)));
    match parts {
        [0 | 0x64, 0 | 0xff9b, 0, 0, 0, 0, high, low] if (parts[0] == 0) == (parts[1] == 0) => from(high, low),
        [0x2002, high, low, ..] => from(high, low),
        _ => None,
    }
}

/// Whether one machine can have that address, and not only on this link.
fn is_somebody(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            let [first, ..] = address.octets();
            first != 0 && first < 224 && !address.is_link_local()
        }
        IpAddr::V6(address) => match embedded(address).filter(|_| !address.is_loopback()) {
            Some(inner) => is_somebody(inner.into()),
            None => !address.is_multicast() && !address.is_unicast_link_local(),
        },
    }
}

fn is_host_name(text: &str) -> bool {
    let text = text.strip_suffix('.').unwrap_or(text);
    let label = |label: &str| {
        !label.is_empty() && label.len() <= 63 && label.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
    };
    // A name that ends in a number is a mistyped address.
    let last = text.rsplit('.').next().unwrap_or_default();
    text.len() <= 253 && text.split('.').all(label) && !last.bytes().all(|b| b.is_ascii_digit())
}

fn plain(host: &str) -> String {
    host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase()
}

/// The host of an address, without the brackets of IPv6.
pub(super) fn bare(host: &str) -> &str {
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_address_gains_nothing_by_hiding_in_a_longer_one(bits: u32, listed: bool) {
            let policy = policy(if listed { &["10.0.0.0/8", "fd00::/8"] } else { &[] }, false);
            let plain = allowed(Ipv4Addr::from_bits(bits).into(), &policy);
            let (inner, high) = (u128::from(bits), |part: u128, shift: u32| part << shift);
            let forms = [
                high(0xffff, 32) | inner,
                inner,
                high(0x64, 112) | high(0xff9b, 96) | inner,
                high(0x2002, 112) | high(inner, 80) | 1,
            ];
            for form in forms.map(Ipv6Addr::from_bits) {
                prop_assert_eq!(allowed(form.into(), &policy), plain, "{}", form);
            }
        }
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    fn policy(entries: &[&str], loopback: bool) -> AddressPolicy {
        AddressPolicy::parse(entries.iter().copied(), loopback).expect("a policy")
    }

    const PRIVATE: [&str; 44] = [
        "0.0.0.0",
        "0.1.2.3",
        "10.0.0.1",
        "100.64.0.1",
        "100.127.255.255",
        "127.0.0.1",
        "127.255.255.254",
        "169.254.0.1",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.8",
        "192.0.2.1",
        "192.88.99.1",
        "192.168.255.1",
        "198.18.0.1",
        "198.19.255.255",
        "198.51.100.7",
        "203.0.113.7",
        "224.0.0.1",
        "239.255.255.255",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "fe80::1",
        "fec0::1",
        "fc00::1",
        "fdff::1",
        "fd00:ec2::254",
        "ff02::1",
        "100::1",
        "5f00::1",
        "2001::1",
        "2001:2::1",
        "2001:db8::1",
        "3fff::1",
        "::ffff:10.0.0.1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "::10.0.0.1",
        "64:ff9b::10.0.0.1",
        "64:ff9b:1::8.8.8.8",
        "2002:a9fe:a9fe::1",
    ];

    const PUBLIC: [&str; 15] = [
        "1.1.1.1",
        "9.255.255.255",
        "11.0.0.1",
        "100.63.255.255",
        "100.128.0.1",
        "172.15.0.1",
        "172.32.0.1",
        "192.0.1.1",
        "198.17.0.1",
        "198.20.0.1",
        "223.255.255.255",
        "2606:4700::1111",
        "::ffff:8.8.8.8",
        "64:ff9b::8.8.8.8",
        "2002:808:808::1",
    ];

    #[test]
    fn only_public_addresses_are_allowed_unless_the_operator_says_more() {
        let strict = AddressPolicy::default();
        for address in PRIVATE {
            assert!(!allowed(ip(address), &strict), "{address}");
        }
        for address in PUBLIC {
            assert!(allowed(ip(address), &strict), "{address}");
        }
    }

    #[test]
    fn what_the_operator_lists_is_allowed_and_nothing_beside_it() {
        let listed = policy(&["10.1.0.0/16", "192.168.7.7", "fd00:1::/32", " "], false);
        for good in ["10.1.255.1", "192.168.7.7", "fd00:1:2::3", "::ffff:10.1.0.1", "64:ff9b::10.1.0.1"] {
            assert!(allowed(ip(good), &listed), "{good}");
        }
        for bad in ["10.2.0.1", "192.168.7.8", "fd00:2::1", "127.0.0.1", "::ffff:10.2.0.1"] {
            assert!(!allowed(ip(bad), &listed), "{bad}");
        }
        assert!(allowed(ip("169.254.169.254"), &policy(&["0.0.0.0/0"], false)));
        assert!(!allowed(ip("::ffff:169.254.169.254"), &policy(&["::/0"], false)), "it is an IPv4 address");
    }

    #[test]
    fn loopback_is_for_a_manager_that_listens_there() {
        let here = policy(&[], true);
        for address in ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"] {
            assert!(allowed(ip(address), &here), "{address}");
        }
        for address in PRIVATE.into_iter().filter(|address| !ip(address).to_canonical().is_loopback()) {
            assert!(!allowed(ip(address), &here), "{address}");
        }
    }

    #[test]
    fn a_listed_name_may_be_private_but_not_the_metadata_service() {
        let listed = policy(&["Peer.Example.ORG.", "peer"], false);
        for host in ["peer.example.org", "PEER.example.org.", "peer"] {
            assert_eq!(listed.permits(host, ip("10.0.0.1")), Ok(()), "{host}");
            assert_eq!(listed.permits(host, ip("::1")), Ok(()), "{host}");
            for never in ["169.254.169.254", "::ffff:169.254.169.254", "0.0.0.0", "::", "224.0.0.1", "fe80::1"] {
                assert!(listed.permits(host, ip(never)).is_err(), "{host} {never}");
            }
        }
        assert!(listed.permits("other.example.org", ip("10.0.0.1")).is_err());
        let refused = listed.permits("x.peer", ip("10.0.0.1")).expect_err("exact names only").to_string();
        assert!(refused.contains("10.0.0.1 of x.peer") && refused.contains("peer_networks"), "{refused}");
    }

    #[test]
    fn a_list_that_makes_no_sense_is_refused() {
        for wrong in ["10.0.0.0/33", "::/129", "10.0.0.0/", "1.2.3", "*.example.org", "http://x", "a b", "a..b"] {
            assert!(AddressPolicy::parse([wrong], false).is_err(), "{wrong}");
        }
    }
}
