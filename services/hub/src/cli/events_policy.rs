//! `events-policy`: the settings with which Azure publishes events outside the machines, for the
//! operator's tool.
//!
//! The output is idempotent: a second run changes nothing.

use clap::ValueEnum;
use scheduled_events::resource_name::Name;
use scheduled_events_common::failure::Failure;
use scheduled_events_common::output::print;
use scheduled_events_core::wire;

use super::access::subscription;

/// The same values for all operators, by their names in the templates.
const FIXED: [(&str, &str); 6] = [
    // The version of the compute API that has the whole policy.
    ("compute-api", "2025-11-01"),
    // The event type that the subscription accepts, and the topic of a subscription's maintenance.
    (
        "event-type",
        "Microsoft.ResourceNotifications.MaintenanceResources.ScheduledEventEmitted",
    ),
    (
        "topic-type",
        "microsoft.resourcenotifications.MaintenanceResources",
    ),
    // The role to read and to approve events, and the application of Azure's maintenance service,
    // which needs it, too.
    ("role", "ScheduledEventContributor"),
    ("maintenance", "78315a30-673a-4a46-8e5c-ce59dbc6adf8"),
    // The role to receive, renew, set aside and delete a queue's messages.
    ("queue-role", "Storage Queue Data Contributor"),
];

#[derive(clap::Args)]
#[command(group(clap::ArgGroup::new("resource").args(["vm", "scale_set", "availability_set"]).required(true)))]
#[allow(clippy::doc_markdown)] // The doc comments are help texts for terminals.
pub(super) struct PolicyArgs {
    /// Name of the virtual machine
    #[arg(long, value_name = "NAME", value_parser = Name::parse, allow_hyphen_values = true)]
    vm: Option<Name>,
    /// Name of the scale set
    #[arg(long, value_name = "NAME", value_parser = Name::parse, allow_hyphen_values = true)]
    scale_set: Option<Name>,
    /// Name of the availability set
    #[arg(long, value_name = "NAME", value_parser = Name::parse, allow_hyphen_values = true)]
    availability_set: Option<Name>,
    /// Name of its resource group
    #[arg(long, short = 'g', value_name = "NAME", value_parser = Name::parse_group, allow_hyphen_values = true)]
    resource_group: Name,
    /// Id of its subscription [default: the word SUBSCRIPTION, to be replaced]
    #[arg(long, value_name = "ID", value_parser = subscription)]
    subscription: Option<String>,
    /// Name of the storage account for the queue, in the same group [default: the word ACCOUNT, to
    /// be replaced]
    #[arg(long, value_name = "NAME", value_parser = Name::parse)]
    storage_account: Option<Name>,
    /// Object id of the hub's identity [default: the word PRINCIPAL, to be replaced]
    #[arg(long, value_name = "ID", value_parser = subscription)]
    principal: Option<String>,
    /// Let Azure approve reboots and redeploys that a user asks for: they start at once
    #[arg(long)]
    approve_user_events: bool,
    /// Announce events while all instances are down, too, instead of letting Azure approve them
    #[arg(long)]
    announce_all_instances_down: bool,
    /// Publish events outside the machines no more
    #[arg(long, conflicts_with_all = ["approve_user_events", "announce_all_instances_down"])]
    disable: bool,
    /// The tool to print it for
    #[arg(long = "as", value_name = "TOOL")]
    tool: Tool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Tool {
    /// Commands for the Azure CLI in a POSIX shell
    Az,
    /// Commands for the Az module
    Powershell,
    /// HTTP requests
    Rest,
    /// A Bicep template
    Bicep,
    /// A Terraform configuration, for the providers azurerm and azapi
    Terraform,
}

pub(super) fn events_policy(arguments: &PolicyArgs) -> Result<(), Failure> {
    let plan = Plan::new(arguments);
    let mark = if arguments.tool == Tool::Bicep {
        "//"
    } else {
        "#"
    };
    let text = plan.text();
    let comment = |lines: Vec<String>| format!("{mark} {}\n", lines.join(&format!("\n{mark} ")));
    print(&format!(
        "{}\n{text}\n{}",
        comment(plan.summary()),
        comment(plan.remarks())
    ))
}

/// The change to make.
struct Plan<'a> {
    arguments: &'a PolicyArgs,
    name: &'a Name,
    /// The type of the resource below `Microsoft.Compute`, its name in words, and its command of
    /// the Azure CLI.
    kind: &'static str,
    words: &'static str,
    command: &'static str,
    subscription: &'a str,
    account: String,
    principal: &'a str,
}

impl<'a> Plan<'a> {
    fn new(arguments: &'a PolicyArgs) -> Self {
        let PolicyArgs {
            vm,
            scale_set,
            availability_set,
            ..
        } = arguments;
        let (name, kind, words, command) = match (vm, scale_set, availability_set) {
            (_, Some(name), _) => (name, "virtualMachineScaleSets", "scale set", "vmss"),
            (_, _, Some(name)) => (
                name,
                "availabilitySets",
                "availability set",
                "vm availability-set",
            ),
            // One of the three is required.
            (vm, ..) => (
                vm.as_ref().unwrap_or(&arguments.resource_group),
                "virtualMachines",
                "virtual machine",
                "vm",
            ),
        };
        let account = arguments
            .storage_account
            .as_ref()
            .map_or("ACCOUNT".to_owned(), Name::to_string);
        let subscription = arguments.subscription.as_deref().unwrap_or("SUBSCRIPTION");
        let principal = arguments.principal.as_deref().unwrap_or("PRINCIPAL");
        Self {
            arguments,
            name,
            kind,
            words,
            command,
            subscription,
            account,
            principal,
        }
    }

    fn enable(&self) -> bool {
        !self.arguments.disable
    }

    /// The policy as JSON: `scheduledEventsPolicy`.
    fn policy(&self) -> serde_json::Value {
        let targets =
            |more: serde_json::Value| serde_json::json!({ "eventGridAndResourceGraph": more });
        if !self.enable() {
            return serde_json::json!({
                "scheduledEventsAdditionalPublishingTargets": targets(serde_json::json!({ "enable": false })),
            });
        }
        let approve = |yes: bool| serde_json::json!({ "automaticallyApprove": yes });
        let user = self.arguments.approve_user_events;
        serde_json::json!({
            "scheduledEventsAdditionalPublishingTargets":
                targets(serde_json::json!({ "enable": true, "scheduledEventsApiVersion": wire::API_VERSION })),
            "userInitiatedRedeploy": approve(user),
            "userInitiatedReboot": approve(user),
            "allInstancesDown": approve(!self.arguments.announce_all_instances_down),
        })
    }

    fn summary(&self) -> Vec<String> {
        let (words, name, group) = (self.words, self.name, &self.arguments.resource_group);
        let mut lines = vec![if self.enable() {
            format!(
                "The {words} {name} in {group} publishes its Scheduled Events to Event Grid and Resource Graph (preview)."
            )
        } else {
            format!(
                "The {words} {name} in {group} publishes its Scheduled Events inside the machines only."
            )
        }];
        let places = [
            (self.subscription, "SUBSCRIPTION", "the subscription's id"),
            (
                &self.account,
                "ACCOUNT",
                "the name of a storage account in this group",
            ),
            (
                self.principal,
                "PRINCIPAL",
                "the object id of the hub's identity",
            ),
        ];
        for (value, word, meaning) in places {
            let is_needed = self.enable() || word == "SUBSCRIPTION" && self.needs_subscription();
            if value == word && is_needed {
                lines.push(format!(
                    "Replace {word} by {meaning}, or give it to this command."
                ));
            }
        }
        lines
    }

    fn needs_subscription(&self) -> bool {
        matches!(
            self.arguments.tool,
            Tool::Powershell | Tool::Rest | Tool::Terraform
        )
    }

    fn remarks(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if self.kind == "virtualMachines" {
            lines.push(
                "A machine of a scale set or an availability set has the policy of its set, and cannot have its own."
                    .to_owned(),
            );
        }
        if self.enable() {
            let down = if self.arguments.announce_all_instances_down {
                "announced, too"
            } else {
                "approved by Azure"
            };
            lines.push(format!("While all instances are down, events are {down}."));
            lines.push(
                "A topic, a queue and a subscription serve all machines of the subscription: they are made once."
                    .to_owned(),
            );
        } else {
            lines.push(
                "The topic, the queue and the roles stay: other machines may use them.".to_owned(),
            );
        }
        lines
    }

    /// The text for the tool. Without publication, it leaves out objects that are created once for
    /// all machines.
    fn text(&self) -> String {
        let (update, all, policy) = match self.arguments.tool {
            Tool::Az => (
                include_str!("events_policy/az-update.txt"),
                include_str!("events_policy/az.txt"),
                self.policy().to_string(),
            ),
            // Without a parameter of Update-AzVM, Update-AzVmss and Update-AzAvailabilitySet, which
            // differ between versions.
            Tool::Powershell => (
                include_str!("events_policy/powershell-update.txt"),
                include_str!("events_policy/powershell.txt"),
                self.body(),
            ),
            Tool::Rest => (
                include_str!("events_policy/rest-update.txt"),
                include_str!("events_policy/rest.txt"),
                self.body(),
            ),
            Tool::Bicep => (
                include_str!("events_policy/bicep-update.txt"),
                include_str!("events_policy/bicep.txt"),
                notation(&self.policy(), ": ", '\'', 4),
            ),
            Tool::Terraform => (
                include_str!("events_policy/terraform-update.txt"),
                include_str!("events_policy/terraform.txt"),
                notation(&self.policy(), " = ", '"', 6),
            ),
        };
        let (name, group) = (self.name, &self.arguments.resource_group);
        let source = format!("/subscriptions/{}", self.subscription);
        let storage = format!(
            "{source}/resourceGroups/{group}/providers/Microsoft.Storage/storageAccounts/{}",
            self.account
        );
        let queue = format!("{storage}/queueservices/default/queues/scheduled-events");
        // For a shell: a resource group may have parentheses.
        let is_plain = storage.is_ascii() && !storage.contains(['(', ')']);
        let quoted = |text: &str| {
            if is_plain {
                text.to_owned()
            } else {
                format!("'{text}'")
            }
        };
        let values = [
            ("policy", policy),
            ("command", self.command.to_owned()),
            ("kind", self.kind.to_owned()),
            ("words", self.words.to_owned()),
            ("name", name.to_string()),
            ("name-option", name.az("--name")),
            ("name-in-url", name.url()),
            ("group", group.to_string()),
            ("group-option", group.az("--resource-group")),
            ("group-in-url", group.url()),
            ("principal", self.principal.to_owned()),
            ("account", self.account.clone()),
            ("queue-quoted", quoted(&queue)),
            ("storage-quoted", quoted(&storage)),
            ("storage", storage),
            ("source", source),
        ];
        let fixed = FIXED.map(|(name, value)| (name, value.to_owned()));
        let template = if self.enable() {
            all.replace("{update}", update)
        } else {
            update.to_owned()
        };
        let values = values.iter().chain(&fixed);
        values.fold(template, |text, (name, value)| {
            text.replace(&format!("{{{name}}}"), value)
        })
    }

    fn body(&self) -> String {
        format!(
            "{:#}",
            serde_json::json!({ "properties": { "scheduledEventsPolicy": self.policy() } })
        )
    }
}

/// A value in the notation of Bicep or of HCL, which differ in the text between a name and a value,
/// and in the quotation marks.
fn notation(value: &serde_json::Value, between: &str, quote: char, indent: usize) -> String {
    let Some(members) = value.as_object() else {
        return value
            .as_str()
            .map_or(value.to_string(), |value| format!("{quote}{value}{quote}"));
    };
    let space = " ".repeat(indent);
    let line = |(name, value)| {
        format!(
            "{space}  {name}{between}{}\n",
            notation(value, between, quote, indent + 2)
        )
    };
    let lines: Vec<String> = members.iter().map(line).collect();
    format!("{{\n{}{space}}}", lines.concat())
}
