//! Any HTTP server: the record as it is, in an event of CloudEvents 1.0, or through a template;
//! signed as [Standard Webhooks](https://github.com/standard-webhooks/standard-webhooks) defines,
//! if there is a key.

use std::fs::File;
use std::io::{self, Read as _};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, UndefinedBehavior};
use scheduled_events_core::record::PrintableJson;
use serde_json::{Value, json};
use sha2::Sha256;

use super::{Endpoint, Item, RequestError, Target, now};
use crate::config::{Format, TargetConfig};
use crate::error::SettingError;
use crate::message::headline;
use crate::record::Record;
use crate::transport::{Request, read};
use scheduled_events_common::secret::{Secret, SecretFile};

/// The longest template, in bytes.
const TEMPLATE_MAX: u64 = 256 * 1024;

/// How much work a template may do for one record, in minijinja's units, each of which is about one
/// instruction.
const TEMPLATE_FUEL: u64 = 1_000_000;

/// The longest body that a template may produce, in bytes.
const BODY_MAX: usize = 4 * 1024 * 1024;

/// A webhook.
pub(super) struct Webhook {
    endpoint: Endpoint,
    machine: String,
    body: Body,
    key: Option<SecretFile>,
}

enum Body {
    Format(Format),
    Template {
        environment: Box<Environment<'static>>,
        content_type: String,
        is_json: bool,
    },
}

impl Webhook {
    pub(super) fn new(config: &TargetConfig, machine: &str) -> Result<Self, SettingError> {
        let body = match &config.template {
            None => Body::Format(config.format.unwrap_or_default()),
            Some(path) => {
                let name = path.display().to_string();
                let mut text = String::new();
                File::open(path)
                    .and_then(|file| file.take(TEMPLATE_MAX).read_to_string(&mut text))
                    .map_err(SettingError::unreadable(format!("the template {name}")))?;
                let content_type = config
                    .content_type
                    .as_deref()
                    .unwrap_or("application/json")
                    .to_owned();
                let escape = escape(&content_type)?;
                let is_json = escape == AutoEscape::Json;
                let environment =
                    environment(text, escape).map_err(SettingError::malformed(name))?;
                Body::Template {
                    environment: Box::new(environment),
                    content_type,
                    is_json,
                }
            }
        };
        let endpoint = Endpoint::new(config).check()?;
        let webhook = Self {
            endpoint,
            machine: machine.to_owned(),
            body,
            key: config.key_file.clone(),
        };
        webhook.key()?;
        Ok(webhook)
    }

    /// The key of the signature.
    fn key(&self) -> Result<Option<Vec<u8>>, SettingError> {
        let Some(file) = &self.key else {
            return Ok(None);
        };
        let secret = read("key_file", file)?;
        let encoded = secret
            .reveal()
            .strip_prefix("whsec_")
            .unwrap_or(secret.reveal());
        let key = STANDARD
            .decode(encoded)
            .map_err(|_| "the key of the signature is not base64")?;
        // The lengths that the specification allows.
        if !(24..=64).contains(&key.len()) {
            return Err(SettingError::Invalid(format!(
                "the key of the signature has {} bytes, expected 24 to 64, in base64",
                key.len()
            )));
        }
        Ok(Some(key))
    }

    fn body(&self, record: &Record) -> Result<(String, Vec<u8>), RequestError> {
        let data = record.with_machine(&self.machine);
        match &self.body {
            Body::Format(Format::Record) => Ok(("application/json".to_owned(), data.into_bytes())),
            Body::Format(Format::Cloudevents) => {
                let event = cloud_event(record, &data, &self.machine);
                Ok((
                    "application/cloudevents+json".to_owned(),
                    event.into_bytes(),
                ))
            }
            Body::Template {
                environment,
                content_type,
                is_json,
            } => {
                let body = render(environment, *is_json, record, &self.machine)?;
                Ok((content_type.clone(), body))
            }
        }
    }
}

impl Target for Webhook {
    fn requests(&self, items: &[Item]) -> Result<Vec<Request>, RequestError> {
        let key = self.key()?;
        let now = now();
        let mut requests = Vec::new();
        for Item { record, .. } in items {
            let (content_type, body) = self.body(record)?;
            let mut request = self.endpoint.request("", &content_type, body)?;
            request
                .headers
                .push(("webhook-id".to_owned(), Secret::new(&record.id)));
            if let Some(key) = &key {
                let signature = signature(key, &record.id, now, &request.body);
                request
                    .headers
                    .push(("webhook-timestamp".to_owned(), Secret::new(now.to_string())));
                request
                    .headers
                    .push(("webhook-signature".to_owned(), Secret::new(signature)));
            }
            requests.push(request);
        }
        Ok(requests)
    }
}

/// The signature of Standard Webhooks.
fn signature(key: &[u8], id: &str, timestamp: i64, body: &[u8]) -> String {
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else {
        return String::new();
    };
    mac.update(format!("{id}.{timestamp}.").as_bytes());
    mac.update(body);
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

/// The record in an event of CloudEvents 1.0, in the structured mode.
fn cloud_event(record: &Record, data: &str, machine: &str) -> String {
    let mut source = reqwest::Url::parse("http://machine/").ok();
    if let Some(url) = &mut source
        && let Ok(mut path) = url.path_segments_mut()
    {
        path.clear().extend(["scheduled-events", machine]);
    }
    let source = source.map_or("/scheduled-events".to_owned(), |url| url.path().to_owned());
    let kind = match record.change() {
        Some(change) => format!("scheduled-events.change.{change}"),
        None => format!("scheduled-events.{}", record.kind()),
    };
    let mut event = json!({
        "specversion": "1.0",
        "id": record.id,
        "source": source,
        "type": kind,
        "datacontenttype": "application/json",
    });
    // Optional attributes are absent, never null.
    for (attribute, member) in [("subject", "event_id"), ("time", "time")] {
        if let Some(text) = record.text(member).filter(|text| !text.is_empty()) {
            event[attribute] = text.into();
        }
    }
    // The record stays as it is, with its members in their order.
    let event = PrintableJson(&event.to_string()).to_string();
    format!("{},\"data\":{data}}}", event.trim_end_matches('}'))
}

/// The escaping for a content type.
fn escape(content_type: &str) -> Result<AutoEscape, SettingError> {
    match content_type.split(';').next().unwrap_or_default().trim() {
        "application/json" => Ok(AutoEscape::Json),
        "text/html" => Ok(AutoEscape::Html),
        "text/plain" => Ok(AutoEscape::None),
        found => Err(SettingError::Invalid(format!(
            "found the content type {found:?}, expected `application/json`, `text/html` or `text/plain`: event text can be \
             escaped for these"
        ))),
    }
}

/// Checks a template, and sets up its environment so that inserted text is escaped.
fn environment(text: String, escape: AutoEscape) -> Result<Environment<'static>, minijinja::Error> {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(move |_| escape.clone());
    // Each kind of record has members of its own.
    environment.set_undefined_behavior(UndefinedBehavior::Chainable);
    environment.set_fuel(Some(TEMPLATE_FUEL));
    environment.add_template_owned("body", text)?;
    Ok(environment)
}

/// A buffer that accepts at most [`BODY_MAX`] bytes.
struct Bounded(Vec<u8>);

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > BODY_MAX {
            return Err(io::Error::other(format!(
                "the body has more than {BODY_MAX} bytes"
            )));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The template's text for a record.
fn render(
    environment: &Environment<'_>,
    is_json: bool,
    record: &Record,
    machine: &str,
) -> Result<Vec<u8>, RequestError> {
    let mut data: Value =
        serde_json::from_str(&record.with_machine(machine)).map_err(RequestError::Record)?;
    data["headline"] = headline(record, machine).into();
    data["id"] = record.id.clone().into();
    let mut body = Bounded(Vec::new());
    environment
        .get_template("body")
        .and_then(|template| {
            template
                .render_captured_to(Serde(&data), &mut body)
                .map(drop)
        })
        .map_err(RequestError::Template)?;
    if is_json {
        serde_json::from_slice::<serde::de::IgnoredAny>(&body.0).map_err(RequestError::NotJson)?;
    }
    Ok(body.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_that_of_the_specifications_example() {
        let key = STANDARD.decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let signature = signature(
            &key,
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            b"{\"test\": 2432232314}",
        );
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }
}
