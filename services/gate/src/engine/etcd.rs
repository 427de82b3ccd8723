//! Registers in etcd, through the JSON gateway that its servers have since version 3.4.
//!
//! A read asks the quorum, and a swap is a transaction that compares the key's `mod_revision`,
//! which is 0 for a key that does not exist. The marks of an event of many machines have keys of
//! their own: see [`SplitRegisters`].

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use reqwest::{Certificate, Client, Identity, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};

use super::clock::{Clock, StoreClock};
use super::{
    Engine, EngineError, OpenError, Reply, Revision, SplitRegister, SplitRegisters, SplitWrite,
    Swap, Versioned, damaged,
};
use crate::config::EtcdConfig;
use scheduled_events_common::address::{self, HIDDEN, shown};
use scheduled_events_common::http::{self, HttpError};
use scheduled_events_common::secret::{SecretError, shown_file, without_echo};

/// How long one request may take.
const REQUEST_TIME: Duration = Duration::from_secs(3);

/// The maximum number of registers in one answer of a list. etcd limits an answer to some
/// megabytes.
const PAGE: u32 = 500;

/// The longest response: a page of a list, or an event's marks.
const RESPONSE_MAX: usize = 32 * 1024 * 1024;

/// Registers in etcd.
#[derive(Debug)]
pub struct EtcdEngine {
    client: Client,
    endpoints: Vec<String>,
    /// The endpoint that answered last.
    current: Cell<usize>,
    prefix: String,
    /// The user and the password.
    user: Option<(String, String)>,
    token: RefCell<Option<String>>,
    has_identity: bool,
    /// The clock of the server that answered last, as the `Date` of its answers shows it.
    clock: StoreClock,
}

#[derive(Deserialize)]
struct RangeResponse {
    header: Option<Header>,
    #[serde(default)]
    kvs: Vec<KeyValue>,
    /// Whether more pages follow.
    #[serde(default)]
    more: bool,
}

#[derive(Deserialize)]
struct KeyValue {
    key: String,
    #[serde(default)]
    value: String,
    mod_revision: String,
}

#[derive(Deserialize)]
struct TransactionResponse {
    header: Header,
    #[serde(default)]
    succeeded: bool,
    #[serde(default)]
    responses: Vec<OperationResponse>,
}

#[derive(Deserialize)]
struct OperationResponse {
    response_range: Option<RangeResponse>,
}

#[derive(Deserialize)]
struct Header {
    revision: String,
}

#[derive(Deserialize)]
struct TokenResponse {
    token: String,
}

/// Why a request failed.
enum Failure {
    /// It did not reach the server, so another one may be asked.
    NotSent(String),
    /// Whether it arrived is unknown, or the server cannot carry it out at the moment.
    NoAnswer(String),
    /// The token is no longer valid.
    Token,
    Other(String),
}

impl EtcdEngine {
    /// Registers in these servers.
    ///
    /// # Errors
    /// An endpoint, a certificate or a password file cannot be used.
    pub fn new(config: &EtcdConfig) -> Result<Self, OpenError> {
        let mut builder = http::builder(REQUEST_TIME);
        let read = |path: &Path| {
            std::fs::read(path).map_err(|error| OpenError::Unreadable {
                path: path.to_owned(),
                error,
            })
        };
        let not_of_tls = |path: &Path, what: &str, error| OpenError::Certificate {
            what: format!("{} has no {what}", path.display()),
            error,
        };
        if let Some(path) = &config.ca {
            let certificates = Certificate::from_pem_bundle(&read(path)?)
                .map_err(|error| not_of_tls(path, "certificates", error))?;
            builder = builder.tls_certs_only(certificates);
        }
        if let Some(path) = &config.identity {
            let identity = Identity::from_pem(&read(path)?)
                .map_err(|error| not_of_tls(path, "certificate with its key", error))?;
            builder = builder.identity(identity);
        }
        let user = match (&config.user, &config.password_file) {
            (None, None) => None,
            (Some(user), Some(path)) => {
                let name = shown_file(path);
                let password = std::fs::read(path).map_err(|error| {
                    let error = SecretError::Unreadable {
                        file: name.clone(),
                        error,
                    };
                    OpenError::Secret("etcd.password_file", error)
                })?;
                let password = String::from_utf8(password).map_err(|_| {
                    OpenError::Config(format!(
                        "`etcd.password_file`: the file {name} is not a password: expected UTF-8"
                    ))
                })?;
                Some((
                    user.clone(),
                    password.trim_end_matches(['\r', '\n']).to_owned(),
                ))
            }
            _ => {
                return Err(OpenError::Config(
                    "`etcd.user` and `etcd.password_file` are given together, or neither is".into(),
                ));
            }
        };
        if config.endpoints.is_empty() {
            return Err(OpenError::Config("`etcd.endpoints` is empty: expected at least one, such as \"http://127.0.0.1:2379\"".into()));
        }
        let mut endpoints = Vec::new();
        for endpoint in &config.endpoints {
            let name = shown(endpoint);
            let url = address::check(endpoint).map_err(|why| {
                let advice = "expected one such as \"http://127.0.0.1:2379\"; credentials are in `etcd.user` and `etcd.password_file`";
                OpenError::Config(format!("`etcd.endpoints` has {name:?}: {why}; {advice}"))
            })?;
            if user.is_some() && !address::is_private(&url) {
                return Err(OpenError::Config(format!(
                    "`etcd.endpoints` has {name:?}, to which the password would be sent in clear: expected https"
                )));
            }
            endpoints.push(endpoint.trim_end_matches('/').to_owned());
        }
        let client = builder
            .build()
            .map_err(|error| OpenError::Http(HttpError::Setup(error)))?;
        let (current, token) = (Cell::new(0), RefCell::new(None));
        let has_identity = config.identity.is_some();
        let (prefix, clock) = (config.prefix.clone(), StoreClock::default());
        Ok(Self {
            client,
            endpoints,
            current,
            prefix,
            user,
            token,
            has_identity,
            clock,
        })
    }

    fn key(&self, key: &str) -> String {
        BASE64_STANDARD.encode(format!("{}{key}", self.prefix))
    }

    /// The range of the keys that begin with a prefix, as members of a request.
    fn range(&self, prefix: &str) -> Value {
        let first = format!("{}{prefix}", self.prefix);
        // The first key that does not begin with the prefix: its last byte, `/`, plus one.
        let end = format!("{}0", first.trim_end_matches('/'));
        json!({ "key": BASE64_STANDARD.encode(first), "range_end": BASE64_STANDARD.encode(end) })
    }

    /// The operations that read a register and its parts.
    fn reads(&self, key: &str, prefix: &str, since: Option<&Revision>) -> [Value; 2] {
        let mut parts = self.range(prefix);
        if let Some(next) = since.and_then(after) {
            parts["min_mod_revision"] = next;
        }
        [
            json!({ "requestRange": { "key": self.key(key) } }),
            json!({ "requestRange": parts }),
        ]
    }

    /// The results of the last two operations of a transaction.
    fn whole(
        &self,
        response: TransactionResponse,
        prefix: &str,
    ) -> Result<SplitRegister, EngineError> {
        let mut ranges = response
            .responses
            .into_iter()
            .rev()
            .filter_map(|operation| operation.response_range);
        let (Some(parts), Some(register)) = (ranges.next(), ranges.next()) else {
            return Err(EngineError(
                "etcd's answer to a transaction has not what was read".into(),
            ));
        };
        let first = format!("{}{prefix}", self.prefix);
        let mut found = Vec::new();
        for part in parts.kvs {
            let (key, register) = part.versioned()?;
            found.extend(
                key.strip_prefix(&first)
                    .map(|key| (key.to_owned(), register.value)),
            );
        }
        let register = register
            .kvs
            .into_iter()
            .next()
            .map(|found| found.versioned().map(|(_, register)| register));
        Ok(SplitRegister {
            register: register.transpose()?,
            parts: found,
            moment: Revision(response.header.revision),
        })
    }

    /// Sends a request that changes something to the server that answered last, and to the others
    /// in turn as long as it certainly did not arrive: a swap that was carried out must not be
    /// reported as refused.
    async fn write<T: for<'de> Deserialize<'de>>(
        &self,
        path: &str,
        body: &Value,
    ) -> Result<T, EngineError> {
        self.call(path, body, false).await
    }

    /// Sends a request that changes nothing, and sends it to the others as well if one does not
    /// answer, or answers that it cannot.
    async fn look<T: for<'de> Deserialize<'de>>(
        &self,
        path: &str,
        body: &Value,
    ) -> Result<T, EngineError> {
        self.call(path, body, true).await
    }

    async fn call<T: for<'de> Deserialize<'de>>(
        &self,
        path: &str,
        body: &Value,
        is_repeatable: bool,
    ) -> Result<T, EngineError> {
        let mut has_new_token = false;
        let count = self.endpoints.len();
        let first = self.current.get();
        let mut attempt = 0;
        loop {
            // Other calls run meanwhile: calls that wait for the same server must not each skip
            // another one.
            let index = (first + attempt) % count;
            let endpoint = &self.endpoints[index];
            let failure = match self.request(endpoint, path, body).await {
                Ok(response) => {
                    self.current.set(index);
                    return serde_json::from_slice(&response).map_err(|error| {
                        // It may quote the answer.
                        let why = self.excerpt(&error.to_string());
                        EngineError(format!("{endpoint} answers what is not etcd's: {why}"))
                    });
                }
                Err(Failure::Token) if !has_new_token => match self.authenticate(endpoint).await {
                    Ok(()) => {
                        has_new_token = true;
                        continue;
                    }
                    Err(Failure::Token) => {
                        Failure::Other("etcd refuses the user and the password".into())
                    }
                    // The request itself was refused.
                    Err(Failure::NoAnswer(why)) => Failure::NotSent(why),
                    Err(failure) => failure,
                },
                Err(failure) => failure,
            };
            let (why, may_ask_another) = match failure {
                Failure::NotSent(why) => (why, true),
                Failure::NoAnswer(why) => (why, is_repeatable),
                Failure::Token => ("etcd refuses a new token".into(), false),
                Failure::Other(why) => (why, false),
            };
            // The next call begins with another server.
            if self.current.get() == index {
                self.current.set((index + 1) % count);
            }
            attempt += 1;
            if !may_ask_another || attempt == count {
                return Err(EngineError(format!("etcd at {endpoint}: {why}")));
            }
        }
    }

    async fn authenticate(&self, endpoint: &str) -> Result<(), Failure> {
        let Some((name, password)) = &self.user else {
            return Err(Failure::Other(
                "it asks for a user: set `etcd.user` and `etcd.password_file`".into(),
            ));
        };
        *self.token.borrow_mut() = None;
        let body = json!({ "name": name, "password": password });
        let response = self.request(endpoint, "auth/authenticate", &body).await?;
        let response: TokenResponse = serde_json::from_slice(&response).map_err(|error| {
            let why = self.excerpt(&error.to_string());
            Failure::Other(format!("the answer to the password is not etcd's: {why}"))
        })?;
        *self.token.borrow_mut() = Some(response.token);
        Ok(())
    }

    /// The beginning of an answer, without the secrets that it repeats.
    fn excerpt(&self, text: &str) -> String {
        let token = self.token.borrow();
        let secrets = [
            self.user.as_ref().map(|(_, password)| password),
            token.as_ref(),
        ]
        .into_iter()
        .flatten()
        .map(String::as_str)
        .filter(|secret| !secret.is_empty());
        let secrets: Vec<_> = secrets.collect();
        let text = without_echo(text, &secrets);
        // A short secret is hidden, too, although it may be a part of another word.
        let text = secrets
            .iter()
            .fold(text, |text, secret| text.replace(secret, HIDDEN));
        text.chars()
            .take(300)
            .collect::<String>()
            .escape_debug()
            .to_string()
    }

    async fn request(&self, endpoint: &str, path: &str, body: &Value) -> Result<Vec<u8>, Failure> {
        let mut request = self.client.post(format!("{endpoint}/v3/{path}")).json(body);
        let token = self.token.borrow().clone();
        if let Some(token) = token {
            request = request.header("Authorization", token);
        }
        let response = request.send().await.map_err(|error| {
            let mut why = http::reason(&error);
            if endpoint.starts_with("https:") {
                why = explain(&why, self.has_identity);
            }
            if error.is_connect() {
                Failure::NotSent(why)
            } else {
                Failure::NoAnswer(why)
            }
        })?;
        self.clock.saw_headers(response.headers());
        let status = response.status();
        let body = http::body(response, RESPONSE_MAX)
            .await
            .map_err(|error| Failure::NoAnswer(error.to_string()))?;
        if status.is_success() {
            return Ok(body);
        }
        let text = String::from_utf8_lossy(&body);
        // The last text: etcd's users have changed since a signed token was issued.
        let refusals = [
            "user name is empty",
            "invalid auth token",
            "revision of auth store is old",
        ];
        if status == StatusCode::UNAUTHORIZED
            || refusals.iter().any(|refusal| text.contains(refusal))
        {
            return Err(Failure::Token);
        }
        let why = format!("status {}: {}", status.as_u16(), self.excerpt(&text));
        Err(if status.is_server_error() {
            Failure::NoAnswer(why)
        } else {
            Failure::Other(why)
        })
    }
}

impl Engine for EtcdEngine {
    fn read<'a>(&'a self, key: &'a str) -> Reply<'a, Option<Versioned>> {
        Box::pin(async move {
            let response: RangeResponse = self
                .look("kv/range", &json!({ "key": self.key(key) }))
                .await?;
            response
                .kvs
                .into_iter()
                .next()
                .map(|found| found.versioned().map(|(_, register)| register))
                .transpose()
        })
    }

    fn swap<'a>(
        &'a self,
        key: &'a str,
        expected: Option<&'a Revision>,
        value: &'a str,
    ) -> Reply<'a, Swap> {
        Box::pin(async move {
            let key = self.key(key);
            let put =
                json!({ "requestPut": { "key": key, "value": BASE64_STANDARD.encode(value) } });
            let response: TransactionResponse = self
                .write("kv/txn", &transaction(&key, expected, &put))
                .await?;
            Ok(if response.succeeded {
                Swap::Done(Revision(response.header.revision))
            } else {
                Swap::Conflict
            })
        })
    }

    fn delete<'a>(&'a self, key: &'a str, expected: &'a Revision) -> Reply<'a, bool> {
        Box::pin(async move {
            let key = self.key(key);
            let delete = json!({ "requestDeleteRange": { "key": key } });
            let response: TransactionResponse = self
                .write("kv/txn", &transaction(&key, Some(expected), &delete))
                .await?;
            Ok(response.succeeded)
        })
    }

    fn list<'a>(&'a self, prefix: &'a str) -> Reply<'a, Vec<(String, Versioned)>> {
        Box::pin(async move {
            let (mut range, mut found) = (self.range(prefix), Vec::new());
            range["limit"] = json!(PAGE);
            loop {
                let response: RangeResponse = self.look("kv/range", &range).await?;
                let last = response.kvs.last().map(|last| last.key.clone());
                for key_value in response.kvs {
                    let (key, register) = key_value.versioned()?;
                    found.extend(
                        key.strip_prefix(&self.prefix)
                            .map(|key| (key.to_owned(), register)),
                    );
                }
                let (Some(last), true) = (last, response.more) else {
                    return Ok(found);
                };
                // All pages are of the first page's revision, and each page starts after the last
                // key of the one before.
                if let Some(header) = response.header.filter(|_| range["revision"].is_null()) {
                    range["revision"] = json!(header.revision);
                }
                let mut next = BASE64_STANDARD
                    .decode(last)
                    .map_err(|_| EngineError("etcd's key is no base64".into()))?;
                next.push(0);
                range["key"] = json!(BASE64_STANDARD.encode(next));
            }
        })
    }

    fn clock(&self) -> Option<Clock> {
        self.clock.now()
    }

    fn split_registers(&self) -> Option<&dyn SplitRegisters> {
        Some(self)
    }
}

/// Each part has a key of its own, and a transaction compares a whole range of keys: it allows at
/// most 128 single comparisons.
impl SplitRegisters for EtcdEngine {
    fn read_parts<'a>(
        &'a self,
        key: &'a str,
        prefix: &'a str,
        since: Option<&'a Revision>,
    ) -> Reply<'a, SplitRegister> {
        Box::pin(async move {
            // A transaction without a comparison succeeds.
            let body = json!({ "success": self.reads(key, prefix, since) });
            self.whole(self.look("kv/txn", &body).await?, prefix)
        })
    }

    fn change_part<'a>(&'a self, change: SplitWrite<'a>) -> Reply<'a, Option<SplitRegister>> {
        Box::pin(async move {
            let SplitWrite {
                key,
                prefix,
                since,
                part: (name, part),
                ..
            } = change;
            let put = |key: &str, value: &str| json!({ "requestPut": { "key": self.key(key), "value": BASE64_STANDARD.encode(value) } });
            let mut compare = vec![has_revision(&self.key(key), change.expected)];
            if change.needs_unchanged_parts {
                let next = since
                    .and_then(after)
                    .ok_or_else(|| EngineError("there is no earlier moment".into()))?;
                let mut parts = self.range(prefix);
                parts["target"] = json!("MOD");
                parts["result"] = json!("LESS");
                parts["mod_revision"] = next;
                compare.push(parts);
            }
            let mut actions: Vec<_> = change
                .value
                .map(|value| put(key, value))
                .into_iter()
                .collect();
            actions.push(put(&format!("{prefix}{name}"), part));
            actions.extend(self.reads(key, prefix, since));
            let body = json!({ "compare": compare, "success": actions });
            let response: TransactionResponse = self.write("kv/txn", &body).await?;
            if response.succeeded {
                self.whole(response, prefix).map(Some)
            } else {
                Ok(None)
            }
        })
    }

    fn delete_parts<'a>(
        &'a self,
        key: &'a str,
        expected: &'a Revision,
        prefix: &'a str,
    ) -> Reply<'a, bool> {
        Box::pin(async move {
            let key = self.key(key);
            let delete = [json!({ "key": key }), self.range(prefix)]
                .map(|range| json!({ "requestDeleteRange": range }));
            let body =
                json!({ "compare": [has_revision(&key, Some(expected))], "success": delete });
            let response: TransactionResponse = self.write("kv/txn", &body).await?;
            Ok(response.succeeded)
        })
    }
}

/// An error of TLS with what to do about it.
fn explain(why: &str, has_identity: bool) -> String {
    let unknown =
        "no authority of `etcd.ca` (without it, of the system) has signed the server's certificate";
    let client = if has_identity {
        "the server may not accept the client certificate of `etcd.identity`"
    } else {
        "the server may want a client certificate: set `etcd.identity`"
    };
    let advice = [
        ("UnknownIssuer", unknown),
        // An authority of the same name with another key.
        ("BadSignature", unknown),
        (
            "NotValidForName",
            "the server's certificate is not for the host in `etcd.endpoints`",
        ),
        (
            "certificate not valid for name",
            "the server's certificate is not for the host in `etcd.endpoints`",
        ),
        (
            "Expired",
            "the server's certificate has expired, or this machine's clock is wrong",
        ),
        // A server that does not accept the client closes the connection, with or without an alert
        // that arrives.
        ("CertificateRequired", client),
        ("BadCertificate", client),
        ("UnknownCA", client),
        ("connection closed", client),
        ("Connection reset", client),
    ];
    let advice = advice.iter().find(|(sign, _)| why.contains(sign));
    advice.map_or(why.to_owned(), |(_, advice)| format!("{advice} ({why})"))
}

/// A transaction that does something if a key has a revision.
fn transaction(key: &str, expected: Option<&Revision>, action: &Value) -> Value {
    json!({ "compare": [has_revision(key, expected)], "success": [action] })
}

/// The comparison of a key's revision, which is 0 for one that does not exist.
fn has_revision(key: &str, expected: Option<&Revision>) -> Value {
    let revision = expected.map_or("0", |revision| revision.0.as_str());
    json!({ "key": key, "target": "MOD", "result": "EQUAL", "mod_revision": revision })
}

/// The first revision after a moment.
fn after(moment: &Revision) -> Option<Value> {
    Some(json!((moment.0.parse::<i64>().ok()? + 1).to_string()))
}

impl KeyValue {
    fn versioned(self) -> Result<(String, Versioned), EngineError> {
        let decode = |text: &str| {
            let bytes = BASE64_STANDARD.decode(text);
            let bytes = bytes.map_err(|_| {
                EngineError("etcd's answer has a key or a value that is no base64".into())
            })?;
            Ok::<_, EngineError>(
                String::from_utf8(bytes)
                    .unwrap_or_else(|error| damaged("not text", error.as_bytes())),
            )
        };
        let register = Versioned {
            value: decode(&self.value)?,
            revision: Revision(self.mod_revision),
        };
        Ok((decode(&self.key)?, register))
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;
    use crate::register::GroupRegister;
    use crate::store;

    const FOUND: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 70\r\nconnection: close\r\n\r\n\
        {\"kvs\":[{\"key\":\"Z3JvdXBzL3dlYg==\",\"value\":\"e30=\",\"mod_revision\":\"7\"}]}";
    const TOKEN: &[u8] =
        b"HTTP/1.1 200 OK\r\ncontent-length: 15\r\nconnection: close\r\n\r\n{\"token\":\"new\"}";
    const WRITTEN: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 44\r\nconnection: close\r\n\r\n\
        {\"header\":{\"revision\":\"8\"},\"succeeded\":true}";
    const UNAUTHORIZED: &[u8] =
        b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    const CANNOT: &[u8] =
        b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

    fn config(endpoints: Vec<String>) -> EtcdConfig {
        EtcdConfig {
            endpoints,
            prefix: String::new(),
            ca: None,
            identity: None,
            user: None,
            password_file: None,
        }
    }

    /// Answers each request with these bytes, and counts the requests.
    async fn server(answer: &'static [u8]) -> (String, Rc<Cell<usize>>) {
        server_of(move |_| answer).await
    }

    /// Answers the requests with these bytes, and counts them.
    async fn server_of(
        answer: impl Fn(&str) -> &'static [u8] + 'static,
    ) -> (String, Rc<Cell<usize>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let requests = Rc::new(Cell::new(0));
        let count = requests.clone();
        tokio::task::spawn_local(async move {
            loop {
                let (mut stream, _) = listener.accept().await.expect("a connection");
                let mut request = [0; 4096];
                let length = stream.read(&mut request).await.unwrap_or_default();
                count.set(count.get() + 1);
                let request = String::from_utf8_lossy(&request[..length]).to_lowercase();
                let _ = stream.write_all(answer(&request)).await;
            }
        });
        (format!("http://{address}"), requests)
    }

    #[tokio::test]
    async fn a_read_is_answered_by_the_next_server_and_a_write_is_sent_once() {
        let test = async {
            // One closes the connection, and one has no leader.
            for answer in [b"", CANNOT] {
                let (first, sent) = server(answer).await;
                let (second, asked) = server(FOUND).await;
                let config = config(vec![first.clone(), second]);
                let engine = || EtcdEngine::new(&config).expect("an engine");
                // As for a command of an operator, each process asks the first one first.
                for _ in 0..2 {
                    let found = engine().read("groups/web").await.expect("an answer");
                    assert_eq!(found.expect("a register").value, "{}");
                }
                let listed = engine().list("groups/").await.expect("an answer");
                assert_eq!(listed.len(), 1);
                assert_eq!((sent.take(), asked.take()), (3, 3));
                let written = engine().swap("groups/web", None, "{}").await;
                let error = written.expect_err("whether it was done is unknown").0;
                assert!(error.starts_with(&format!("etcd at {first}: ")), "{error}");
                assert_eq!((sent.get(), asked.get()), (1, 0));
            }
        };
        tokio::task::LocalSet::new().run_until(test).await;
    }

    #[tokio::test]
    async fn a_server_that_issues_no_token_is_followed_by_one_that_does() {
        let answer = |token: &'static [u8]| {
            move |request: &str| match request {
                request if request.contains("authenticate") => token,
                request if !request.contains("authorization: new") => UNAUTHORIZED,
                request if request.contains("/kv/txn") => WRITTEN,
                _ => FOUND,
            }
        };
        let test = async {
            let (first, _) = server_of(answer(CANNOT)).await;
            let (second, _) = server_of(answer(TOKEN)).await;
            let password = tempfile::NamedTempFile::new().expect("a file");
            std::fs::write(password.path(), "secret").expect("written");
            let config = EtcdConfig {
                user: Some("gate".into()),
                password_file: Some(password.path().to_owned()),
                ..config(vec![first, second])
            };
            let engine = EtcdEngine::new(&config).expect("an engine");
            let found = engine.read("groups/web").await.expect("an answer");
            assert_eq!(found.expect("a register").value, "{}");
            // A write, which is sent once only.
            let engine = EtcdEngine::new(&config).expect("an engine");
            let written = engine.swap("groups/web", None, "{}").await;
            assert_eq!(written, Ok(Swap::Done(Revision("8".into()))));
        };
        tokio::task::LocalSet::new().run_until(test).await;
    }

    #[test]
    fn a_value_that_is_no_text_is_the_problem_of_its_register() {
        let [key, value] =
            [&b"/x/groups/web"[..], b"\xff{}"].map(|bytes| BASE64_STANDARD.encode(bytes));
        let found: KeyValue =
            serde_json::from_value(json!({ "key": key, "value": value, "mod_revision": "7" }))
                .expect("a pair");
        let (key, register) = found.versioned().expect("it can be listed");
        assert_eq!(
            (key.as_str(), register.revision),
            ("/x/groups/web", Revision("7".into()))
        );
        let error =
            store::decode::<GroupRegister>("groups/web", &register.value).expect_err("no register");
        assert!(
            error
                .0
                .starts_with("the register groups/web cannot be read: "),
            "{error}"
        );
    }
}
