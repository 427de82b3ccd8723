//! `approve`: approves events from outside their machines.

use std::collections::BTreeSet;
use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::path::Path;
use std::time::Duration;

use scheduled_events::record::event_key;
use scheduled_events::resource_name::Name;
use scheduled_events_common::failure::Failure;
use scheduled_events_common::output::print;
use scheduled_events_core::record::Printable;
use tokio::time::{Instant, timeout};

use super::access::{Access, AccessArgs};
use super::events::ask;
use crate::azure::arm::{ArmError, approval};
use crate::azure::graph::Events;
use crate::azure::transport::REQUEST_TIME;
use crate::notice::{Notice, Notices, key_of, subscription_of};

/// How long Resource Graph may take to say what the events are.
const ANSWER_TIME: Duration = Duration::from_secs(20);

#[derive(clap::Args)]
#[command(group(clap::ArgGroup::new("resource").args(["vm", "scale_set", "availability_set"]).requires("resource_group")))]
#[allow(clippy::doc_markdown)] // The doc comments are help texts for terminals.
pub(super) struct ApproveArgs {
    #[command(flatten)]
    access: AccessArgs,
    /// Name of the resource group
    #[arg(long, short = 'g', value_name = "NAME", value_parser = Name::parse_group, requires = "resource")]
    resource_group: Option<Name>,
    /// Name of the virtual machine that the events are of
    #[arg(long, value_name = "NAME", value_parser = Name::parse)]
    vm: Option<Name>,
    /// Name of the scale set that the events are of
    #[arg(long, value_name = "NAME", value_parser = Name::parse)]
    scale_set: Option<Name>,
    /// Name of the availability set that the events are of
    #[arg(long, value_name = "NAME", value_parser = Name::parse)]
    availability_set: Option<Name>,
    /// Print the request, and send nothing
    #[arg(long)]
    dry_run: bool,
    /// Do not ask before an approval for more than one machine
    #[arg(long, short)]
    yes: bool,
    /// Ids of the events, after the resource's id unless the resource is named with options
    #[arg(required = true, value_name = "RESOURCE-ID|EVENT-ID")]
    ids: Vec<String>,
}

pub(super) async fn approve(file: Option<&Path>, arguments: &ApproveArgs) -> Result<(), Failure> {
    let (resource_id, ids) = arguments.target(file)?;
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let (path, body) = approval(&resource_id, &ids).map_err(Failure::usage)?;
    if arguments.dry_run {
        let body = body.map_or(String::new(), |body| {
            format!("\n{}\n", String::from_utf8_lossy(&body))
        });
        return print(&format!("POST {path}\n{body}"));
    }
    let subscription = subscription_of(&resource_id).to_owned();
    let access = Access::new(
        file,
        &AccessArgs {
            subscriptions: vec![subscription],
            cloud: arguments.access.cloud,
        },
    )?;
    confirm(&access, &resource_id, &ids, arguments.yes).await?;
    let approved = match access.arm.access().await {
        Ok(token) => {
            let until = Instant::now() + REQUEST_TIME;
            access
                .arm
                .acknowledge(&token, &resource_id, &ids, until)
                .await
        }
        Err(error) => Err(error),
    };
    match approved {
        Ok(()) => print(&format!("approved: {}\n", ids.join(", "))),
        Err(ArmError::Refused(refusal)) if refusal.is_in_part(&ids) => {
            let of = |id: &&&str| {
                refusal
                    .details
                    .iter()
                    .any(|detail| detail.target.eq_ignore_ascii_case(id))
            };
            let approved: Vec<&str> = ids.iter().filter(|id| !of(id)).copied().collect();
            if !approved.is_empty() && refusal.approves_others() {
                print(&format!("approved: {}\n", approved.join(", ")))?;
            }
            let refused = refusal.details.iter().map(|detail| {
                let text = format!("{}: {}, {}", detail.target, detail.code, detail.message);
                Printable(&text).to_string()
            });
            Err(Failure::refused(format!(
                "not approved:\n  {}",
                refused.collect::<Vec<_>>().join("\n  ")
            )))
        }
        Err(error) => {
            let text = format!(
                "not approved, unless the request arrived and only its answer was lost: {error}"
            );
            Err(Failure::refused(text))
        }
    }
}

/// Asks the user, unless the events affect one machine, or `yes` is given. Refuses advice, and events
/// of other resources.
async fn confirm(
    access: &Access,
    resource_id: &str,
    ids: &[&str],
    yes: bool,
) -> Result<(), Failure> {
    let named: Vec<String> = ids.iter().map(|&id| id.to_owned()).collect();
    let found = match timeout(ANSWER_TIME, ask(access, Events::Named(&named))).await {
        Ok(Ok(mut found)) => {
            check_resource(&found.notices, resource_id, ids)?;
            let scope = key_of(resource_id);
            let is_of = |notice: &Notice| key_of(&notice.resource_id) == scope;
            found.notices.retain(is_of);
            Ok(found)
        }
        Ok(Err(failure)) => Err(failure),
        Err(_) => Err(Failure::refused("Resource Graph does not answer")),
    };
    let what = match found {
        Ok(found)
            if found
                .notices
                .iter()
                .any(|notice| notice.state == "advisory") =>
        {
            return Err(Failure::refused(
                "not approved: one of the events is advice, which an approval does not change",
            ));
        }
        _ if yes => return Ok(()),
        Ok(found) => match affected(&found, ids) {
            (machines, true) if machines.len() == 1 => return Ok(()),
            (machines, is_all) => {
                let unknown = if is_all {
                    ""
                } else {
                    " and machines that are not known"
                };
                format!(
                    "{} machines{unknown}: {}",
                    machines.len(),
                    machines.join(", ")
                )
            }
        },
        Err(failure) => format!("machines that are not known ({})", failure.message),
    };
    let question = Printable(&format!("This lets Azure start the events on {what}.")).to_string();
    if !std::io::stdin().is_terminal() {
        return Err(Failure::usage(format!(
            "{question} Add --yes if that is meant"
        )));
    }
    let _ = write!(std::io::stderr(), "{question} Continue? [y/N] ");
    let mut answer = String::new();
    let _ = std::io::stdin().lock().read_line(&mut answer);
    let is_yes = matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes");
    if is_yes {
        Ok(())
    } else {
        Err(Failure::refused("nothing was approved"))
    }
}

/// Refuses an event that Resource Graph has for other resources only.
fn check_resource(found: &[Notice], resource_id: &str, ids: &[&str]) -> Result<(), Failure> {
    let scope = key_of(resource_id);
    for id in ids {
        let key = event_key(id);
        let of: Vec<_> = found.iter().filter(|notice| notice.key == key).collect();
        let is_other = |notice: &&Notice| key_of(&notice.resource_id) != scope;
        if let [other, ..] = of[..]
            && of.iter().all(is_other)
        {
            let text = format!(
                "not approved: found event {id} of {}, expected one of {resource_id}; approve it with the id of its own resource",
                other.resource_id
            );
            return Err(Failure::refused(Printable(&text).to_string()));
        }
    }
    Ok(())
}

/// The names of the machines that the events affect, and whether these are all: each event was
/// found, names machines and could be read.
fn affected<'a>(found: &'a Notices, ids: &[&str]) -> (Vec<&'a str>, bool) {
    let names = |notice: &'a Notice| notice.event.resources.iter().flatten().map(String::as_str);
    let is_known = |id: &&str| {
        found
            .notices
            .iter()
            .any(|notice| notice.key == event_key(id) && names(notice).next().is_some())
    };
    let machines: BTreeSet<&str> = found.notices.iter().flat_map(names).collect();
    (
        machines.into_iter().collect(),
        found.problems.is_empty() && ids.iter().all(is_known),
    )
}

impl ApproveArgs {
    /// The resource, and the ids of the events.
    fn target(&self, file: Option<&Path>) -> Result<(String, &[String]), Failure> {
        let kinds = [
            ("virtualMachines", &self.vm),
            ("virtualMachineScaleSets", &self.scale_set),
            ("availabilitySets", &self.availability_set),
        ];
        let named = kinds
            .iter()
            .find_map(|(kind, name)| Some((kind, name.as_ref()?)));
        if let (Some((kind, name)), Some(group)) = (named, &self.resource_group) {
            let subscription = self.access.one_subscription(file)?;
            let id = format!(
                "/subscriptions/{subscription}/resourceGroups/{group}/providers/Microsoft.Compute/{kind}/{name}"
            );
            return Ok((id, &self.ids));
        }
        match &self.ids[..] {
            [id, events @ ..] if id.starts_with('/') && !events.is_empty() => {
                let own = subscription_of(id);
                match self
                    .access
                    .subscriptions
                    .iter()
                    .find(|given| !given.eq_ignore_ascii_case(own))
                {
                    Some(other) => Err(Failure::usage(format!(
                        "the resource is not of --subscription {other}: {id:?}"
                    ))),
                    None => Ok((id.clone(), events)),
                }
            }
            _ => Err(Failure::usage(
                "expected the resource's id and then ids of events, or --vm, --scale-set or --availability-set with -g and \
                 --subscription; `events --json` prints both ids",
            )),
        }
    }
}
