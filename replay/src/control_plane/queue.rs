//! The Storage queue that Event Grid fills: its address, and the two requests that it gets.
//!
//! The queue is a real one: Azurite, Microsoft's emulator of Azure Storage, by plain HTTP. No key is needed here, since a shared
//! access signature is part of the address. For Azurite's well-known account it is a constant.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use ureq::Agent;

/// The account that every Azurite has.
const EMULATOR_ACCOUNT: &str = "devstoreaccount1";

/// A signature for all queues of that account, made with its well-known key. It expires in 2099 and opens nothing else. A test of
/// `tests/python` makes it again.
const EMULATOR_SAS: &str = "sv=2021-08-06&ss=q&srt=sco&sp=rwdlacup&se=2099-01-01T00:00:00Z&spr=https,http&\
                            sig=DMi2qz7%2BumV1FVw33iKTbOh77E1m5IHDvGO7yvUt1jo%3D";

/// The version of the protocol.
const VERSION: &str = "2021-08-06";

/// How long a request may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The address of a Storage queue, with what gives access to it.
///
/// Without a query, it is a queue of Azurite's well-known account. `Display` leaves out the query, which may be a secret.
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

/// Why a text is not the address of a queue, and what to write instead.
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
        let found = |what: &str| {
            let shown: String = url.escape_debug().collect();
            QueueAddressError(format!(
                "found the queue {shown}, expected {what}, such as http://127.0.0.1:10001/{EMULATOR_ACCOUNT}/QUEUE"
            ))
        };
        let path = url.strip_prefix("http://").ok_or_else(|| found("an address with http"))?;
        if !url.bytes().all(|byte| byte.is_ascii_graphic()) || !query.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(found("an address without spaces or control characters"));
        }
        let parts: Vec<_> = path.split('/').collect();
        if parts.len() < 2 || parts.iter().any(|part| part.is_empty()) {
            return Err(found("a host, an account and a queue"));
        }
        let query = match parts[..] {
            [_, EMULATOR_ACCOUNT, _] if query.is_empty() => EMULATOR_SAS,
            _ if query.is_empty() => return Err(found("a SAS token after `?`, or a queue of Azurite's account")),
            _ => query,
        };
        Ok(Self { url: url.to_owned(), query: query.to_owned() })
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

impl std::error::Error for QueueAddressError {}

/// Sends messages to a queue.
pub(crate) struct QueueClient {
    agent: Agent,
    address: QueueAddress,
}

impl QueueClient {
    pub(crate) fn new(address: QueueAddress) -> Self {
        let config = Agent::config_builder()
            .proxy(None)
            .max_redirects(0)
            .http_status_as_error(false)
            .timeout_global(Some(TIMEOUT))
            .build();
        Self { agent: config.new_agent(), address }
    }

    /// Creates the queue, unless it is there or the signature does not allow it.
    pub(crate) fn create(&self) -> Result<(), String> {
        let request = self.agent.put(self.address.with_access()).header("x-ms-version", VERSION);
        match self.status(request.send_empty())? {
            201 | 204 | 403 | 409 => Ok(()),
            status => Err(format!("the queue {} answers {status} when it is created", self.address)),
        }
    }

    /// Adds a message: any bytes, encoded in Base64.
    pub(crate) fn send(&self, message: &[u8]) -> Result<(), String> {
        let url = format!("{}/messages?{}", self.address.url, self.address.query);
        let body = format!("<QueueMessage><MessageText>{}</MessageText></QueueMessage>", base64(message));
        let request = self.agent.post(url).header("x-ms-version", VERSION).content_type("application/xml");
        match self.status(request.send(body))? {
            201 => Ok(()),
            status => Err(format!("the queue {} answers {status}", self.address)),
        }
    }

    fn status(&self, sent: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Result<u16, String> {
        let response = sent.map_err(|error| format!("the queue {} cannot be reached: {error}", self.address))?;
        Ok(response.status().as_u16())
    }
}

/// The standard alphabet of Base64, with padding (RFC 4648, section 4).
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let bits = (0..3).fold(0, |bits, at| bits << 8 | usize::from(group.get(at).copied().unwrap_or(0)));
        for place in 0..4 {
            let is_padding = place > group.len();
            text.push(if is_padding { '=' } else { char::from(ALPHABET[bits >> (18 - 6 * place) & 63]) });
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
        let queue: QueueAddress = "http://storage:80/other/q/?sv=1&sig=SECRET".parse().expect("an address");
        assert!(!format!("{queue} {queue:?}").contains("SECRET") && queue.with_access().ends_with("sig=SECRET"));
        for (text, expected) in [
            ("https://127.0.0.1/devstoreaccount1/q", "http"),
            ("http://127.0.0.1:10001", "an account and a queue"),
            ("http:///a/q", "a host"),
            ("http://127.0.0.1/devstoreaccount1/", "SAS"),
            ("http://127.0.0.1/other/q", "SAS"),
            ("http://127.0.0.1/devstoreaccount1/a b", "spaces"),
        ] {
            let error = text.parse::<QueueAddress>().expect_err(text).to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
