//! `terminate-profile`: prints how a scale set announces deletions, for the operator's tool.

use scheduled_events_core::terminate::{COMPUTE_API_VERSION, EVENTS_API_VERSION, NotBeforeTimeout};

use crate::args::{Name, ProfileTool, TerminateProfileArgs};
use crate::error::CommandError;
use crate::output::print;

/// The version of the compute API in the requests and templates: the first that supports PATCH of
/// the profile.
const API_VERSION: &str = "2021-07-01";

pub(crate) fn terminate_profile(args: &TerminateProfileArgs) -> Result<(), CommandError> {
    let TerminateProfileArgs {
        scale_set: set,
        resource_group: group,
        timeout,
        create,
        ..
    } = args;
    let plan = Plan {
        set,
        group,
        timeout: *timeout,
        create: *create,
    };
    let in_minutes = matches!(
        args.tool,
        ProfileTool::Az | ProfileTool::Powershell | ProfileTool::Portal
    );
    if let Some(timeout) = args
        .timeout
        .filter(|timeout| in_minutes && timeout.as_whole_minutes().is_none())
    {
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

/// The change to make; without a time-out, deletions are not announced.
struct Plan<'a> {
    set: &'a Name,
    group: &'a Name,
    timeout: Option<NotBeforeTimeout>,
    /// Whether the scale set is new.
    create: bool,
}

impl Plan<'_> {
    fn text(&self, tool: ProfileTool) -> String {
        let text = match tool {
            ProfileTool::Az if self.create => self.az_create(),
            ProfileTool::Powershell if self.create => self.powershell_create(),
            ProfileTool::Portal if self.create => self.portal_create(),
            ProfileTool::Az => self.az(),
            ProfileTool::Powershell => self.powershell(),
            ProfileTool::Rest => self.rest(),
            ProfileTool::Portal => self.portal(),
            ProfileTool::Bicep => self.bicep(),
            ProfileTool::Terraform => self.terraform(),
        };
        let mark = match tool {
            ProfileTool::Bicep => "// ",
            ProfileTool::Portal => "",
            _ => "# ",
        };
        let comment =
            |sentences: Vec<String>| mark.to_owned() + &sentences.join(&format!("\n{mark}")) + "\n";
        comment(self.summary()) + "\n" + &text + "\n" + &comment(self.remarks(tool))
    }

    /// The effect of the text.
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

    /// The requirements, and other remarks.
    fn remarks(&self, tool: ProfileTool) -> Vec<String> {
        let mut remarks = Vec::new();
        let old = match self.timeout {
            Some(_) => "it is deleted without an event, or with the time-out that it had",
            None => "its deletion is still announced",
        };
        if !self.create {
            remarks.push(format!(
                "An instance that is not updated to the latest model keeps the old one: {old}."
            ));
        }
        if matches!(tool, ProfileTool::Rest | ProfileTool::Bicep) {
            remarks.push(format!(
                "The compute API needs version {COMPUTE_API_VERSION} or later."
            ));
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
        let target = format!(
            "{} {}",
            self.group.az("--resource-group"),
            self.set.az("--name")
        );
        let options = match self.timeout.and_then(NotBeforeTimeout::as_whole_minutes) {
            Some(minutes) => format!(
                "--enable-terminate-notification true --terminate-notification-time {minutes}"
            ),
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
                format!(
                    "-TerminateScheduledEvents $true -TerminateScheduledEventNotBeforeTimeoutInMinutes {minutes}"
                )
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
        self.timeout
            .and_then(NotBeforeTimeout::as_whole_minutes)
            .unwrap_or_default()
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
        // The order of Microsoft's example. A test compares it with core's profile.
        let timeout = self.timeout.map_or(String::new(), |timeout| {
            format!("          \"notBeforeTimeout\": \"{timeout}\",\n")
        });
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
            Some(minutes) => (
                "On",
                format!("4. Set \"Termination delay (minutes)\" to {minutes}.\n"),
            ),
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
        let timeout = self.timeout.map_or(String::new(), |timeout| {
            format!("          notBeforeTimeout: '{timeout}'\n")
        });
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
        let timeout = self.timeout.map_or(String::new(), |timeout| {
            format!("    timeout = \"{timeout}\"\n")
        });
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
