//! `check`: whether the hub has the access that it needs, and the command that grants it. Nothing
//! is changed.

use std::error::Error;
use std::fmt::Display;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{Access, access};
use scheduled_events::policy_file;
use scheduled_events_common::failure::Failure;
use scheduled_events_common::output::print_findings;
use scheduled_events_gate::engine::EngineError;
use scheduled_events_text::finding::Finding;
use scheduled_events_text::words::count;
use tokio::time::timeout;

use crate::azure::arm::{Arm, ArmError};
use crate::azure::graph::Events;
use crate::azure::identity::Identity;
use crate::azure::queue::{Queue, QueueError, sibling};
use crate::config::{Approve, Config, IdentityKind, Queue as QueueConfig};
use crate::notice;
use crate::store::{RegistersError, check_folder, open_registers, own_groups};

/// How long an engine may take to answer.
const ENGINE_TIME: Duration = Duration::from_secs(10);

/// The results of the checks.
#[derive(Default)]
struct Report(Vec<Finding<String>>);

impl Report {
    /// Adds a result: what was found, or the reason of its failure and the remedy to type.
    fn add(&mut self, what: &str, result: Result<String, impl Display>, remedy: &str) {
        let what = what.to_owned();
        self.0.push(match result {
            Ok(found) => Finding::ok(what, found),
            Err(why) => Finding::fail(what, why.to_string(), remedy),
        });
    }
}

/// Prints what was found.
///
/// # Errors
/// The configuration is invalid, or a check fails.
pub(super) async fn check(file: &Path, json: bool) -> Result<(), Failure> {
    let config = Config::load(file).map_err(Failure::usage)?;
    let mut report = Report::default();
    let rules = policy_file::load(&config.policy).map(|policy| count(policy.rules().len(), "rule"));
    report.add("policy", rules, "correct the file that `policy` names");
    let remedy = "let the user of the hub write there";
    report.add("audit", audit(&config.audit, &config.state), remedy);
    report.add("state", state(&config.state), remedy);
    if let Some(path) = &config.metrics {
        // The hub works without it.
        report.0.push(match replaceable(path) {
            Ok(found) => Finding::ok("metrics".into(), found),
            Err(why) => Finding::warn("metrics".into(), why.to_string(), remedy),
        });
    }
    for (name, file) in [("gate", &config.gate), ("store", &config.store)] {
        if let Some(file) = file {
            let remedy = format!("correct the file that `{name}` names, or repair its engine");
            report.add(name, registers(file).await, &remedy);
        }
    }
    for (name, command) in [
        ("hooks.prepare", &config.hooks.prepare),
        ("hooks.recover", &config.hooks.recover),
    ] {
        if let Some(command) = command {
            let program = command.words()[0].clone();
            let found = if command.program_exists() {
                Ok(program)
            } else {
                Err(format!(
                    "there is no program {program:?}, or it is not executable"
                ))
            };
            report.add(
                name,
                found,
                "write the path of a program: commands are run without a shell",
            );
        }
    }
    let identity = Identity::new(&config.identity, config.cloud).map_err(Failure::refused)?;
    let management = config.management_url().map_err(Failure::usage)?;
    let arm = Arm::new(management.clone(), identity.clone()).map_err(Failure::refused)?;
    let token = identity
        .token(management.as_str())
        .await
        .map(|_| "given".to_owned());
    let has_token = token.is_ok();
    report.add("token", token, login(config.identity.kind));
    if has_token {
        check_graph(&config, &arm, &mut report).await;
    }
    if let Some(queue) = &config.queue {
        report.add(
            "queue",
            check_queue(queue, &identity).await,
            &queue_remedy(queue),
        );
        if let Some(name) = &queue.poison {
            let poison = QueueConfig {
                url: sibling(&queue.url, name),
                poison: None,
                ..queue.clone()
            };
            report.add(
                "queue.poison",
                check_queue(&poison, &identity).await,
                &queue_remedy(&poison),
            );
        }
    }
    if config.approve == Approve::Never {
        report.add(
            "approve",
            Ok::<_, &str>("never: nothing is prepared for or approved".into()),
            "",
        );
    }
    print_findings(&report.0, json)
}

/// Whether this user may write the audit file. The hub does not make its folder; where the state is
/// in the same one, the unit does.
fn audit(path: &Path, state: &Path) -> Result<String, Box<dyn Error>> {
    let full = std::path::absolute(path)?;
    let folder = full.parent().unwrap_or(&full);
    if folder.try_exists().unwrap_or(true) {
        return writable(path, false);
    }
    let (shown, missing) = (path.display(), folder.display());
    if std::path::absolute(state)?.starts_with(folder) {
        Ok(format!(
            "{shown}, which does not exist yet: the unit makes the folder {missing}"
        ))
    } else {
        Err(format!("{shown}: the folder {missing} does not exist; create it").into())
    }
}

/// Whether the hub may use the folder, if it exists. Root checks for the hub's user, who is its owner, and whose groups are
/// not known.
fn state(path: &Path) -> Result<String, Box<dyn Error>> {
    if let Ok(found) = path.symlink_metadata()
        && (found.is_dir() || found.is_symlink())
    {
        let user = rustix::process::geteuid();
        let (user, groups) = if user.is_root() {
            (found.uid(), Vec::new())
        } else {
            (user.as_raw(), own_groups()?)
        };
        check_folder(path, user, &groups)
            .map_err(|error| format!("{}: {error}", path.display()))?;
    }
    writable(path, true)
}

/// Whether this user may replace a file.
fn replaceable(path: &Path) -> Result<String, Box<dyn Error>> {
    let (full, shown) = (std::path::absolute(path)?, path.display());
    let folder = full.parent().unwrap_or(&full);
    if path.is_dir() {
        return Err(format!("{shown}: it is no regular file").into());
    }
    access(folder, Access::WRITE_OK)
        .map_err(|error| format!("{shown}: {}: {error}", folder.display()))?;
    Ok(shown.to_string())
}

/// Whether this user may write a file or a folder, or create it.
fn writable(path: &Path, is_folder: bool) -> Result<String, Box<dyn Error>> {
    let shown = path.display();
    if path.exists()
        && !(if is_folder {
            path.is_dir()
        } else {
            path.is_file()
        })
    {
        let expected = if is_folder { "folder" } else { "regular file" };
        return Err(format!("{shown}: it is no {expected}").into());
    }
    let full = std::path::absolute(path)?;
    let path = full.as_path();
    if let Err(error) = path.try_exists()
        && error.kind() == ErrorKind::PermissionDenied
    {
        return Err(format!("{shown}: {error}").into());
    }
    let existing = path
        .ancestors()
        .find(|path| path.exists())
        .unwrap_or(Path::new("/"));
    if existing != path && !existing.is_dir() {
        return Err(format!("{shown}: {} is no folder", existing.display()).into());
    }
    access(existing, Access::WRITE_OK)
        .map_err(|error| format!("{shown}: {}: {error}", existing.display()))?;
    Ok(if existing == path {
        format!("{shown}")
    } else {
        format!("{shown}, which does not exist yet")
    })
}

/// Whether the engine of a fleet's configuration answers.
async fn registers(file: &Path) -> Result<String, RegistersError> {
    let engine = open_registers(file).await?;
    let listed = timeout(ENGINE_TIME, engine.list("machines/")).await;
    listed
        .unwrap_or_else(|_| Err(EngineError("its engine does not answer".into())))
        .map_err(RegistersError::Engine)?;
    Ok("its engine answers".into())
}

async fn check_queue(queue: &QueueConfig, identity: &Identity) -> Result<String, QueueError> {
    let place = scheduled_events_common::address::shown(queue.url.as_str());
    let length = Queue::new(queue, identity)?.length().await?;
    Ok(format!("{place}, about {length} messages"))
}

/// Whether each subscription can be read, and whether events were ever published.
async fn check_graph(config: &Config, arm: &Arm, report: &mut Report) {
    for subscription in &config.subscriptions {
        let one = std::slice::from_ref(subscription);
        let count = |pages: Vec<String>| -> usize {
            pages
                .iter()
                .filter_map(|page| notice::read(page.as_bytes()).ok())
                .map(|read| read.notices.len())
                .sum()
        };
        let found = arm.query(one, &Events::All.query()).await.map(count);
        let remedy = found
            .as_ref()
            .map_or_else(|error| graph_remedy(error, subscription), |_| String::new());
        let found = match found {
            Ok(events @ 1..) => Ok(format!("{events} events, those that are over included")),
            Ok(0) => Ok(format!(
                "no event yet: nothing was announced, or no machine publishes its events (scheduled-events-hub events-policy \
                 --vm NAME -g GROUP --subscription {subscription} --as az)"
            )),
            Err(error) => Err(error),
        };
        report.add(&format!("subscription {subscription}"), found, &remedy);
    }
}

fn graph_remedy(error: &ArmError, subscription: &str) -> String {
    match error.status() {
        Some(401 | 403) => format!(
            "az role assignment create --assignee PRINCIPAL --role ScheduledEventContributor --scope /subscriptions/{subscription}"
        ),
        Some(404) => "correct the id of the subscription, or `cloud`".into(),
        _ => "let this machine reach `management`".into(),
    }
}

fn queue_remedy(queue: &QueueConfig) -> String {
    let url = &queue.url;
    let parts: Vec<_> = url
        .path_segments()
        .into_iter()
        .flatten()
        .filter(|part| !part.is_empty())
        .collect();
    let host = url.host_str().unwrap_or_default();
    // An emulator has the account in its path.
    let (account, name) = match parts[..] {
        [account, name] => (account, name),
        _ => (
            host.split('.').next().unwrap_or_default(),
            parts.last().copied().unwrap_or_default(),
        ),
    };
    let create =
        format!("az storage queue create --name {name} --account-name {account} --auth-mode login");
    if queue.sas_file.is_some() {
        return format!(
            "make a SAS token for `queue.sas_file` that is valid and may read, add and process messages; {create}"
        );
    }
    format!(
        "{create}; az role assignment create --assignee PRINCIPAL --role 'Storage Queue Data Contributor' \
         --scope \"$(az storage account show --name {account} --query id --output tsv)\""
    )
}

const fn login(kind: IdentityKind) -> &'static str {
    match kind {
        IdentityKind::Managed => "az vm identity assign --resource-group GROUP --name VM",
        IdentityKind::Workload => {
            "give the pod's service account a federated credential, and the pod the label azure.workload.identity/use"
        }
        IdentityKind::Az => "az login",
        IdentityKind::Emulator => "start the emulator",
    }
}
