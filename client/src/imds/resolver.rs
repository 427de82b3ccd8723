//! Host names, resolved without a thread.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;

/// How many addresses of a host name are tried.
const ADDRESSES_MAX: usize = 8;

/// Resolves the endpoint's host without another thread, which the system may refuse. The HTTP library's own resolver starts one
/// for each connection, and panics without it.
///
/// An address needs no look-up. The look-up of a name is not bounded by the request's timeout; a watcher abandons a request that
/// takes too long for that.
#[derive(Debug)]
pub(super) struct DirectResolver;

impl Resolver for DirectResolver {
    fn resolve(
        &self,
        uri: &Uri,
        _: &Config,
        _: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
        let port = uri.port_u16().unwrap_or(80);
        let mut addresses = self.empty();
        if let Ok(address) = host.parse::<IpAddr>() {
            addresses.push(SocketAddr::new(address, port));
            return Ok(addresses);
        }
        let found = (host, port)
            .to_socket_addrs()
            .map_err(|_| ureq::Error::HostNotFound)?;
        // The list has a fixed capacity.
        for address in found.take(ADDRESSES_MAX) {
            addresses.push(address);
        }
        if addresses.is_empty() {
            Err(ureq::Error::HostNotFound)
        } else {
            Ok(addresses)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn hosts_are_resolved_whether_they_are_addresses_or_names() {
        for (endpoint, first) in [
            ("http://127.0.0.1", "127.0.0.1:80"),
            ("http://[::1]:8080", "[::1]:8080"),
            ("http://localhost:81", "127.0.0.1:81"),
        ] {
            let timeout = NextTimeout {
                after: Duration::from_secs(1).into(),
                ..NextTimeout::default()
            };
            let found = DirectResolver
                .resolve(&endpoint.parse().unwrap(), &Config::default(), timeout)
                .unwrap();
            assert!(
                found.iter().any(|address| address.to_string() == first),
                "{endpoint}: {found:?}"
            );
        }
    }
}
