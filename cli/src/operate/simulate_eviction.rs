//! `simulate-eviction`: prints how an operator evicts a Spot machine for a drill.

use crate::args::{EvictionTool, Name, SimulateEvictionArgs};
use crate::error::CommandError;
use crate::output::print;

/// The first version of the compute API with `simulateEviction` for machines and for instances of
/// scale sets.
const API_VERSION: &str = "2020-06-01";

const EXPECT: &str = "\
# The machine must be a Spot machine. Within 30 minutes:
#   1. its metadata service announces an event of type Preempt, up to 30 seconds before NotBefore, and less when it is seen;
#   2. the event is Started, and the machine is stopped and deallocated, or deleted, as its eviction policy says;
#   3. with the policy Deallocate, it can be started again: the data disks remain, the temporary disk and dynamic addresses do not.
# Before that, start on the machine, and keep its output elsewhere:
#   scheduled-events watch --json --policy sample --audit /var/lib/scheduled-events/drill.ndjson
# docs/run/drills.md describes a whole drill.
";

pub(crate) fn simulate_eviction(args: &SimulateEvictionArgs) -> Result<(), CommandError> {
    let group = &args.resource_group;
    let instance = args.scale_set.as_ref().zip(args.instance.as_ref());
    let (subject, command) = match (instance, args.vm.as_ref()) {
        (Some((set, id)), _) => {
            let command = match args.tool {
                EvictionTool::Az => format!(
                    "az vmss simulate-eviction {} {} {}",
                    group.az("--resource-group"),
                    set.az("--name"),
                    id.az("--instance-id")
                ),
                EvictionTool::Powershell => format!(
                    "Set-AzVmssVM -ResourceGroupName {} -VMScaleSetName {} -InstanceId {} -SimulateEviction",
                    group.single_quoted(),
                    set.single_quoted(),
                    id.single_quoted()
                ),
                EvictionTool::Rest => post(
                    group,
                    &format!(
                        "virtualMachineScaleSets/{}/virtualMachines/{}",
                        set.url(),
                        id.url()
                    ),
                ),
            };
            (
                format!("the instance {id} of the scale set {set} in {group}"),
                command,
            )
        }
        (None, Some(vm)) => {
            let command = match args.tool {
                EvictionTool::Az => {
                    format!(
                        "az vm simulate-eviction {} {}",
                        group.az("--resource-group"),
                        vm.az("--name")
                    )
                }
                EvictionTool::Powershell => format!(
                    "Set-AzVM -ResourceGroupName {} -Name {} -SimulateEviction",
                    group.single_quoted(),
                    vm.single_quoted()
                ),
                EvictionTool::Rest => post(group, &format!("virtualMachines/{}", vm.url())),
            };
            (format!("the machine {vm} in {group}"), command)
        }
        // The parser requires one of them.
        (None, None) => {
            return Err(CommandError::usage(
                "expected --vm NAME, or --scale-set NAME and --instance ID",
            ));
        }
    };
    print(format!("# This evicts {subject}.\n\n{command}\n\n{EXPECT}").as_bytes())
}

fn post(group: &Name, resource: &str) -> String {
    format!(
        "POST https://management.azure.com/subscriptions/{{subscriptionId}}/resourceGroups/{}/providers/Microsoft.Compute/\
         {resource}/simulateEviction?api-version={API_VERSION}\n\n\
         ### The answer is 204 without a body.",
        group.url()
    )
}
