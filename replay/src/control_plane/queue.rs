//! The Storage queue that Event Grid fills: its address, and the two requests to it.
//!
//! The queue is a real one: Azurite, Microsoft's emulator of Azure Storage, by plain HTTP. No key
//! is needed here, since a shared access signature is part of the address. For Azurite's well-known
//! account it is a constant.

use std::error::Error;
use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::str::FromStr;
use std::time::{Duration, Instant};

/// The account that every Azurite has.
const EMULATOR_ACCOUNT: &str = "devstoreaccount1";

/// A signature for all queues of that account, created with its well-known key. It expires in 2099
/// and opens nothing else. A test of `tests/python` creates it again.
const EMULATOR_SAS: &str = "sv=2021-08-06&ss=q&srt=sco&sp=rwdlacup&se=2099-01-01T00:00:00Z&spr=https,http&\
                            sig=DMi2qz7%2BumV1FVw33iKTbOh77E1m5IHDvGO7yvUt1jo%3D";

/// The version of the protocol.
const VERSION: &str = "2021-08-06";

/// The time limit of a connection attempt, and of the rest of a request.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
const TIMEOUT: Duration = Duration::from_secs(10);

/// The address of a Storage queue, with the signature that gives access to it.
///
/// Without a query, it is a queue of Azurite's well-known account. `Display` leaves out the query,
/// which may be a secret.
///
/// ```
/// use scheduled_events_replay::QueueAddress;
///
/// let queue: QueueAddress = "http://127.0.0.1:10001/devstoreaccount1/events".parse()?;
/// assert_eq!(queue.to_string(), "http://127.0.0.1:10001/devstoreaccount1/events");
/// assert!(queue.with_access().starts_with("http://127.0.0.1:10001/devstoreaccount1/events?sv="));
/// assert!("https://account.queue.core.windows.net/events".parse::<QueueAddress>().is_err());
/// # Ok::<(), scheduled_events_replay::QueueAddressError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct QueueAddress {
    url: String,
    query: String,
}

/// Why a text is not the address of a queue, and the form to write instead.
///
/// ```
/// use scheduled_events_replay::QueueAddress;
///
/// let error = "127.0.0.1:10001".parse::<QueueAddress>().unwrap_err();
/// assert!(error.to_string().contains("http://127.0.0.1:10001/devstoreaccount1/QUEUE"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueAddressError(String);

impl QueueAddress {
    /// The whole address, which a client of the queue can use as it is.
    pub fn with_access(&self) -> String {
        format!("{}?{}", self.url, self.query)
    }
}

impl FromStr for QueueAddress {
    type Err = QueueAddressError;

    fn from_str(text: &str) -> Result<Self, QueueAddressError> {
        let (url, query) = text.split_once('?').unwrap_or((text, ""));
        let url = url.trim_end_matches('/');
        let parts: Vec<_> = url
            .strip_prefix("http://")
            .unwrap_or_default()
            .split('/')
            .collect();
        let query = match parts[..] {
            [_, EMULATOR_ACCOUNT, _] if query.is_empty() => EMULATOR_SAS,
            _ => query,
        };
        let is_complete =
            parts.len() > 1 && parts.iter().all(|part| !part.is_empty()) && !query.is_empty();
        if !is_complete || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(QueueAddressError(format!(
                "found the queue {url:?}, expected one by http, such as http://127.0.0.1:10001/{EMULATOR_ACCOUNT}/QUEUE, with a SAS \
                 token after `?` for another account"
            )));
        }
        Ok(Self {
            url: url.to_owned(),
            query: query.to_owned(),
        })
    }
}

impl fmt::Display for QueueAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url)
    }
}

impl fmt::Debug for QueueAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("QueueAddress").field(&self.url).finish()
    }
}

impl fmt::Display for QueueAddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for QueueAddressError {}

/// Why a queue does not do what is asked.
#[derive(Debug)]
pub(crate) enum QueueError {
    Unreachable { queue: String, error: io::Error },
    NotCreated { queue: String, status: u16 },
    Refused { queue: String, status: u16 },
}

impl fmt::Display for QueueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable { queue, error } => {
                write!(f, "the queue {queue} cannot be reached: {error}")
            }
            Self::NotCreated { queue, status } => {
                write!(f, "the queue {queue} answers {status} when it is created")
            }
            Self::Refused { queue, status } => write!(f, "the queue {queue} answers {status}"),
        }
    }
}

impl Error for QueueError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Unreachable { error, .. } => Some(error),
            Self::NotCreated { .. } | Self::Refused { .. } => None,
        }
    }
}

/// Where the status ends in an answer, such as `HTTP/1.1 201`. The rest is ignored.
const STATUS_END: usize = 12;

impl QueueAddress {
    /// Creates the queue, unless it exists or the signature does not allow it.
    pub(crate) fn create(&self) -> Result<(), QueueError> {
        match self.request("PUT", "", "")? {
            201 | 204 | 403 | 409 => Ok(()),
            status => Err(QueueError::NotCreated {
                queue: self.to_string(),
                status,
            }),
        }
    }

    /// Adds a message: any bytes, encoded in Base64.
    pub(crate) fn send(&self, message: &[u8]) -> Result<(), QueueError> {
        let body = format!(
            "<QueueMessage><MessageText>{}</MessageText></QueueMessage>",
            base64(message)
        );
        match self.request("POST", "/messages", &body)? {
            201 => Ok(()),
            status => Err(QueueError::Refused {
                queue: self.to_string(),
                status,
            }),
        }
    }

    /// Sends a request, and returns the status of its answer.
    fn request(&self, method: &str, suffix: &str, body: &str) -> Result<u16, QueueError> {
        let (host, path) = self
            .url
            .strip_prefix("http://")
            .and_then(|rest| rest.split_once('/'))
            .unwrap_or_default();
        let (query, length) = (&self.query, body.len());
        let request = format!(
            "{method} /{path}{suffix}?{query} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nx-ms-version: {VERSION}\r\n\
             Content-Type: application/xml\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        exchange(host, request.as_bytes()).map_err(|error| QueueError::Unreachable {
            queue: self.to_string(),
            error,
        })
    }
}

/// Sends a request on a connection of its own, and returns the status of the answer.
fn exchange(host: &str, request: &[u8]) -> io::Result<u16> {
    let deadline = Instant::now() + TIMEOUT;
    let left = || {
        Some(
            deadline
                .saturating_duration_since(Instant::now())
                .max(Duration::from_millis(1)),
        )
    };
    let has_port = host
        .rsplit_once(':')
        .is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let place = if has_port {
        host.to_owned()
    } else {
        format!("{host}:80")
    };
    let mut connected = Err(io::ErrorKind::NotFound.into());
    for address in place.to_socket_addrs()? {
        connected = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT);
        if connected.is_ok() {
            break;
        }
    }
    let mut stream = connected?;
    stream.set_write_timeout(left())?;
    stream.write_all(request)?;
    let (mut answer, mut part) = (Vec::new(), [0; 1024]);
    while answer.len() < STATUS_END {
        stream.set_read_timeout(left())?;
        match stream.read(&mut part)? {
            0 => break,
            length => answer.extend_from_slice(&part[..length]),
        }
    }
    let status = answer
        .strip_prefix(b"HTTP/1.")
        .and_then(|rest| rest.get(2..5));
    let status = status.and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
    status.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the answer is not HTTP"))
}

/// The standard alphabet of Base64, with padding (RFC 4648, section 4).
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let bits = (0..3).fold(0, |bits, at| {
            bits << 8 | usize::from(group.get(at).copied().unwrap_or(0))
        });
        for place in 0..4 {
            let is_padding = place > group.len();
            text.push(if is_padding {
                '='
            } else {
                char::from(ALPHABET[bits >> (18 - 6 * place) & 63])
            });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_rfc() {
        let pairs = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ];
        for (plain, encoded) in pairs {
            assert_eq!(base64(plain.as_bytes()), encoded);
        }
        assert_eq!(base64(&[0xfb, 0xff, 0xfe]), "+//+");
    }

    #[test]
    fn an_address_says_what_is_wrong_and_keeps_its_secret() {
        let queue: QueueAddress = "http://storage:80/other/q/?sv=1&sig=SECRET"
            .parse()
            .expect("an address");
        assert!(
            !format!("{queue} {queue:?}").contains("SECRET")
                && queue.with_access().ends_with("sig=SECRET")
        );
        for text in [
            "https://127.0.0.1/devstoreaccount1/q",
            "http://127.0.0.1:10001",
            "http:///a/q",
            "http://127.0.0.1/devstoreaccount1/",
            "http://127.0.0.1/other/q",
            "http://127.0.0.1/devstoreaccount1/a b",
            "http://127.0.0.1/other/q?sig=SECRET\n",
        ] {
            let error = text.parse::<QueueAddress>().expect_err(text).to_string();
            assert!(
                error.contains("with a SAS token after `?`") && !error.contains("SECRET"),
                "{text}: {error}"
            );
        }
    }
}
