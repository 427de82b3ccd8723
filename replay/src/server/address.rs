//! The addresses of a server: one for each machine, and how clients reach them.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The address to connect to for a listener that may listen on all addresses.
pub(super) fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(match address.ip() {
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    address
}

/// The address of a machine: the port of the first one plus the machine's number, or a free port.
pub(super) fn address_of(first: SocketAddr, number: u32) -> io::Result<SocketAddr> {
    let port = match first.port() {
        0 => Some(0),
        port => u16::try_from(number)
            .ok()
            .and_then(|number| port.checked_add(number)),
    };
    let port = port.ok_or_else(|| {
        let message = "there are fewer ports than machines from this one on; use port 0";
        io::Error::new(io::ErrorKind::InvalidInput, message)
    })?;
    Ok(SocketAddr::new(first.ip(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_on_all_addresses_is_reached_through_loopback() {
        assert_eq!(
            reachable("0.0.0.0:80".parse().expect("address")).to_string(),
            "127.0.0.1:80"
        );
        assert_eq!(
            reachable("[::]:80".parse().expect("address")).to_string(),
            "[::1]:80"
        );
        assert_eq!(
            reachable("10.1.2.3:80".parse().expect("address")).to_string(),
            "10.1.2.3:80"
        );
    }
}
