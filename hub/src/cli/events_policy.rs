//! `events-policy`: the settings with which events are published outside the machines, for the tool that the operator uses.
//!
//! Everything is idempotent: typed a second time it changes nothing.

use clap::ValueEnum;
use scheduled_events::resource_name::Name;
use scheduled_events_core::wire;
use scheduled_events_fleet::cli::output::print;
use scheduled_events_fleet::failure::Failure;

use super::access::subscription;

/// The version of the compute API that has the whole policy.
const COMPUTE_API: &str = "2025-11-01";

/// The event type that the subscription lets through.
const EVENT_TYPE: &str = "Microsoft.ResourceNotifications.MaintenanceResources.ScheduledEventEmitted";

/// The topic of a subscription's maintenance.
const TOPIC_TYPE: &str = "microsoft.resourcenotifications.MaintenanceResources";

/// The role to read and to approve events, and the application of Azure's maintenance service, which needs it, too.
const ROLE: &str = "ScheduledEventContributor";
const MAINTENANCE: &str = "78315a30-673a-4a46-8e5c-ce59dbc6adf8";

/// The role to receive, renew, set aside and delete a queue's messages.
const QUEUE_ROLE: &str = "Storage Queue Data Contributor";

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
    /// Name of the storage account for the queue, in the same group [default: the word ACCOUNT, to be replaced]
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
    let mark = if arguments.tool == Tool::Bicep { "//" } else { "#" };
    let text = match arguments.tool {
        Tool::Az => plan.az(),
        Tool::Powershell => plan.powershell(),
        Tool::Rest => plan.rest(),
        Tool::Bicep => plan.bicep(),
        Tool::Terraform => plan.terraform(),
    };
    let comment = |lines: Vec<String>| format!("{mark} {}\n", lines.join(&format!("\n{mark} ")));
    print(&format!("{}\n{text}\n{}", comment(plan.summary()), comment(plan.remarks())))
}

/// What is to be changed.
struct Plan<'a> {
    arguments: &'a PolicyArgs,
    name: &'a Name,
    /// The type of the resource below `Microsoft.Compute`, and its words.
    kind: &'static str,
    words: &'static str,
    subscription: &'a str,
    account: String,
    principal: &'a str,
}

impl<'a> Plan<'a> {
    fn new(arguments: &'a PolicyArgs) -> Self {
        let PolicyArgs { vm, scale_set, availability_set, .. } = arguments;
        let (name, kind, words) = match (vm, scale_set, availability_set) {
            (_, Some(name), _) => (name, "virtualMachineScaleSets", "scale set"),
            (_, _, Some(name)) => (name, "availabilitySets", "availability set"),
            // One of the three is required.
            (vm, ..) => (vm.as_ref().unwrap_or(&arguments.resource_group), "virtualMachines", "virtual machine"),
        };
        let account = arguments.storage_account.as_ref().map_or("ACCOUNT".to_owned(), Name::to_string);
        let subscription = arguments.subscription.as_deref().unwrap_or("SUBSCRIPTION");
        let principal = arguments.principal.as_deref().unwrap_or("PRINCIPAL");
        Self { arguments, name, kind, words, subscription, account, principal }
    }

    fn enable(&self) -> bool {
        !self.arguments.disable
    }

    /// The policy as JSON: `scheduledEventsPolicy`.
    fn policy(&self) -> serde_json::Value {
        let targets = |more: serde_json::Value| serde_json::json!({ "eventGridAndResourceGraph": more });
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
            format!("The {words} {name} in {group} publishes its Scheduled Events inside the machines only.")
        }];
        let places = [
            (self.subscription, "SUBSCRIPTION", "the subscription's id"),
            (&self.account, "ACCOUNT", "the name of a storage account in this group"),
            (self.principal, "PRINCIPAL", "the object id of the hub's identity"),
        ];
        for (value, word, meaning) in places {
            let is_needed = self.enable() || word == "SUBSCRIPTION" && self.needs_subscription();
            if value == word && is_needed {
                lines.push(format!("Replace {word} by {meaning}, or give it to this command."));
            }
        }
        lines
    }

    fn needs_subscription(&self) -> bool {
        matches!(self.arguments.tool, Tool::Powershell | Tool::Rest | Tool::Terraform)
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
            let down = if self.arguments.announce_all_instances_down { "announced, too" } else { "approved by Azure" };
            lines.push(format!("While all instances are down, events are {down}."));
            lines.push(
                "A topic, a queue and a subscription serve all machines of the subscription: they are made once."
                    .to_owned(),
            );
        } else {
            lines.push("The topic, the queue and the roles stay: other machines may use them.".to_owned());
        }
        lines
    }

    fn topic_source(&self) -> String {
        format!("/subscriptions/{}", self.subscription)
    }

    fn queue_account(&self) -> String {
        format!(
            "{}/resourceGroups/{}/providers/Microsoft.Storage/storageAccounts/{}",
            self.topic_source(),
            self.arguments.resource_group,
            self.account
        )
    }

    fn az(&self) -> String {
        let group = self.arguments.resource_group.az("--resource-group");
        let command = match self.kind {
            "virtualMachineScaleSets" => "vmss",
            "availabilitySets" => "vm availability-set",
            _ => "vm",
        };
        let update = format!(
            "az {command} update {group} {} --set scheduledEventsPolicy='{}'\n",
            self.name.az("--name"),
            self.policy()
        );
        if !self.enable() {
            return update;
        }
        let (account, source, storage, principal) =
            (&self.account, self.topic_source(), self.queue_account(), self.principal);
        // A resource group may have parentheses.
        let quoted =
            |text: &str| if text.contains('(') || !text.is_ascii() { format!("'{text}'") } else { text.to_owned() };
        format!(
            "# Once for the subscription: the feature of the preview.\n\
             az feature register --namespace Microsoft.Compute --name SendScheduledEventsPolicy\n\
             # The machines publish their events.\n\
             {update}\
             # A queue, and a topic that fills it.\n\
             az storage queue create --name scheduled-events --account-name {account} --auth-mode login\n\
             az eventgrid system-topic create {group} --name scheduled-events --location global --topic-type {TOPIC_TYPE} --source {source}\n\
             az eventgrid system-topic event-subscription create {group} --system-topic-name scheduled-events --name hub \
             --endpoint-type storagequeue --endpoint {queue} --included-event-types {EVENT_TYPE}\n\
             # The hub reads and approves events, and reads the queue; Azure's maintenance service needs its role, too.\n\
             az role assignment create --assignee {principal} --role {ROLE} --scope {source}\n\
             az role assignment create --assignee {MAINTENANCE} --role {ROLE} --scope {source}\n\
             az role assignment create --assignee {principal} --role '{QUEUE_ROLE}' --scope {storage}\n",
            queue = quoted(&format!("{storage}/queueservices/default/queues/scheduled-events")),
            storage = quoted(&storage),
        )
    }

    fn compute_path(&self) -> String {
        format!(
            "/subscriptions/{}/resourceGroups/{}/providers/Microsoft.Compute/{}/{}?api-version={COMPUTE_API}",
            self.subscription,
            self.arguments.resource_group.url(),
            self.kind,
            self.name.url()
        )
    }

    fn body(&self) -> String {
        let body = serde_json::json!({ "properties": { "scheduledEventsPolicy": self.policy() } });
        serde_json::to_string_pretty(&body).unwrap_or_default()
    }

    fn powershell(&self) -> String {
        // Without a parameter of Update-AzVM, Update-AzVmss and Update-AzAvailabilitySet, which differ from version to version.
        let update = format!(
            "$policy = @'\n{}\n'@\nInvoke-AzRestMethod -Method PATCH -Path '{}' -Payload $policy\n",
            self.body(),
            self.compute_path()
        );
        if !self.enable() {
            return update;
        }
        let (source, storage, principal) = (self.topic_source(), self.queue_account(), self.principal);
        let group = self.arguments.resource_group.single_quoted();
        format!(
            "# Once for the subscription: the feature of the preview.\n\
             Register-AzProviderFeature -ProviderNamespace Microsoft.Compute -FeatureName SendScheduledEventsPolicy\n\
             # The machines publish their events.\n\
             {update}\
             # A queue, and a topic that fills it.\n\
             New-AzRmStorageQueue -ResourceGroupName {group} -StorageAccountName '{account}' -QueueName scheduled-events\n\
             New-AzEventGridSystemTopic -ResourceGroupName {group} -Name scheduled-events -Location global -TopicType {TOPIC_TYPE} -Source '{source}'\n\
             $queue = New-AzEventGridStorageQueueEventSubscriptionDestinationObject -ResourceId '{storage}' -QueueName scheduled-events\n\
             New-AzEventGridSystemTopicEventSubscription -ResourceGroupName {group} -SystemTopicName scheduled-events \
             -EventSubscriptionName hub -Destination $queue -FilterIncludedEventType {EVENT_TYPE}\n\
             # The hub reads and approves events, and reads the queue; Azure's maintenance service needs its role, too.\n\
             New-AzRoleAssignment -ObjectId {principal} -RoleDefinitionName {ROLE} -Scope '{source}'\n\
             New-AzRoleAssignment -ApplicationId {MAINTENANCE} -RoleDefinitionName {ROLE} -Scope '{source}'\n\
             New-AzRoleAssignment -ObjectId {principal} -RoleDefinitionName '{QUEUE_ROLE}' -Scope '{storage}'\n",
            account = self.account,
        )
    }

    fn rest(&self) -> String {
        let management = "https://management.azure.com";
        let json = "Content-Type: application/json";
        let update = format!("PATCH {management}{}\n{json}\n\n{}\n\n###\n", self.compute_path(), self.body());
        if !self.enable() {
            return update;
        }
        let (source, storage) = (self.topic_source(), self.queue_account());
        let group = self.arguments.resource_group.url();
        let topic =
            format!("{source}/resourceGroups/{group}/providers/Microsoft.EventGrid/systemTopics/scheduled-events");
        let storage_url = storage.replace(&self.arguments.resource_group.to_string(), &group);
        let subscription = serde_json::json!({ "properties": {
            "destination": { "endpointType": "StorageQueue",
                "properties": { "resourceId": storage, "queueName": "scheduled-events" } },
            "filter": { "includedEventTypes": [EVENT_TYPE] },
        } });
        let topic_body =
            serde_json::json!({ "location": "global", "properties": { "source": source, "topicType": TOPIC_TYPE } });
        format!(
            "POST {management}{source}/providers/Microsoft.Features/providers/Microsoft.Compute/features/SendScheduledEventsPolicy/register?api-version=2021-07-01\n\n\
             ###\n{update}\
             PUT {management}{storage_url}/queueServices/default/queues/scheduled-events?api-version=2023-05-01\n{json}\n\n{{}}\n\n\
             ###\nPUT {management}{topic}?api-version=2025-02-15\n{json}\n\n{topic_body:#}\n\n\
             ###\nPUT {management}{topic}/eventSubscriptions/hub?api-version=2025-02-15\n{json}\n\n{subscription:#}\n\n\
             ### Roles have ids of the tenant: assign them with az or PowerShell (--as az).\n",
        )
    }

    /// The policy in the notation of Bicep and of HCL, which differ in what is between a name and a value.
    fn members(&self, between: &str, indent: usize) -> String {
        fn text(value: &serde_json::Value, between: &str, indent: usize) -> String {
            let quote = if between == ": " { "'" } else { "\"" };
            let Some(members) = value.as_object() else {
                return value.as_str().map_or(value.to_string(), |value| format!("{quote}{value}{quote}"));
            };
            let space = " ".repeat(indent);
            let line = |(name, value)| format!("{space}  {name}{between}{}\n", text(value, between, indent + 2));
            let lines: Vec<String> = members.iter().map(line).collect();
            format!("{{\n{}{space}}}", lines.concat())
        }
        text(&self.policy(), between, indent)
    }

    fn bicep(&self) -> String {
        let policy = self.members(": ", 4);
        let resource = format!(
            "// Merge this into the resource of the {}, and deploy it to the resource group {}.\n\
             resource machines 'Microsoft.Compute/{}@{COMPUTE_API}' = {{\n  name: {}\n  properties: {{\n    scheduledEventsPolicy: {policy}\n  }}\n}}\n",
            self.words,
            self.arguments.resource_group,
            self.kind,
            self.name.single_quoted()
        );
        if !self.enable() {
            return resource;
        }
        format!(
            "{resource}\n\
             resource account 'Microsoft.Storage/storageAccounts@2023-05-01' existing = {{\n  name: '{account}'\n}}\n\n\
             resource queue 'Microsoft.Storage/storageAccounts/queueServices/queues@2023-05-01' = {{\n  name: '{account}/default/scheduled-events'\n}}\n\n\
             resource topic 'Microsoft.EventGrid/systemTopics@2025-02-15' = {{\n  name: 'scheduled-events'\n  location: 'global'\n  properties: {{\n    \
             source: subscription().id\n    topicType: '{TOPIC_TYPE}'\n  }}\n}}\n\n\
             resource hub 'Microsoft.EventGrid/systemTopics/eventSubscriptions@2025-02-15' = {{\n  parent: topic\n  name: 'hub'\n  properties: {{\n    \
             destination: {{\n      endpointType: 'StorageQueue'\n      properties: {{\n        resourceId: account.id\n        queueName: 'scheduled-events'\n      }}\n    }}\n    \
             filter: {{\n      includedEventTypes: [\n        '{EVENT_TYPE}'\n      ]\n    }}\n  }}\n  dependsOn: [\n    queue\n  ]\n}}\n\n\
             // Roles have ids of the tenant, and the feature is registered once for the subscription: type those commands (--as az).\n",
            account = self.account,
        )
    }

    fn terraform(&self) -> String {
        let policy = self.members(" = ", 6);
        let resource = format!(
            "resource \"azapi_update_resource\" \"machines\" {{\n  type        = \"Microsoft.Compute/{}@{COMPUTE_API}\"\n  resource_id = \"{}\"\n  \
             body = {{\n    properties = {{\n      scheduledEventsPolicy = {policy}\n    }}\n  }}\n}}\n",
            self.kind,
            self.compute_path().split('?').next().unwrap_or_default(),
        );
        if !self.enable() {
            return resource;
        }
        let (group, source, storage, principal) =
            (&self.arguments.resource_group, self.topic_source(), self.queue_account(), self.principal);
        let role = |label: &str, scope: &str, role: &str| {
            format!(
                "resource \"azurerm_role_assignment\" \"{label}\" {{\n  scope                = \"{scope}\"\n  \
                 role_definition_name = \"{role}\"\n  principal_id         = \"{principal}\"\n}}\n\n"
            )
        };
        format!(
            "{resource}\n\
             resource \"azurerm_storage_queue\" \"events\" {{\n  name               = \"scheduled-events\"\n  storage_account_id = \"{storage}\"\n}}\n\n\
             resource \"azurerm_eventgrid_system_topic\" \"events\" {{\n  name                = \"scheduled-events\"\n  resource_group_name = \"{group}\"\n  \
             location            = \"global\"\n  source_resource_id  = \"{source}\"\n  topic_type          = \"{TOPIC_TYPE}\"\n}}\n\n\
             resource \"azurerm_eventgrid_system_topic_event_subscription\" \"hub\" {{\n  name                 = \"hub\"\n  \
             system_topic         = azurerm_eventgrid_system_topic.events.name\n  resource_group_name  = \"{group}\"\n  \
             included_event_types = [\"{EVENT_TYPE}\"]\n  storage_queue_endpoint {{\n    storage_account_id = \"{storage}\"\n    \
             queue_name         = azurerm_storage_queue.events.name\n  }}\n}}\n\n{}{}\
             # Azure's maintenance service, the application {MAINTENANCE}, needs the first role, too. The feature of the preview is\n\
             # registered once for the subscription: type those two commands (--as az).\n",
            role("events", &source, ROLE),
            role("queue", &storage, QUEUE_ROLE),
        )
    }
}
