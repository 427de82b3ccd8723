//! The actions of a person at the page.

use scheduled_events_replay::document::ApprovalResult;
use scheduled_events_replay::{Fault, Scenario};
use serde::Deserialize;

use crate::run::{Player, Run};
use crate::settings::Settings;

/// An action, as the page sends it.
#[derive(Debug, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Action {
    Pause,
    Resume,
    Step,
    Speed {
        speed: f64,
    },
    /// Adds the events of a text such as that of a scenario file; `about` may be missing.
    Add {
        text: String,
    },
    /// Injects a fault into a machine, or into all of them.
    Inject {
        machine: Option<usize>,
        fault: String,
    },
    /// Removes the faults of a machine, or of all of them.
    ClearFaults {
        machine: Option<usize>,
    },
    Approve {
        id: String,
    },
    Begin {
        settings: Settings,
    },
}

impl Action {
    /// Carries out the action. The error has what was found, and what to do.
    pub(crate) fn apply(self, player: &Player) -> Result<(), String> {
        let run = player.current();
        match self {
            Self::Pause => {
                run.server.pause();
                run.journal.action("paused");
            }
            Self::Resume => {
                run.server.resume();
                run.journal.action("resumed");
            }
            Self::Step => {
                if !run.server.step() {
                    return Err(if run.server.status().has_started {
                        "nothing is left to happen: begin again, or add an event".to_owned()
                    } else {
                        "the scenario starts with the first poll: start a client first".to_owned()
                    });
                }
                run.journal.action("stepped to the next change");
            }
            Self::Speed { speed } => {
                run.server
                    .set_speed(speed)
                    .map_err(|error| error.to_string())?;
                run.journal.action(&format!("speed {speed}"));
            }
            Self::Add { text } => add(&run, &text)?,
            Self::Inject { machine, fault } => {
                let fault: Fault = fault.parse().map_err(|error| format!("{error}"))?;
                for number in machines(&run, machine)? {
                    run.server
                        .inject_fault(number, fault.clone())
                        .map_err(|error| error.to_string())?;
                    note_faults(&run, number);
                }
                run.journal
                    .action(&format!("injected {fault} into {}", name(&run, machine)));
            }
            Self::ClearFaults { machine } => {
                for number in machines(&run, machine)? {
                    run.server.clear_faults(number);
                    note_faults(&run, number);
                }
                run.journal
                    .action(&format!("removed the faults of {}", name(&run, machine)));
            }
            Self::Approve { id } => match run.server.approve(&id) {
                ApprovalResult::Accepted => run.journal.action(&format!("approved {id}")),
                ApprovalResult::WithoutEffect => {
                    return Err("the event was approved before, is Started or has ended".to_owned());
                }
                ApprovalResult::Unknown => return Err(format!("there is no event {id}")),
            },
            Self::Begin { settings } => player.begin(settings)?,
        }
        Ok(())
    }
}

fn add(run: &Run, text: &str) -> Result<(), String> {
    // A scenario needs a description, but an event does not.
    let whole = if text.trim_start().starts_with("[[event]]") {
        format!("about = \"-\"\n{text}")
    } else {
        text.to_owned()
    };
    let added = whole.lines().count() - text.lines().count();
    let scenario = Scenario::parse(&whole).map_err(|error| {
        format!(
            "line {}: {}",
            error.line().saturating_sub(added).max(1),
            error.message()
        )
    })?;
    for event in scenario.events {
        let text = format!(
            "added {} of {}",
            event.event_type,
            event.resources.join(", ")
        );
        run.server
            .add_event(event)
            .map_err(|error| error.to_string())?;
        run.journal.action(&text);
    }
    Ok(())
}

fn machines(run: &Run, machine: Option<usize>) -> Result<Vec<usize>, String> {
    let number = run.server.machines().len();
    match machine {
        None => Ok((0..number).collect()),
        Some(machine) if machine < number => Ok(vec![machine]),
        Some(machine) => Err(format!(
            "there is no machine {machine}; there are {number}, from 0 on"
        )),
    }
}

fn name(run: &Run, machine: Option<usize>) -> String {
    let name = machine
        .and_then(|machine| run.server.machines().get(machine))
        .map(|machine| machine.name.clone());
    name.unwrap_or_else(|| "all machines".to_owned())
}

fn note_faults(run: &Run, machine: usize) {
    let faults: Vec<_> = run
        .server
        .faults(machine)
        .iter()
        .map(ToString::to_string)
        .collect();
    run.journal.faults(machine, &faults);
}
