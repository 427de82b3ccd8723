//! Access to Azure for a person's commands: as the configuration says, or without one with the login of the Azure CLI.

use std::path::Path;

use scheduled_events_fleet::failure::Failure;

use crate::azure::arm::Arm;
use crate::azure::identity::Identity;
use crate::config::{Cloud, Config, DEFAULT_FILE, Identity as IdentityConfig, IdentityKind};

/// What a command asks, and about which subscriptions.
pub(super) struct Access {
    pub(super) arm: Arm,
    pub(super) subscriptions: Vec<String>,
}

/// How a command accesses Azure.
#[derive(clap::Args)]
pub(super) struct AccessArgs {
    /// Id of a subscription (repeatable) [default: those of the configuration]
    #[arg(long = "subscription", value_name = "ID", value_parser = subscription)]
    pub(super) subscriptions: Vec<String>,
    /// Without a configuration: the cloud that the Azure CLI is logged in to
    #[arg(long, value_enum, default_value_t = Cloud::Public)]
    pub(super) cloud: Cloud,
}

/// Checks a subscription's id.
pub(super) fn subscription(text: &str) -> Result<String, String> {
    crate::config::check_subscription(text).map(|()| text.to_owned())
}

/// The file that was given, or the default one if it exists.
fn configured(file: Option<&Path>) -> Option<&Path> {
    let default = Path::new(DEFAULT_FILE);
    file.or_else(|| default.exists().then_some(default))
}

impl AccessArgs {
    /// The subscription that was given, or else the one of the configuration.
    pub(super) fn one_subscription(&self, file: Option<&Path>) -> Result<String, Failure> {
        let all = match configured(file) {
            Some(file) if self.subscriptions.is_empty() => Config::load(file).map_err(Failure::usage)?.subscriptions,
            _ => self.subscriptions.clone(),
        };
        match <[String; 1]>::try_from(all) {
            Ok([one]) => Ok(one),
            Err(_) => Err(Failure::usage("expected one --subscription ID, the one of the resource")),
        }
    }
}

impl Access {
    /// As the configuration says, if there is one.
    pub(super) fn new(file: Option<&Path>, arguments: &AccessArgs) -> Result<Self, Failure> {
        let given = arguments.subscriptions.clone();
        let Some(file) = configured(file) else {
            if given.is_empty() {
                let text = format!("{DEFAULT_FILE} does not exist: give --subscription ID, or --config FILE");
                return Err(Failure::usage(text));
            }
            let identity = IdentityConfig { kind: IdentityKind::Az, client_id: None };
            let identity = Identity::new(&identity, arguments.cloud).map_err(Failure::refused)?;
            let management =
                arguments.cloud.management().parse().map_err(|error| Failure::refused(format!("{error}")))?;
            return Ok(Self { arm: Arm::new(management, identity).map_err(Failure::refused)?, subscriptions: given });
        };
        let config = Config::load(file).map_err(Failure::usage)?;
        let identity = Identity::new(&config.identity, config.cloud).map_err(Failure::refused)?;
        let management = config.management_url().map_err(Failure::usage)?;
        let arm = Arm::new(management, identity).map_err(Failure::refused)?;
        Ok(Self { arm, subscriptions: if given.is_empty() { config.subscriptions } else { given } })
    }
}
