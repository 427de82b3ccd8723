//! A chat that receives one message for each record, by a webhook. Its address is a secret.

use std::time::Duration;

use serde_json::Value;

use super::{Endpoint, Item, RequestError, Target};
use crate::config::TargetConfig;
use crate::error::SettingError;
use crate::message::is_notable;
use crate::record::Record;
use crate::transport::{Outcome, Request};

/// The differences between the services.
pub(super) struct Service {
    /// The least time between two messages.
    pub(super) pause: Duration,
    /// The body of the request for a record of this machine.
    pub(super) message: fn(&Record, &str) -> Value,
    /// The meaning of an answer, if it differs from that of its status.
    pub(super) classify: fn(u16, &str) -> Option<Outcome>,
}

/// A webhook of a service.
pub(super) struct Chat {
    endpoint: Endpoint,
    machine: String,
    service: Service,
}

impl Chat {
    pub(super) fn new(
        config: &TargetConfig,
        machine: &str,
        service: Service,
    ) -> Result<Self, SettingError> {
        let endpoint = Endpoint {
            has_secret: true,
            ..Endpoint::new(config)
        }
        .check()?;
        Ok(Self {
            endpoint,
            machine: machine.to_owned(),
            service,
        })
    }
}

impl Target for Chat {
    fn wants(&self, record: &Record) -> bool {
        is_notable(record)
    }

    fn pause(&self) -> Duration {
        self.service.pause
    }

    fn requests(&self, items: &[Item]) -> Result<Vec<Request>, RequestError> {
        let request = |item: &Item| {
            let message = (self.service.message)(&item.record, &self.machine);
            Ok(self.endpoint.json("", &message)?)
        };
        items.iter().map(request).collect()
    }

    fn classify(&self, status: u16, body: &str) -> Option<Outcome> {
        (self.service.classify)(status, body)
    }
}
