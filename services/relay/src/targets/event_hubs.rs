//! An Azure Event Hub, by its REST interface, with the machine's managed identity.
//!
//! The partition key is the machine's name, so that a machine's records stay in their order.

use serde_json::json;

use super::{Endpoint, Item, RequestError, Target};
use crate::audit::digest;
use crate::config::TargetConfig;
use crate::error::SettingError;
use crate::transport::{Identity, Request};
use scheduled_events_common::secret::Secret;

/// The service that the token is for.
const RESOURCE: &str = "https://eventhubs.azure.net";

/// The content type that the interface requires, whatever the body is.
const CONTENT_TYPE: &str = "application/atom+xml;type=entry;charset=utf-8";

/// The longest partition key, in characters: the service's limit.
const KEY_MAX: usize = 128;

/// An Event Hub.
pub(super) struct EventHubs {
    endpoint: Endpoint,
    machine: String,
    identity: Identity,
}

impl EventHubs {
    pub(super) fn new(config: &TargetConfig, machine: &str) -> Result<Self, SettingError> {
        let endpoint = Endpoint {
            has_secret: true,
            ..Endpoint::new(config)
        }
        .check()?;
        let identity = Identity {
            resource: RESOURCE,
            client_id: config.client_id.clone(),
        };
        Ok(Self {
            endpoint,
            machine: machine.to_owned(),
            identity,
        })
    }

    fn request(&self, item: &Item) -> Result<Request, RequestError> {
        let body = item.record.with_machine(&self.machine).into_bytes();
        let path = "messages?timeout=60&api-version=2014-01";
        let mut request = self.endpoint.request(path, CONTENT_TYPE, body)?;
        let is_plain = self.machine.len() <= KEY_MAX
            && self.machine.bytes().all(|byte| byte.is_ascii_graphic());
        let key = if is_plain {
            self.machine.clone()
        } else {
            digest(self.machine.as_bytes())
        };
        let properties = json!({ "PartitionKey": key }).to_string();
        request
            .headers
            .push(("brokerproperties".to_owned(), Secret::new(properties)));
        request.identity = Some(self.identity.clone());
        Ok(request)
    }
}

impl Target for EventHubs {
    fn requests(&self, items: &[Item]) -> Result<Vec<Request>, RequestError> {
        items.iter().map(|item| self.request(item)).collect()
    }
}
