//! `discover`: finds the metadata service outside a virtual network.

use scheduled_events::imds::ENDPOINT;

use crate::args::DiscoverArgs;
use crate::endpoint::automatic::not_roots;
use crate::endpoint::leases::discover as leases;
use crate::error::CommandError;
use crate::output::format::{now, printable};
use crate::output::{diagnose, print};

pub(crate) fn discover(args: &DiscoverArgs) -> Result<(), CommandError> {
    let leases = leases(&args.root, now());
    let Some(lease) = leases.first() else {
        return Err(CommandError::endpoint(format!(
            "no lease file below {} has DHCP option 245; in a virtual network, the address is {ENDPOINT}",
            args.root.display()
        )));
    };
    for other in leases.iter().filter(|other| other.address != lease.address) {
        let (url, file) = (other.url(), printable(&other.file.display().to_string()));
        diagnose("note", &format!("{file}, which is older, has {url}"));
    }
    if !lease.is_roots {
        diagnose(
            "warning",
            &(not_roots(lease) + "; using it needs --allow-endpoint"),
        );
    }
    print(format!("{}\n", lease.url()).as_bytes())
}
