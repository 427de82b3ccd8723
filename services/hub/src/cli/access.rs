//! Access to Azure for a person's commands: as configured, or, without a configuration, by the
//! login of the Azure CLI.

use std::path::Path;

use scheduled_events_common::failure::Failure;

use crate::azure::arm::Arm;
use crate::azure::identity::Identity;
use crate::config::{
    Cloud, Config, DEFAULT_FILE, Identity as IdentityConfig, IdentityKind, SettingError,
    check_subscription,
};

/// The service and the subscriptions of a command.
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
pub(super) fn subscription(text: &str) -> Result<String, SettingError> {
    check_subscription(text).map(|()| text.to_owned())
}

/// The given file, or the default one if it exists.
fn configured(file: Option<&Path>) -> Option<&Path> {
    let default = Path::new(DEFAULT_FILE);
    file.or_else(|| default.exists().then_some(default))
}

impl AccessArgs {
    /// The given subscription, or otherwise that of the configuration.
    pub(super) fn one_subscription(&self, file: Option<&Path>) -> Result<String, Failure> {
        let all = match configured(file) {
            Some(file) if self.subscriptions.is_empty() => {
                Config::load(file).map_err(Failure::usage)?.subscriptions
            }
            _ => self.subscriptions.clone(),
        };
        match <[String; 1]>::try_from(all) {
            Ok([one]) => Ok(one),
            Err(_) => Err(Failure::usage(
                "expected one --subscription ID, the one of the resource",
            )),
        }
    }
}

impl Access {
    /// As configured, if there is a configuration.
    pub(super) fn new(file: Option<&Path>, arguments: &AccessArgs) -> Result<Self, Failure> {
        let given = arguments.subscriptions.clone();
        let (identity, cloud, management, own) = match configured(file) {
            Some(file) => {
                let config = Config::load(file).map_err(Failure::usage)?;
                let management = config.management_url().map_err(Failure::usage)?;
                (
                    config.identity,
                    config.cloud,
                    management,
                    config.subscriptions,
                )
            }
            None if given.is_empty() => {
                let text = format!(
                    "{DEFAULT_FILE} does not exist: give --subscription ID, or --config FILE"
                );
                return Err(Failure::usage(text));
            }
            None => {
                let identity = IdentityConfig {
                    kind: IdentityKind::Az,
                    client_id: None,
                };
                let management = arguments.cloud.management().parse();
                let management = management.map_err(Failure::refused)?;
                (identity, arguments.cloud, management, Vec::new())
            }
        };
        let identity = Identity::new(&identity, cloud).map_err(Failure::refused)?;
        let arm = Arm::new(management, identity).map_err(Failure::refused)?;
        Ok(Self {
            arm,
            subscriptions: if given.is_empty() { own } else { given },
        })
    }
}
