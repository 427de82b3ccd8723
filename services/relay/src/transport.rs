//! Sends requests, and classifies the answers.
//!
//! Certificates are always verified; there is no redirect, and no proxy but a configured one;
//! bodies are bounded. A secret is sent over TLS, or to this machine itself. Logs show only the
//! server of an address, since the addresses of Slack and Teams are secrets, and nothing of an
//! answer but its status: an answer may repeat a secret in any encoding.

use std::path::Path;
use std::time::Duration;

use reqwest::header::{DATE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use reqwest::{Certificate, Client, NoProxy, Proxy, StatusCode, Url};
use serde::Deserialize;
use serde_json::Value;
use tokio::time::Instant;

use crate::config::RelayConfig;
use crate::error::SettingError;
use scheduled_events_common::address;
use scheduled_events_common::http::{self, HttpError};
use scheduled_events_common::secret::{Secret, SecretFile, without_echo};

/// How long a request may take.
const REQUEST_TIME: Duration = Duration::from_secs(20);

/// The longest body of an answer that is read, in bytes.
const ANSWER_MAX: usize = 64 * 1024;

/// How much of the metadata service's answer is logged, in characters. No secret is sent to it.
const EXCERPT: usize = 200;

/// The answers of Slack that say more than their status. A target's answer is logged only if it is
/// one of them.
const KNOWN_ANSWERS: [&str; 10] = [
    "action_prohibited",
    "channel_is_archived",
    "channel_not_found",
    "invalid_payload",
    "invalid_token",
    "no_active_hooks",
    "no_service",
    "no_team",
    "team_disabled",
    "user_not_found",
];

/// The longest pause that an answer may ask for.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(600);

/// How long the metadata service may take to return a token.
const TOKEN_TIME: Duration = Duration::from_secs(30);

/// The longest life of a token that is accepted, in seconds.
const LIFE_MAX: u64 = 86_400;

/// A request: a POST.
#[derive(Debug)]
pub struct Request {
    /// Its address.
    pub url: Address,
    /// Its headers.
    pub headers: Vec<(String, Secret)>,
    /// Its body.
    pub body: Vec<u8>,
    /// The managed identity whose token it needs.
    pub identity: Option<Identity>,
}

/// A managed identity, and what its token is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The service that the token is for.
    pub resource: &'static str,
    /// The client id, if it is a user-assigned one.
    pub client_id: Option<String>,
}

/// An address that has passed [`Address::new`].
#[derive(Clone, Debug)]
pub struct Address {
    url: Secret,
    /// Its scheme, host and port, which are no secret.
    server: String,
    /// Whether it uses TLS, or is this machine itself.
    is_private: bool,
    /// Whether it is this machine itself.
    is_here: bool,
}

impl Address {
    /// Checks an address.
    ///
    /// # Errors
    /// It cannot be used. The sentence does not have the address.
    pub fn new(url: &Secret) -> Result<Self, SettingError> {
        let parsed =
            Url::parse(url.reveal()).map_err(SettingError::malformed("the address is invalid"))?;
        if !parsed.username().is_empty() || parsed.password().is_some() {
            return Err("the address has a user or a password; use `header_files`".into());
        }
        match parsed.scheme() {
            "https" | "http" => Ok(Self {
                url: url.clone(),
                server: parsed.origin().ascii_serialization(),
                is_private: address::is_private(&parsed),
                is_here: address::is_here(&parsed),
            }),
            // A secret that is no address can look like a scheme.
            _ => Err("the address does not begin with `https`".into()),
        }
    }

    /// The address, if secrets may be sent to it.
    ///
    /// # Errors
    /// It is on another machine, and not `https`.
    pub fn private(self) -> Result<Self, SettingError> {
        if self.is_private {
            return Ok(self);
        }
        Err("the address begins with `http`, and the request has a secret: expected `https`".into())
    }

    /// The address with this path after its own.
    ///
    /// # Errors
    /// None for a checked address.
    pub fn join(&self, path: &str) -> Result<Self, SettingError> {
        let (base, query) = self
            .url
            .reveal()
            .split_once('?')
            .map_or((self.url.reveal(), None), |(base, query)| {
                (base, Some(query))
            });
        let query = query.map_or(String::new(), |query| format!("?{query}"));
        Self::new(&Secret::new(format!(
            "{}/{path}{query}",
            base.trim_end_matches('/')
        )))
    }
}

/// The result of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The target has accepted the records.
    Accepted,
    /// It may accept them later: the reason, and when to try again, if it has asked for a time.
    Later(String, Option<Duration>),
    /// It will not accept these records.
    Rejected(String),
}

/// Sends requests to one target.
#[derive(Clone, Debug)]
pub struct Transport {
    client: Client,
    /// The metadata service, for tokens.
    metadata: String,
    /// The name of the proxy in messages.
    proxy: Option<String>,
    /// The token, and when it is replaced.
    token: Option<(Secret, Instant)>,
}

impl Transport {
    /// A transport that also trusts the certificates in `ca`, with the proxy of `relay`. `metadata`
    /// is the address of the metadata service, to which no proxy leads.
    ///
    /// # Errors
    /// A file cannot be read, or has no certificate or no credentials.
    pub fn new(
        ca: Option<&Path>,
        metadata: &str,
        relay: &RelayConfig,
    ) -> Result<Self, SettingError> {
        let mut builder = http::builder(REQUEST_TIME);
        if let Some(path) = ca {
            let name = path.display().to_string();
            let pem = std::fs::read(path).map_err(SettingError::unreadable(&name))?;
            let certificates =
                Certificate::from_pem_bundle(&pem).map_err(SettingError::malformed(&name))?;
            if certificates.is_empty() {
                return Err(SettingError::Invalid(format!(
                    "{name} has no certificate, expected PEM"
                )));
            }
            builder = builder.tls_certs_merge(certificates);
        }
        if let Some(address) = &relay.proxy {
            let proxy = Proxy::all(address).map_err(|error| {
                SettingError::Invalid(format!("`relay.proxy`: {}", http::reason(&error)))
            })?;
            // Requests without TLS to this machine itself must not go to another one.
            let mut proxy = proxy.no_proxy(NoProxy::from_string("localhost,127.0.0.0/8,::1"));
            if let Some(file) = &relay.proxy_credentials_file {
                let setting = "relay.proxy_credentials_file";
                let secret = read(setting, file)?;
                let credentials = secret.reveal().split_once(':');
                let (user, password) =
                    credentials.ok_or("`relay.proxy_credentials_file` has no USER:PASSWORD")?;
                proxy = proxy.basic_auth(user, password);
            }
            builder = builder.proxy(proxy);
        }
        let client = builder
            .build()
            .map_err(|error| SettingError::Http(HttpError::Setup(error)))?;
        let (metadata, proxy) = (
            metadata.trim_end_matches('/').to_owned(),
            relay.proxy.as_deref().map(address::shown),
        );
        Ok(Self {
            client,
            metadata,
            proxy,
            token: None,
        })
    }

    /// Sends a request. `classify` may determine the meaning of the answer better than the status
    /// does.
    pub async fn send(
        &mut self,
        request: &Request,
        classify: impl FnOnce(u16, &str) -> Option<Outcome>,
    ) -> Outcome {
        let token = match &request.identity {
            None => None,
            Some(identity) => match self.token(identity).await {
                Ok(token) => Some(token),
                Err(outcome) => return outcome,
            },
        };
        let mut headers = HeaderMap::new();
        let bearer = token
            .as_ref()
            .map(|token| Secret::new(format!("Bearer {}", token.reveal())));
        let bearer = bearer.map(|bearer| ("authorization".to_owned(), bearer));
        for (name, value) in request.headers.iter().chain(&bearer) {
            let (Ok(name), Ok(mut value)) = (
                HeaderName::try_from(name.as_str()),
                HeaderValue::try_from(value.reveal()),
            ) else {
                return Outcome::Later(
                    format!("the header {name:?} or its value is invalid"),
                    None,
                );
            };
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        let sent = self
            .client
            .post(request.url.url.reveal())
            .headers(headers)
            .body(request.body.clone())
            .send()
            .await;
        let response = match sent {
            Ok(response) => response,
            Err(error) => {
                let (server, why) = (&request.url.server, http::reason(&error.without_url()));
                let through = match &self.proxy {
                    Some(proxy) if !request.url.is_here => format!(" through the proxy {proxy}"),
                    _ => String::new(),
                };
                return Outcome::Later(format!("{server}{through}: {why}"), None);
            }
        };
        let status = response.status();
        if status == StatusCode::UNAUTHORIZED {
            self.token = None;
        }
        let wait = retry_after(response.headers());
        let body = match http::body(response, ANSWER_MAX).await {
            Ok(body) => String::from_utf8_lossy(&body).into_owned(),
            // The status decides.
            Err(reason) => reason.to_string(),
        };
        if let Some(outcome) = classify(status.as_u16(), &body) {
            return outcome;
        }
        let known = KNOWN_ANSWERS.iter().find(|answer| **answer == body.trim());
        let known = known.map_or(String::new(), |answer| format!(": {answer}"));
        let reason = format!("status {status}{known}");
        match status {
            status if status.is_success() => Outcome::Accepted,
            status if status.is_redirection() => {
                Outcome::Later(format!("{status}: redirects are not followed"), None)
            }
            StatusCode::BAD_REQUEST
            | StatusCode::PAYLOAD_TOO_LARGE
            | StatusCode::UNPROCESSABLE_ENTITY => Outcome::Rejected(reason),
            _ => Outcome::Later(reason, wait),
        }
    }
}

impl Transport {
    /// The token of a managed identity, cached for half of its life; without one, when to try again.
    async fn token(&mut self, identity: &Identity) -> Result<Secret, Outcome> {
        #[derive(Deserialize)]
        struct Token {
            access_token: String,
            expires_in: Value,
        }

        // By the monotonic clock: the wall clock may be wrong.
        if let Some((token, until)) = &self.token
            && *until > Instant::now()
        {
            return Ok(token.clone());
        }
        let later = |reason: String| Outcome::Later(reason, None);
        let failed =
            |reason: &str| later(format!("the metadata service returns no token: {reason}"));
        let url = format!("{}/metadata/identity/oauth2/token", self.metadata);
        let query = [
            ("api-version", "2018-02-01"),
            ("resource", identity.resource),
        ];
        let query = query
            .into_iter()
            .chain(identity.client_id.as_deref().map(|id| ("client_id", id)));
        let url =
            Url::parse_with_params(&url, query).map_err(|error| failed(&error.to_string()))?;
        let request = http::client(TOKEN_TIME)
            .map_err(|error| later(error.to_string()))?
            .get(url)
            .header("Metadata", "true");
        let response = request
            .send()
            .await
            .map_err(|error| failed(&http::reason(&error)))?;
        let status = response.status();
        let body = http::body(response, ANSWER_MAX)
            .await
            .map_err(|error| failed(&error.to_string()))?;
        if !status.is_success() {
            let sent: Vec<_> = identity.client_id.as_deref().into_iter().collect();
            let text = without_echo(&String::from_utf8_lossy(&body), &sent);
            let text: String = text.chars().take(EXCERPT).collect();
            return Err(failed(&format!("status {}: {text}", status.as_u16())));
        }
        // The error itself could show the token.
        let token: Token =
            serde_json::from_slice(&body).map_err(|_| failed("its answer has none"))?;
        let seconds = token
            .expires_in
            .as_u64()
            .or_else(|| token.expires_in.as_str()?.parse().ok())
            .unwrap_or(0);
        let token_secret = Secret::new(token.access_token);
        let until = Instant::now() + Duration::from_secs(seconds.min(LIFE_MAX) / 2);
        self.token = Some((token_secret.clone(), until));
        Ok(token_secret)
    }
}

/// Reads the secret of a setting.
pub(crate) fn read(setting: &str, file: &SecretFile) -> Result<Secret, SettingError> {
    file.read().map_err(|error| SettingError::Secret {
        setting: setting.to_owned(),
        error,
    })
}

/// The pause that an answer asks for: a number of seconds, or a time by the server's own clock.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let wait = if let Ok(seconds) = text.parse() {
        Duration::from_secs(seconds)
    } else {
        let until = httpdate::parse_http_date(text).ok()?;
        // This machine's clock may be wrong.
        let now = httpdate::parse_http_date(headers.get(DATE)?.to_str().ok()?).ok()?;
        until.duration_since(now).unwrap_or_default()
    };
    Some(wait.min(RETRY_AFTER_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_needs_tls_or_this_machine() {
        for (url, expected) in [
            ("https://example.com/secret", Ok(true)),
            ("http://127.0.0.1:9093", Ok(true)),
            ("http://[::1]/", Ok(true)),
            ("http://localhost/", Ok(true)),
            ("http://example.com/", Ok(false)),
            ("http://127.0.0.1.example.com/", Ok(false)),
            ("ftp://example.com/", Err(())),
            ("https://user:secret@example.com/", Err(())),
            ("example.com", Err(())),
        ] {
            let address = Address::new(&Secret::new(url));
            assert!(!format!("{address:?}").contains("secret"), "{address:?}");
            assert_eq!(
                address
                    .map(|address| address.private().is_ok())
                    .map_err(drop),
                expected,
                "{url}"
            );
        }
    }

    #[test]
    fn the_pause_is_bounded_and_does_not_depend_on_this_machines_clock() {
        let pause = |retry: &str, date: Option<&str>| {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, retry.parse().unwrap());
            date.map(|date| headers.insert(DATE, date.parse().unwrap()));
            retry_after(&headers).map(|pause| pause.as_secs())
        };
        let date = Some("Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(pause("17", None), Some(17));
        assert_eq!(pause("4000000000", None), Some(600));
        assert_eq!(pause("Sun, 06 Nov 1994 08:50:07 GMT", date), Some(30));
        assert_eq!(pause("Sun, 06 Nov 1994 08:40:00 GMT", date), Some(0));
        assert_eq!(pause("Sun, 06 Nov 1994 08:50:07 GMT", None), None);
        assert_eq!(pause("soon", date), None);
    }
}
