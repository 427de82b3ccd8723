//! `--endpoint auto`: finds the metadata service.

use std::net::{SocketAddr, TcpStream};
use std::path::Path;

use scheduled_events::imds::ENDPOINT;
use scheduled_events::limits::CONNECT_TIMEOUT;

use super::leases::{Lease, discover as leases};
use crate::output::diagnose;
use crate::output::format::{now, printable};

/// The value of `--endpoint` that asks for a search.
pub(crate) const AUTO: &str = "auto";

/// The address of [`ENDPOINT`].
const AZURE: SocketAddr = SocketAddr::new(
    std::net::IpAddr::V4(std::net::Ipv4Addr::new(169, 254, 169, 254)),
    80,
);

/// The endpoint for `--endpoint auto`, and whether it needs no permission: Azure's address if it
/// answers, otherwise that of the newest lease, and without a lease Azure's address, since the
/// network may not be up yet.
pub(crate) fn automatic() -> (String, bool) {
    choose(
        TcpStream::connect_timeout(&AZURE, CONNECT_TIMEOUT).is_ok(),
        Path::new("/"),
    )
}

fn choose(answers: bool, root: &Path) -> (String, bool) {
    if answers {
        return (ENDPOINT.to_owned(), true);
    }
    let leases = leases(root, now());
    let Some(lease) = leases.first() else {
        diagnose(
            "warning",
            &format!(
                "{ENDPOINT} does not answer, and no DHCP lease has option 245; using it nevertheless"
            ),
        );
        return (ENDPOINT.to_owned(), true);
    };
    let file = printable(&lease.file.display().to_string());
    diagnose(
        "note",
        &format!(
            "{ENDPOINT} does not answer; using {}, from {file}",
            lease.url()
        ),
    );
    if !lease.is_roots {
        diagnose("warning", &not_roots(lease));
    }
    (lease.url(), lease.is_roots)
}

pub(crate) fn not_roots(lease: &Lease) -> String {
    format!(
        "{} does not belong to root alone",
        printable(&lease.file.display().to_string())
    )
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn azures_address_comes_first_and_last() {
        let root =
            std::env::temp_dir().join(format!("scheduled-events-auto-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        let folder = root.join("run/systemd/netif/leases");
        fs::create_dir_all(&folder).unwrap();
        let azure = (ENDPOINT.to_owned(), true);
        assert_eq!(choose(false, &root), azure);
        fs::write(folder.join("2"), "OPTION_245=a83f8110\n").unwrap();
        assert_eq!(choose(true, &root), azure);
        let (url, is_allowed) = choose(false, &root);
        assert_eq!(url, "http://168.63.129.16");
        let is_roots = leases(&root, now())
            .first()
            .is_some_and(|lease| lease.is_roots);
        assert_eq!(is_allowed, is_roots);
        assert_eq!(ENDPOINT, format!("http://{}", AZURE.ip()));
        fs::remove_dir_all(root).unwrap();
    }
}
