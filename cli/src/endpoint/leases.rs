//! The address of the metadata service outside a virtual network: DHCP option 245 in the lease
//! files of DHCP clients.
//!
//! | client | files | form of the option |
//! |---|---|---|
//! | systemd-networkd | `/run/systemd/netif/leases/*` | `OPTION_245=a83f8110` |
//! | `NetworkManager` | `/run/NetworkManager/devices/*`, `/var/lib/NetworkManager/*.lease` | `private_245=a8:3f:81:10`, or that of the client it runs |
//! | dhclient | `/var/lib/dhcp/*.leases`, `/var/lib/dhclient/*.leases` | `option unknown-245 a8:3f:81:10;` in the last lease |
//! | dhcpcd | `/var/lib/dhcpcd/*.lease`, `/var/db/dhcpcd/*.lease` | the server's message itself |
//!
//! netplan has no files of its own: it configures systemd-networkd or `NetworkManager`. dhclient
//! and dhcpcd keep the option only if they request it, which distributions for Azure configure.

use std::fs;
use std::io::Read;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use scheduled_events_core::UnixSeconds;

use scheduled_events::files::{belongs_to_root, open_no_link};
use scheduled_events::limits::LEASE_FILE_MAX;

/// The number of the DHCP option.
const OPTION: u8 = 245;

/// An address and the lease that has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lease {
    pub(crate) address: Ipv4Addr,
    pub(crate) file: PathBuf,
    /// Whether the file belongs to root and no other user can write it.
    pub(crate) is_roots: bool,
    written: SystemTime,
}

impl Lease {
    /// The endpoint.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

/// The form in which a client writes its leases.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Lines of names and values.
    Lines,
    /// Blocks `lease { … }`, the newest last.
    Blocks,
    /// Blocks, or otherwise lines: `NetworkManager` keeps the files of several clients in one
    /// folder.
    Either,
    /// A DHCP message.
    Message,
}

/// The folders of lease files below the root, with the suffixes of the files' names.
const FOLDERS: [(&str, &[&str], Form); 9] = [
    ("run/systemd/netif/leases", &[""], Form::Lines),
    ("run/NetworkManager/devices", &[""], Form::Lines),
    (
        "var/lib/NetworkManager",
        &[".lease", ".leases"],
        Form::Either,
    ),
    ("var/lib/dhcp", &[".lease", ".leases"], Form::Blocks),
    ("var/lib/dhclient", &[".lease", ".leases"], Form::Blocks),
    ("var/lib/dhcp3", &[".lease", ".leases"], Form::Blocks),
    ("var/lib/dhcpcd", &[".lease"], Form::Message),
    ("var/lib/dhcpcd5", &[".lease"], Form::Message),
    ("var/db/dhcpcd", &[".lease"], Form::Message),
];

/// The leases below `root` that have the option and have not expired at `now`, the newest first.
///
/// Files that cannot be read are left out, and so are links.
pub(crate) fn discover(root: &Path, now: UnixSeconds) -> Vec<Lease> {
    let mut leases = Vec::new();
    for (folder, ends, form) in FOLDERS {
        let Ok(entries) = fs::read_dir(root.join(folder)) else {
            continue;
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if !name.starts_with('.') && ends.iter().any(|end| name.ends_with(end)) {
                leases.extend(read(entry.path(), form, now));
            }
        }
    }
    // The order of two equally new leases must not depend on the file system.
    leases.sort_by(|one, other| {
        other
            .written
            .cmp(&one.written)
            .then_with(|| one.file.cmp(&other.file))
    });
    leases
}

fn read(path: PathBuf, form: Form, now: UnixSeconds) -> Option<Lease> {
    let file = open_no_link(&path).ok()?;
    let metadata = file.metadata().ok().filter(fs::Metadata::is_file)?;
    let mut content = Vec::new();
    file.take(LEASE_FILE_MAX).read_to_end(&mut content).ok()?;
    let text = || String::from_utf8_lossy(&content);
    let address = match form {
        Form::Lines => in_lines(&text()),
        Form::Blocks => in_blocks(&text(), now),
        Form::Either => in_blocks(&text(), now).or_else(|| in_lines(&text())),
        Form::Message => in_message(&content),
    };
    let address = address.filter(|address| is_host(*address))?;
    let written = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
    Some(Lease {
        address,
        is_roots: belongs_to_root(&metadata),
        written,
        file: path,
    })
}

/// Whether a service of another machine can have the address.
fn is_host(address: Ipv4Addr) -> bool {
    !(address.is_unspecified()
        || address.is_loopback()
        || address.is_multicast()
        || address.octets()[0] >= 240)
}

/// A file of systemd-networkd, or of `NetworkManager` in the section `[dhcp4]`.
fn in_lines(text: &str) -> Option<Ipv4Addr> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once('=')?;
        match name.trim() {
            "OPTION_245" | "private_245" | "unknown_245" => in_hex(value),
            _ => None,
        }
    })
}

/// A file of dhclient: the last lease that has the option and has not expired.
fn in_blocks(text: &str, now: UnixSeconds) -> Option<Ipv4Addr> {
    let mut found = None;
    let (mut address, mut is_over) = (None, false);
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default().trim();
        let statement = line.strip_suffix(';').unwrap_or(line).trim();
        if line.starts_with("lease") && line.ends_with('{') {
            (address, is_over) = (None, false);
        } else if line == "}" {
            // A later lease of the same file replaces an earlier one.
            found = address.take().filter(|_| !is_over).or(found);
        } else if let Some(value) = statement.strip_prefix("option unknown-245 ") {
            address = in_hex(value).or_else(|| in_text(value));
        } else if let Some(time) = statement.strip_prefix("expire ") {
            is_over = expiry(time).is_some_and(|expiry| expiry < now);
        }
    }
    found
}

/// `4 2022/04/12 02:00:00` in UTC, or `epoch 1649728800`; `None` for `never`.
fn expiry(text: &str) -> Option<UnixSeconds> {
    let mut words = text.split_whitespace();
    let first = words.next()?;
    if first == "epoch" {
        return words.next()?.parse().ok().map(UnixSeconds);
    }
    let (date, time) = (words.next()?, words.next()?);
    UnixSeconds::parse(&format!("{}T{time}Z", date.replace('/', "-")))
}

/// Four bytes in hexadecimal, with colons or without: `a8:3f:81:10`. dhclient leaves out leading
/// zeros.
fn in_hex(text: &str) -> Option<Ipv4Addr> {
    let text = text.trim();
    let byte = |digits: &str| {
        let is_byte = (1..=2).contains(&digits.len())
            && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        is_byte
            .then(|| u8::from_str_radix(digits, 16).ok())
            .flatten()
    };
    let bytes: Option<Vec<u8>> = if text.contains(':') {
        text.split(':').map(byte).collect()
    } else {
        text.as_bytes()
            .chunks(2)
            .map(|digits| byte(std::str::from_utf8(digits).ok()?))
            .collect()
    };
    <[u8; 4]>::try_from(bytes?).ok().map(Ipv4Addr::from)
}

/// Four printable bytes, which dhclient writes as text: `"d?A\""`.
fn in_text(text: &str) -> Option<Ipv4Addr> {
    let inner = text.trim().strip_prefix('"')?.strip_suffix('"')?;
    let mut bytes = Vec::new();
    let mut rest = inner.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(if byte == b'\\' { rest.next()? } else { byte });
    }
    <[u8; 4]>::try_from(bytes).ok().map(Ipv4Addr::from)
}

/// A DHCP message (RFC 2131, section 2): 236 bytes, a magic number, and options of a code, a length
/// and a value each.
fn in_message(message: &[u8]) -> Option<Ipv4Addr> {
    const MAGIC: [u8; 4] = [99, 130, 83, 99];
    let mut options = message.get(236..)?.strip_prefix(&MAGIC)?;
    loop {
        let (&code, rest) = options.split_first()?;
        match code {
            0 => options = rest,
            255 => return None,
            _ => {
                let (&length, rest) = rest.split_first()?;
                let value = rest.get(..length.into())?;
                if code == OPTION {
                    return <[u8; 4]>::try_from(value).ok().map(Ipv4Addr::from);
                }
                options = rest.get(length.into()..)?;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIRE_SERVER: Ipv4Addr = Ipv4Addr::new(168, 63, 129, 16);
    const NOW: UnixSeconds = UnixSeconds(1_649_716_018); // 2022-04-11T22:26:58Z

    fn message(options: &[u8]) -> Vec<u8> {
        [&[0; 236][..], &[99, 130, 83, 99], options].concat()
    }

    #[test]
    fn each_form_is_read() {
        assert_eq!(
            in_lines("# This is private data.\nADDRESS=10.0.0.4\nOPTION_245=a83f8110\n"),
            Some(WIRE_SERVER)
        );
        assert_eq!(
            in_lines("[dhcp4]\nprivate_245=a8:3f:81:10\n"),
            Some(WIRE_SERVER)
        );
        let lease = "lease {\n  interface \"eth0\";\n  option unknown-245 a8:3f:81:10;\n  expire 2 2022/04/12 02:00:00;\n}\n";
        assert_eq!(in_blocks(lease, NOW), Some(WIRE_SERVER));
        assert_eq!(
            in_message(&message(&[53, 1, 5, 0, 245, 4, 168, 63, 129, 16, 255])),
            Some(WIRE_SERVER)
        );
    }

    #[test]
    fn the_last_lease_that_is_not_over_counts() {
        let lease = |value: &str, expire: &str| {
            format!("lease {{\n option unknown-245 {value};\n expire {expire};\n}}\n")
        };
        let over = lease("a:0:0:1", "1 2022/04/11 22:26:57");
        let open = lease("a:0:0:2", "1 2022/04/11 22:26:59");
        assert_eq!(
            in_blocks(&(over.clone() + &open), NOW),
            Some(Ipv4Addr::new(10, 0, 0, 2))
        );
        assert_eq!(
            in_blocks(&(open.clone() + &over), NOW),
            Some(Ipv4Addr::new(10, 0, 0, 2))
        );
        assert_eq!(in_blocks(&over, NOW), None);
        assert_eq!(
            in_blocks(&lease("a:0:0:3", "never"), NOW),
            Some(Ipv4Addr::new(10, 0, 0, 3))
        );
        let epoch = lease("a:0:0:4", "epoch 1649716017; # Mon Apr 11 22:26:57 2022");
        assert_eq!(in_blocks(&epoch, NOW), None);
        // A block that is incomplete, as while it is written.
        assert_eq!(
            in_blocks(&(open + "lease {\n option unknown-245 a:0:0:9;\n"), NOW),
            Some(Ipv4Addr::new(10, 0, 0, 2))
        );
        assert_eq!(
            in_blocks(&lease(r#""d?A\"""#, "never"), NOW),
            Some(Ipv4Addr::new(100, 63, 65, 34))
        );
    }

    #[test]
    fn what_is_no_address_is_left_out() {
        for text in [
            "",
            "a83f81",
            "a83f811000",
            "a8:3f:81",
            "a8:3f:81:100",
            "a8:3f:81:1g",
            "a8-3f-81-10",
            "::::",
            "+8:3f:81:10",
            "ä3f811",
        ] {
            assert_eq!(in_hex(text), None, "{text}");
        }
        for address in [
            "0.0.0.0",
            "127.0.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "240.0.0.1",
        ] {
            assert!(!is_host(address.parse().unwrap()), "{address}");
        }
        for options in [
            &[][..],
            &[255],
            &[245],
            &[245, 4, 1, 2, 3],
            &[245, 3, 1, 2, 3, 255],
            &[1, 200, 0],
            &[0, 0],
        ] {
            assert_eq!(in_message(&message(options)), None, "{options:?}");
        }
        assert_eq!(in_message(&[0; 236]), None);
        assert_eq!(in_message(&[0; 300]), None);
    }
}
