//! The target of a configuration.

use super::{Target, alertmanager, chat, event_hubs, otlp, pagerduty, slack, teams, webhook};
use crate::config::{Kind, TargetConfig};
use crate::error::SettingError;

/// Sets up a target.
///
/// # Errors
/// A setting is missing or invalid, or a file cannot be read.
pub fn open(config: &TargetConfig, machine: &str) -> Result<Box<dyn Target>, SettingError> {
    Ok(match config.kind {
        Kind::Alertmanager => Box::new(alertmanager::Alertmanager::new(config, machine)?),
        Kind::EventHubs => Box::new(event_hubs::EventHubs::new(config, machine)?),
        Kind::Otlp => Box::new(otlp::Otlp::new(config, machine)?),
        Kind::Pagerduty => Box::new(pagerduty::PagerDuty::new(config, machine)?),
        Kind::Slack => Box::new(chat::Chat::new(config, machine, slack::SLACK)?),
        Kind::Teams => Box::new(chat::Chat::new(config, machine, teams::TEAMS)?),
        Kind::Webhook => Box::new(webhook::Webhook::new(config, machine)?),
    })
}
