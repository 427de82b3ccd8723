//! `terminate-profile`: how a scale set announces deletions, for the tool that the operator uses.

use clap::{Args, ValueEnum};
use scheduled_events_core::terminate::{COMPUTE_API_VERSION, EVENTS_API_VERSION, NotBeforeTimeout, ProfileRule};

use super::names::Name;
use crate::cli::error::CommandError;
use crate::cli::output::print;

/// The version of the compute API in the requests and templates. PATCH of the profile is known since this one.
const API_VERSION: &str = "2021-07-01";

#[derive(Args)]
#[allow(clippy::doc_markdown)] // The doc comments are help texts for terminals.
pub(in crate::cli) struct TerminateProfileArgs {
    /// Name of the scale set
    #[arg(long, value_name = "NAME", value_parser = Name::parse, allow_hyphen_values = true)]
    scale_set: Name,
    /// Name of its resource group
    #[arg(long, value_name = "NAME", value_parser = Name::parse_group, allow_hyphen_values = true)]
    resource_group: Name,
    /// How long a deletion waits for its approval: 5 to 15 minutes, such as 10m or PT10M
    #[arg(long, value_name = "TIME", required_unless_present = "disable", value_parser = timeout)]
    timeout: Option<NotBeforeTimeout>,
    /// Announce deletions no more
    #[arg(long, conflicts_with = "timeout")]
    disable: bool,
    /// Print how to create the scale set, with az, powershell or portal
    #[arg(long, conflicts_with = "disable")]
    create: bool,
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
    /// Steps in the Azure portal
    Portal,
    /// A part of a Bicep template
    Bicep,
    /// A part of a Terraform configuration, for the azurerm provider
    Terraform,
}

pub(in crate::cli) fn terminate_profile(args: &TerminateProfileArgs) -> Result<(), CommandError> {
    let TerminateProfileArgs { scale_set: set, resource_group: group, timeout, create, .. } = args;
    let plan = Plan { set, group, timeout: *timeout, create: *create };
    let in_minutes = matches!(args.tool, Tool::Az | Tool::Powershell | Tool::Portal);
    if let Some(timeout) = args.timeout.filter(|timeout| in_minutes && timeout.as_whole_minutes().is_none()) {
        let message = format!(
            "{timeout} is not a whole number of minutes, which this tool needs; use --as rest, bicep or terraform"
        );
        return Err(CommandError::usage(message));
    }
    if args.create && !in_minutes {
        let message = "--create is for az, powershell and portal; without it, this prints the profile that a new scale set's model needs, too";
        return Err(CommandError::usage(message));
    }
    print(plan.text(args.tool).as_bytes())
}

/// What is to be changed; without a time-out, deletions are not announced.
struct Plan<'a> {
    set: &'a Name,
    group: &'a Name,
    timeout: Option<NotBeforeTimeout>,
    /// Whether the scale set is new.
    create: bool,
}

impl Plan<'_> {
    fn text(&self, tool: Tool) -> String {
        let text = match tool {
            Tool::Az if self.create => self.az_create(),
            Tool::Powershell if self.create => self.powershell_create(),
            Tool::Portal if self.create => self.portal_create(),
            Tool::Az => self.az(),
            Tool::Powershell => self.powershell(),
            Tool::Rest => self.rest(),
            Tool::Portal => self.portal(),
            Tool::Bicep => self.bicep(),
            Tool::Terraform => self.terraform(),
        };
        let mark = match tool {
            Tool::Bicep => "// ",
            Tool::Portal => "",
            _ => "# ",
        };
        let comment = |sentences: Vec<String>| mark.to_owned() + &sentences.join(&format!("\n{mark}")) + "\n";
        comment(self.summary()) + "\n" + &text + "\n" + &comment(self.remarks(tool))
    }

    /// What the text does.
    fn summary(&self) -> Vec<String> {
        let Self { set, group, .. } = self;
        vec![match self.timeout {
            Some(timeout) => format!(
                "The scale set {set} in {group} announces each deletion of an instance with a Terminate event, which waits {} for its \
                 approval.",
                words(timeout)
            ),
            None => format!("The scale set {set} in {group} announces no deletion any more."),
        }]
    }

    /// What it needs, and what else to know.
    fn remarks(&self, tool: Tool) -> Vec<String> {
        let mut remarks = Vec::new();
        let old = match self.timeout {
            Some(_) => "it is deleted without an event, or with the time-out that it had",
            None => "its deletion is still announced",
        };
        if !self.create {
            remarks.push(format!("An instance that is not updated to the latest model keeps the old one: {old}."));
        }
        if matches!(tool, Tool::Rest | Tool::Bicep) {
            remarks.push(format!("The compute API needs version {COMPUTE_API_VERSION} or later."));
        }
        if self.timeout.is_some() {
            remarks.push(format!(
                "On the instances, the metadata service needs api-version {EVENTS_API_VERSION} or later: older ones deliver no \
                 Terminate events."
            ));
            remarks.push(
                "Spot instances cannot have it. The time-out of an event cannot be extended once it is announced."
                    .into(),
            );
        }
        remarks
    }

    fn az(&self) -> String {
        let target = format!("{} {}", self.group.az("--resource-group"), self.set.az("--name"));
        let options = match self.timeout.and_then(NotBeforeTimeout::as_whole_minutes) {
            Some(minutes) => format!("--enable-terminate-notification true --terminate-notification-time {minutes}"),
            None => "--enable-terminate-notification false".into(),
        };
        format!(
            "az vmss update {target} {options}\n\
             # Update all instances to the latest model.\n\
             az vmss update-instances {target} --instance-ids '*'\n\
             # Show the result.\n\
             az vmss show {target} --query virtualMachineProfile.scheduledEventsProfile\n"
        )
    }

    fn powershell(&self) -> String {
        let (group, set) = (self.group.single_quoted(), self.set.single_quoted());
        let target = format!("-ResourceGroupName {group} -VMScaleSetName {set}");
        let options = match self.timeout.and_then(NotBeforeTimeout::as_whole_minutes) {
            Some(minutes) => {
                format!("-TerminateScheduledEvents $true -TerminateScheduledEventNotBeforeTimeoutInMinutes {minutes}")
            }
            None => "-TerminateScheduledEvents $false".into(),
        };
        format!(
            "Update-AzVmss {target} {options}\n\
             # Update all instances to the latest model.\n\
             $instances = (Get-AzVmssVM {target}).InstanceId\n\
             Update-AzVmssInstance {target} -InstanceId $instances\n\
             # Show the result.\n\
             (Get-AzVmss {target}).VirtualMachineProfile.ScheduledEventsProfile.TerminateNotificationProfile\n"
        )
    }

    fn minutes(&self) -> u32 {
        self.timeout.and_then(NotBeforeTimeout::as_whole_minutes).unwrap_or_default()
    }

    fn az_create(&self) -> String {
        format!(
            "# Replace IMAGE and USER, and add the other options of your machines.\n\
             az vmss create {} {} --image IMAGE --admin-username USER --generate-ssh-keys --terminate-notification-time {}\n",
            self.group.az("--resource-group"),
            self.set.az("--name"),
            self.minutes()
        )
    }

    fn powershell_create(&self) -> String {
        format!(
            "# Replace LOCATION and SIZE, and add the other parameters of your machines.\n\
             $config = New-AzVmssConfig -Location 'LOCATION' -SkuName 'SIZE' -SkuCapacity 2 -TerminateScheduledEvents $true \
             -TerminateScheduledEventNotBeforeTimeoutInMinutes {}\n\
             # Add image, account and network to $config with Set-AzVmssStorageProfile, Set-AzVmssOsProfile and\n\
             # Add-AzVmssNetworkInterfaceConfiguration. Then create the scale set.\n\
             New-AzVmss -ResourceGroupName {} -VMScaleSetName {} -VirtualMachineScaleSet $config\n",
            self.minutes(),
            self.group.single_quoted(),
            self.set.single_quoted()
        )
    }

    fn portal_create(&self) -> String {
        let Self { set, group, .. } = self;
        format!(
            "1. Open \"Virtual machine scale sets\", and select \"Create\".\n\
             2. Enter the resource group {group}, the name {set}, and what your machines need.\n\
             3. Open the tab \"Management\", and find \"Instance termination\".\n\
             4. Set \"Instance termination notification\" to On.\n\
             5. Set \"Termination delay (minutes)\" to {}.\n\
             6. Select \"Review + create\".\n",
            self.minutes()
        )
    }

    fn rest(&self) -> String {
        let url = format!(
            "https://management.azure.com/subscriptions/{{subscriptionId}}/resourceGroups/{}/providers/Microsoft.Compute/\
             virtualMachineScaleSets/{}",
            self.group.url(),
            self.set.url()
        );
        // The order of Microsoft's example. A test compares it with the profile of the core.
        let timeout =
            self.timeout.map_or(String::new(), |timeout| format!("          \"notBeforeTimeout\": \"{timeout}\",\n"));
        let body = format!(
            "{{\n  \"properties\": {{\n    \"virtualMachineProfile\": {{\n      \"scheduledEventsProfile\": {{\n        \
             \"terminateNotificationProfile\": {{\n{timeout}          \"enable\": {}\n        }}\n      }}\n    }}\n  }}\n}}",
            self.timeout.is_some()
        );
        format!(
            "PATCH {url}?api-version={API_VERSION}\n\
             Content-Type: application/json\n\n\
             {body}\n\n\
             ### Update all instances to the latest model.\n\
             POST {url}/manualupgrade?api-version={API_VERSION}\n\
             Content-Type: application/json\n\n\
             {{\"instanceIds\": [\"*\"]}}\n\n\
             ###\n"
        )
    }

    fn portal(&self) -> String {
        let Self { set, group, .. } = self;
        let (switch, delay) = match self.timeout.and_then(NotBeforeTimeout::as_whole_minutes) {
            Some(minutes) => ("On", format!("4. Set \"Termination delay (minutes)\" to {minutes}.\n")),
            None => ("Off", String::new()),
        };
        let save = if delay.is_empty() { 4 } else { 5 };
        format!(
            "1. Open the virtual machine scale set {set} in the resource group {group}.\n\
             2. Open its \"Configuration\".\n\
             3. Set \"Enable Instance termination notification\" to {switch}.\n\
             {delay}{save}. Select \"Save\".\n\
             {}. Open \"Instances\", select all of them, and select \"Upgrade\".\n",
            save + 1
        )
    }

    fn bicep(&self) -> String {
        let timeout =
            self.timeout.map_or(String::new(), |timeout| format!("          notBeforeTimeout: '{timeout}'\n"));
        format!(
            "// Merge this into the resource of the scale set, and deploy it to the resource group {}.\n\
             resource scaleSet 'Microsoft.Compute/virtualMachineScaleSets@{API_VERSION}' = {{\n  \
               name: {}\n  \
               properties: {{\n    \
                 virtualMachineProfile: {{\n      \
                   scheduledEventsProfile: {{\n        \
                     terminateNotificationProfile: {{\n\
             {timeout}          \
                       enable: {}\n        \
                     }}\n      \
                   }}\n    \
                 }}\n  \
               }}\n\
             }}\n\n\
             // Then update all instances to the latest model, unless the upgrade policy is Automatic or Rolling:\n\
             // {}\n",
            self.group,
            self.set.single_quoted(),
            self.timeout.is_some(),
            self.az_update()
        )
    }

    fn terraform(&self) -> String {
        let timeout = self.timeout.map_or(String::new(), |timeout| format!("    timeout = \"{timeout}\"\n"));
        format!(
            "# Add the block to the resource of the scale set {} (azurerm_linux_virtual_machine_scale_set,\n\
             # azurerm_windows_virtual_machine_scale_set or azurerm_orchestrated_virtual_machine_scale_set), and apply it.\n\
             resource \"azurerm_linux_virtual_machine_scale_set\" \"scale_set\" {{\n  \
               termination_notification {{\n    \
                 enabled = {}\n\
             {timeout}  }}\n\
             }}\n\n\
             # Then update all instances to the latest model, unless the upgrade mode is Automatic or Rolling:\n\
             # {}\n",
            self.set,
            self.timeout.is_some(),
            self.az_update()
        )
    }

    fn az_update(&self) -> String {
        let (group, set) = (self.group.az("--resource-group"), self.set.az("--name"));
        format!("az vmss update-instances {group} {set} --instance-ids '*'")
    }
}

/// A time-out in words: `10 minutes`, `7 minutes 30 seconds`.
fn words(timeout: NotBeforeTimeout) -> String {
    let seconds = timeout.as_seconds();
    match (seconds / 60, seconds % 60) {
        (minutes, 0) => format!("{minutes} minutes"),
        (minutes, seconds) => format!("{minutes} minutes {seconds} s"),
    }
}

/// A time-out as this program's other options write times, or in ISO 8601.
fn timeout(text: &str) -> Result<NotBeforeTimeout, String> {
    let refused = |rule: ProfileRule| format!("{} ({rule})", rule.message());
    if text.starts_with('P') {
        return NotBeforeTimeout::parse(text).map_err(refused);
    }
    let time =
        humantime::parse_duration(text).map_err(|error| format!("{error}; expected a time such as 10m or PT10M"))?;
    if time.subsec_nanos() > 0 {
        return Err("expected whole seconds".into());
    }
    NotBeforeTimeout::from_seconds(u32::try_from(time.as_secs()).unwrap_or(u32::MAX)).map_err(refused)
}
