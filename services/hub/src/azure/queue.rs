//! The Storage queue that Event Grid fills.
//!
//! A received message is invisible to other readers for a while. The hub deletes it once its
//! content is on disk; until then the hub renews that time, and after a crash the message appears
//! again.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use azure_core::http::{RequestContent, Url, XmlFormat};
use azure_storage_queue::models::{self, QueueClientReceiveMessagesOptions};
use azure_storage_queue::{QueueClient, QueueClientOptions};
use base64::prelude::BASE64_STANDARD;
use base64::{DecodeError, Engine as _};
use scheduled_events_common::http::HttpError;
use scheduled_events_common::secret::SecretError;

use super::identity::Identity;
use super::transport;
use crate::config::Queue as QueueConfig;

/// How many messages one request receives: the service's maximum.
pub const BATCH: usize = 32;

/// How long a received message stays invisible unless the time is renewed.
pub const INVISIBLE: Duration = Duration::from_secs(60);

/// The audience of tokens for Storage, in every cloud.
const AUDIENCE: &str = "https://storage.azure.com";

/// A message, valid until its time is over.
#[derive(Clone, Debug)]
pub struct QueueMessage {
    id: String,
    receipt: String,
    /// How many times it was received.
    pub received: i64,
    /// Its content: bytes that Event Grid has encoded in Base64, or why they cannot be read.
    pub content: Result<Vec<u8>, DecodeError>,
    /// Its text in the queue.
    pub text: String,
}

/// Why the queue cannot be used.
#[derive(Debug)]
#[non_exhaustive]
pub enum QueueError {
    /// The SAS token cannot be read.
    Secret(SecretError),
    /// HTTP cannot be set up.
    Http(HttpError),
    /// A request failed. The [kind](azure_core::Error::kind) of the error shows whether there is no
    /// token, the service cannot be reached, it refuses, with which status and code, or its answer
    /// is not understood.
    Request {
        /// What failed: `cannot read the queue https://…`.
        what: String,
        /// The error of Azure's crate.
        error: azure_core::Error,
    },
}

impl fmt::Display for QueueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Secret(error) => write!(f, "`queue.sas_file`: {error}"),
            Self::Http(error) => error.fmt(f),
            Self::Request { what, error } => {
                write!(f, "{what}: {}", transport::reason(error))
            }
        }
    }
}

impl Error for QueueError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Secret(error) => Some(error),
            Self::Http(error) => error.source(),
            Self::Request { error, .. } => Some(error),
        }
    }
}

/// A queue.
pub struct Queue {
    client: QueueClient,
    /// The queue for messages that cannot be read, by its name.
    poison: Option<(String, QueueClient)>,
    place: String,
    identity: Identity,
}

impl Queue {
    /// The queue of a configuration. No request is sent yet.
    ///
    /// # Errors
    /// The SAS token cannot be read, or HTTP cannot be set up.
    pub fn new(config: &QueueConfig, identity: &Identity) -> Result<Self, QueueError> {
        let place = scheduled_events_common::address::shown(config.url.as_str());
        let open = |url: Url| {
            let (url, credential) = if config.emulator {
                (with_query(url, emulator_sas()), None)
            } else if let Some(file) = &config.sas_file {
                let secret = file.read().map_err(QueueError::Secret)?;
                (
                    with_query(url, secret.reveal().trim_start_matches('?')),
                    None,
                )
            } else {
                (url, identity.credential())
            };
            let options = QueueClientOptions {
                client_options: transport::options().map_err(QueueError::Http)?,
                ..QueueClientOptions::default()
            };
            QueueClient::new(url, credential, Some(options)).map_err(|error| QueueError::Request {
                what: format!("cannot use the queue {place}"),
                error,
            })
        };
        let client = open(config.url.clone())?;
        let poison = config
            .poison
            .as_ref()
            .map(|name| open(sibling(&config.url, name)).map(|queue| (name.clone(), queue)));
        let poison = poison.transpose()?;
        Ok(Self {
            client,
            poison,
            place,
            identity: identity.clone(),
        })
    }

    /// Some messages, at most [`BATCH`]. More are available at once, unless the queue is empty.
    ///
    /// # Errors
    /// The service cannot be reached, or refuses.
    pub async fn receive(&self) -> Result<Vec<QueueMessage>, QueueError> {
        let options = QueueClientReceiveMessagesOptions {
            number_of_messages: i32::try_from(BATCH).ok(),
            visibility_timeout: Some(seconds(INVISIBLE)),
            ..QueueClientReceiveMessagesOptions::default()
        };
        let response = self
            .client
            .receive_messages(Some(options))
            .await
            .map_err(|error| self.problem("read", error))?;
        let (_, _, body) = response.deconstruct();
        Ok(read_messages(&String::from_utf8_lossy(&body)))
    }

    /// Keeps a message invisible for another [`INVISIBLE`].
    ///
    /// # Errors
    /// As [`Self::receive`]. The message may appear again then, which does no harm.
    pub async fn renew(&self, message: &mut QueueMessage) -> Result<(), QueueError> {
        self.hide_for(message, INVISIBLE).await
    }

    /// Shows a message to other readers at once.
    ///
    /// # Errors
    /// As [`Self::receive`]. The message appears later then.
    pub async fn give_back(&self, message: &mut QueueMessage) -> Result<(), QueueError> {
        self.hide_for(message, Duration::ZERO).await
    }

    async fn hide_for(&self, message: &mut QueueMessage, time: Duration) -> Result<(), QueueError> {
        let renewed = self
            .client
            .update_message(&message.id, &message.receipt, seconds(time), None)
            .await;
        let renewed = renewed.map_err(|error| self.problem("renew a message of", error))?;
        let receipt = renewed
            .headers()
            .get_optional_str(&"x-ms-popreceipt".into())
            .map(str::to_owned);
        message.receipt = receipt.unwrap_or_else(|| std::mem::take(&mut message.receipt));
        Ok(())
    }

    /// Deletes a message.
    ///
    /// # Errors
    /// As [`Self::receive`]. The message appears again then, which does no harm.
    pub async fn delete(&self, message: &QueueMessage) -> Result<(), QueueError> {
        match self
            .client
            .delete_message(&message.id, &message.receipt, None)
            .await
        {
            Ok(_) => Ok(()),
            // Another reader has it, or has deleted it.
            Err(error) if error.http_status().map(u16::from) == Some(404) => Ok(()),
            Err(error) => Err(self.problem("delete a message of", error)),
        }
    }

    /// Copies a message that cannot be read to the queue for such messages, if there is one.
    ///
    /// # Errors
    /// As [`Self::receive`]. The message appears again if it is not deleted.
    pub async fn copy_aside(&self, message: &QueueMessage) -> Result<(), QueueError> {
        let Some((name, poison)) = &self.poison else {
            return Ok(());
        };
        let problem = |error: azure_core::Error| {
            self.refused(&error);
            let what = format!("cannot copy a message that cannot be read to the queue {name}");
            QueueError::Request { what, error }
        };
        let content = models::QueueMessage {
            message_text: Some(message.text.clone()),
        };
        let content: RequestContent<models::QueueMessage, XmlFormat> =
            content.try_into().map_err(problem)?;
        poison
            .send_message(content, None)
            .await
            .map(drop)
            .map_err(problem)
    }

    /// The approximate number of messages that wait.
    ///
    /// # Errors
    /// As [`Self::receive`].
    pub async fn length(&self) -> Result<u64, QueueError> {
        let found = self
            .client
            .get_properties(None)
            .await
            .map_err(|error| self.problem("look at", error))?;
        let count = found
            .headers()
            .get_optional_str(&"x-ms-approximate-messages-count".into());
        Ok(count.and_then(|count| count.parse().ok()).unwrap_or(0))
    }

    fn refused(&self, error: &azure_core::Error) {
        if error.http_status().map(u16::from) == Some(401) {
            self.identity.forget(AUDIENCE, None);
        }
    }

    fn problem(&self, what: &str, error: azure_core::Error) -> QueueError {
        self.refused(&error);
        let what = format!("cannot {what} the queue {}", self.place);
        QueueError::Request { what, error }
    }
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queue")
            .field("place", &self.place)
            .finish_non_exhaustive()
    }
}

/// The messages of an answer. Each is read alone: a sender may write characters
/// that XML does not allow, and one such message must not hide the others. A text never has a `<` of
/// its own, which the service escapes.
fn read_messages(xml: &str) -> Vec<QueueMessage> {
    let message = |found: &str| {
        let text = unescaped(element(found, "MessageText").unwrap_or_default());
        let received = element(found, "DequeueCount").and_then(|count| count.trim().parse().ok());
        Some(QueueMessage {
            id: unescaped(element(found, "MessageId")?),
            receipt: unescaped(element(found, "PopReceipt")?),
            received: received.unwrap_or(1),
            content: BASE64_STANDARD.decode(text.trim()),
            text,
        })
    };
    let messages = xml.split("<QueueMessage>").skip(1);
    messages.filter_map(message).collect()
}

/// The content of the first element with this name.
fn element<'a>(xml: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    rest.split_once(&format!("</{name}>"))
        .map(|(content, _)| content)
}

/// The text of an element. A reference to no character is kept as it is.
fn unescaped(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find('&') {
        result.push_str(&rest[..start]);
        rest = &rest[start..];
        let end = rest.find(';').unwrap_or_default();
        let number = |digits: &str, radix| {
            u32::from_str_radix(digits, radix)
                .ok()
                .and_then(char::from_u32)
        };
        let found = match rest.get(1..end).unwrap_or_default() {
            "lt" => Some('<'),
            "gt" => Some('>'),
            "amp" => Some('&'),
            "quot" => Some('"'),
            "apos" => Some('\''),
            name => match (name.strip_prefix("#x"), name.strip_prefix('#')) {
                (Some(digits), _) => number(digits, 16),
                (_, Some(digits)) => number(digits, 10),
                _ => None,
            },
        };
        let (found, length) = found.map_or(('&', 1), |found| (found, end + 1));
        result.push(found);
        rest = &rest[length..];
    }
    result + rest
}

fn seconds(time: Duration) -> i32 {
    i32::try_from(time.as_secs()).unwrap_or(i32::MAX)
}

fn with_query(mut url: Url, query: &str) -> Url {
    url.set_query(Some(query));
    url
}

/// Another queue of the same account.
pub(crate) fn sibling(url: &Url, name: &str) -> Url {
    let mut url = url.clone();
    let path = url.path().trim_end_matches('/').to_owned();
    let account = path.rsplit_once('/').map_or("", |(account, _)| account);
    url.set_path(&format!("{account}/{name}"));
    url
}

/// A SAS token for the queues of the emulator's account, signed with its well-known key. It is
/// valid until 2099.
pub const fn emulator_sas() -> &'static str {
    "sv=2021-08-06&ss=q&srt=sco&sp=rwdlacup&se=2099-01-01T00:00:00Z&spr=https,http&\
     sig=DMi2qz7%2BumV1FVw33iKTbOh77E1m5IHDvGO7yvUt1jo%3D"
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    use azure_core::error::ErrorKind;
    use hmac::{Hmac, KeyInit, Mac};
    use scheduled_events_gate::engine::blob::EMULATOR_KEY;
    use scheduled_events_test_support::TestServer;

    use super::super::identity::tests::Issuer;
    use super::*;

    /// The error of a request to this account.
    async fn refusal(account: &str, issuer: Option<&Arc<Issuer>>) -> (ErrorKind, String) {
        let config = QueueConfig {
            url: format!("{account}/events").parse().expect("an address"),
            poison: None,
            sas_file: None,
            emulator: issuer.is_none(),
        };
        let identity = issuer.cloned().unwrap_or_else(Issuer::new).identity();
        let queue = Queue::new(&config, &identity).expect("a queue");
        let error = queue.receive().await.expect_err("an error");
        let QueueError::Request { error: cause, .. } = &error else {
            panic!("{error:?}")
        };
        (cause.kind().clone(), error.to_string())
    }

    #[tokio::test]
    async fn it_is_known_whether_a_request_has_no_token_no_answer_or_a_refusal() {
        let issuer = Issuer::new();
        issuer.refuses.store(true, Ordering::Relaxed);
        let (kind, text) = refusal("https://127.0.0.1:1", Some(&issuer)).await;
        assert_eq!(kind, ErrorKind::Credential, "{text}");
        let (kind, text) = refusal("http://127.0.0.1:1/devstoreaccount1", None).await;
        assert_eq!(kind, ErrorKind::Connection, "{text}");
        let server = TestServer::start(|connection| {
            let lines = BufReader::new(&**connection).lines();
            let head = lines
                .map_while(Result::ok)
                .take_while(|line| !line.is_empty());
            head.for_each(drop);
            let _ = (&**connection).write_all(
                b"HTTP/1.1 403 Forbidden\r\nx-ms-error-code: AuthorizationFailure\r\nContent-Length: 0\r\n\r\n",
            );
        });
        let account = format!("{}/devstoreaccount1", server.url());
        let (kind, text) = refusal(&account, None).await;
        assert!(
            matches!(&kind, ErrorKind::HttpResponse { status, error_code: Some(code), .. }
                if u16::from(*status) == 403 && code == "AuthorizationFailure"),
            "{text}"
        );
        assert!(
            text.ends_with(": status 403, AuthorizationFailure"),
            "{text}"
        );
    }

    /// A control character, a zero byte, a document type, and times and counts that are none.
    #[test]
    fn one_message_that_is_no_xml_hides_no_other() {
        let message = |id: &str, count: &str, text: &str| {
            format!(
                "<QueueMessage><MessageId>{id}</MessageId><InsertionTime>never</InsertionTime><PopReceipt>r+/=</PopReceipt>\
                 <DequeueCount>{count}</DequeueCount><MessageText>{text}</MessageText></QueueMessage>"
            )
        };
        let xml = [
            message("a", "1", "\u{1}\0&#1;&#0;&#xD800;&"),
            message("b", "many", "e30="),
            message(
                "c",
                "",
                "&lt;!DOCTYPE x [&lt;!ENTITY y \"z\"&gt;]&gt;&y;&amp;lt;",
            ),
            "<QueueMessage><MessageText>no id</MessageText></QueueMessage>".to_owned(),
            message("d", "3", "e30="),
            "<QueueMessage><MessageId>cut".to_owned(),
        ];
        let found = read_messages(&format!(
            "\u{feff}<?xml version=\"1.0\"?><QueueMessagesList>{}",
            xml.concat()
        ));
        let shown: Vec<_> = found
            .iter()
            .map(|found| (found.id.as_str(), found.received, found.content.is_ok()))
            .collect();
        assert_eq!(
            shown,
            [
                ("a", 1, false),
                ("b", 1, true),
                ("c", 1, false),
                ("d", 3, true)
            ]
        );
        assert_eq!(found[0].text, "\u{1}\0\u{1}\0&#xD800;&");
        assert_eq!(found[2].text, "<!DOCTYPE x [<!ENTITY y \"z\">]>&y;&lt;");
        assert_eq!(found[3].receipt, "r+/=");
    }

    #[test]
    fn the_token_for_the_emulator_is_signed_with_its_key() {
        // The empty parts: start and addresses before the protocols, and the scope of encryption.
        let text = "devstoreaccount1\nrwdlacup\nq\nsco\n\n2099-01-01T00:00:00Z\n\nhttps,http\n2021-08-06\n\n";
        let key = BASE64_STANDARD.decode(EMULATOR_KEY).expect("a key");
        let mut mac = Hmac::<sha2::Sha256>::new_from_slice(&key).expect("a key of any length");
        mac.update(text.as_bytes());
        let signature = BASE64_STANDARD
            .encode(mac.finalize().into_bytes())
            .replace('+', "%2B")
            .replace('=', "%3D");
        assert!(
            emulator_sas().ends_with(&format!("&sig={signature}")),
            "{signature}"
        );
    }
}
