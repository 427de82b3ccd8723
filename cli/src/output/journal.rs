//! The journal of systemd: which streams lead to it, the priorities of lines, and records with
//! fields of their own.
//!
//! systemd sets `JOURNAL_STREAM` for a service whose output it sends to the journal. The journal
//! reads the priority of a line from a prefix, `<4>` for a warning. The program sends a record
//! about an event through the journal's own protocol, which adds the field `SCHEDULED_EVENTS_ID`,
//! and prints it like any other line where that is not possible.

use std::env;
use std::io;
use std::sync::OnceLock;

use crate::platform::{self, DatagramSocket};

/// The journal's socket.
const SOCKET: &str = "/run/systemd/journal/socket";

/// Overrides [`SOCKET`], for containers that have it elsewhere.
const SOCKET_VARIABLE: &str = "SCHEDULED_EVENTS_JOURNAL";

/// The priority of a line, with syslog's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Priority {
    Error = 3,
    Warning = 4,
    Notice = 5,
    Info = 6,
}

impl Priority {
    /// The priority of a diagnostic with this label. A label that is no severity belongs to a
    /// command's output.
    pub(crate) fn of_label(label: &str) -> Self {
        match label {
            "error" => Self::Error,
            "warning" => Self::Warning,
            "note" => Self::Notice,
            _ => Self::Info,
        }
    }

    /// The start of a line of this priority.
    pub(crate) fn prefix(self) -> String {
        format!("<{}>", self as u8)
    }
}

/// Whether standard error leads to the journal.
pub(crate) fn has_errors() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    *HAS.get_or_init(|| platform::is_stream(&io::stderr(), &stream()))
}

/// Whether standard output leads to the journal.
pub(crate) fn has_output() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    *HAS.get_or_init(|| platform::is_stream(&io::stdout(), &stream()))
}

fn stream() -> String {
    env::var("JOURNAL_STREAM").unwrap_or_default()
}

/// Sends a line with these fields. Returns whether the journal accepted it; if not, the caller
/// prints it.
pub(crate) fn send(priority: Priority, message: &str, fields: &[(&str, &str)]) -> bool {
    static JOURNAL: OnceLock<Option<DatagramSocket>> = OnceLock::new();
    let connect = || {
        let path = env::var_os(SOCKET_VARIABLE).unwrap_or_else(|| SOCKET.into());
        DatagramSocket::connect(path.as_ref()).ok()
    };
    let Some(socket) = JOURNAL.get_or_init(connect) else {
        return false;
    };
    let level = (priority as u8).to_string();
    let common = [
        ("MESSAGE", message),
        ("PRIORITY", level.as_str()),
        ("SYSLOG_IDENTIFIER", "scheduled-events"),
    ];
    let mut datagram = Vec::new();
    for (name, value) in common.iter().chain(fields) {
        write_field(name, value, &mut datagram);
    }
    socket.send(&datagram)
}

/// Writes a field. A value of several lines needs its length, so that no value can add a field.
fn write_field(name: &str, value: &str, datagram: &mut Vec<u8>) {
    datagram.extend_from_slice(name.as_bytes());
    if value.contains('\n') {
        datagram.push(b'\n');
        datagram.extend_from_slice(&(value.len() as u64).to_le_bytes());
    } else {
        datagram.push(b'=');
    }
    datagram.extend_from_slice(value.as_bytes());
    datagram.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_of_several_lines_adds_no_field() {
        let mut datagram = Vec::new();
        write_field("SCHEDULED_EVENTS_ID", "a=b", &mut datagram);
        write_field("SCHEDULED_EVENTS_ID", "c\nPRIORITY=0", &mut datagram);
        assert_eq!(
            datagram,
            b"SCHEDULED_EVENTS_ID=a=b\nSCHEDULED_EVENTS_ID\n\x0c\0\0\0\0\0\0\0c\nPRIORITY=0\n"
        );
    }
}
