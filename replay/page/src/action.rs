//! The actions of a person at the page.

use std::error::Error;
use std::fmt;

use scheduled_events_replay::document::ApprovalResult;
use scheduled_events_replay::{ControlError, Fault, FaultError, Scenario, ScenarioError};
use serde::Deserialize;

use crate::run::{Player, Run, RunError};
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
    /// Carries out the action.
    pub(crate) fn apply(self, player: &Player) -> Result<(), ActionError> {
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
                        ActionError::NothingLeft
                    } else {
                        ActionError::NotStarted
                    });
                }
                run.journal.action("stepped to the next change");
            }
            Self::Speed { speed } => {
                run.server.set_speed(speed).map_err(ActionError::Control)?;
                run.journal.action(&format!("speed {speed}"));
            }
            Self::Add { text } => add(&run, &text)?,
            Self::Inject { machine, fault } => {
                let fault: Fault = fault.parse().map_err(ActionError::Fault)?;
                for number in machines(&run, machine)? {
                    run.server
                        .inject_fault(number, fault.clone())
                        .map_err(ActionError::Control)?;
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
                ApprovalResult::WithoutEffect => return Err(ActionError::NotApprovable),
                ApprovalResult::Unknown => return Err(ActionError::NoEvent(id)),
            },
            Self::Begin { settings } => player.begin(settings).map_err(ActionError::Run)?,
        }
        Ok(())
    }
}

/// Why an action cannot be carried out.
#[derive(Debug)]
pub(crate) enum ActionError {
    /// There is no next step.
    NothingLeft,
    /// No client has polled yet.
    NotStarted,
    Control(ControlError),
    Fault(FaultError),
    /// The text of events, and how many lines were put before it.
    Scenario {
        error: ScenarioError,
        added: usize,
    },
    NotApprovable,
    NoEvent(String),
    NoMachine {
        machine: usize,
        number: usize,
    },
    Run(RunError),
}

impl fmt::Display for ActionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NothingLeft => {
                f.write_str("nothing is left to happen: begin again, or add an event")
            }
            Self::NotStarted => {
                f.write_str("the scenario starts with the first poll: start a client first")
            }
            Self::Control(error) => error.fmt(f),
            Self::Fault(error) => error.fmt(f),
            Self::Scenario { error, added } => {
                let line = error.line().saturating_sub(*added).max(1);
                write!(f, "line {line}: {}", error.message())
            }
            Self::NotApprovable => {
                f.write_str("the event was approved before, is Started or has ended")
            }
            Self::NoEvent(id) => write!(f, "there is no event {id}"),
            Self::NoMachine { machine, number } => write!(
                f,
                "there is no machine {machine}; there are {number}, from 0 on"
            ),
            Self::Run(error) => error.fmt(f),
        }
    }
}

impl Error for ActionError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Control(error) => error.source(),
            Self::Fault(error) => error.source(),
            Self::Scenario { error, .. } => Some(error),
            Self::Run(error) => error.source(),
            Self::NothingLeft
            | Self::NotStarted
            | Self::NotApprovable
            | Self::NoEvent(_)
            | Self::NoMachine { .. } => None,
        }
    }
}

fn add(run: &Run, text: &str) -> Result<(), ActionError> {
    // A scenario needs a description, but an event does not.
    let whole = if text.trim_start().starts_with("[[event]]") {
        format!("about = \"-\"\n{text}")
    } else {
        text.to_owned()
    };
    let added = whole.lines().count() - text.lines().count();
    let scenario =
        Scenario::parse(&whole).map_err(|error| ActionError::Scenario { error, added })?;
    for event in scenario.events {
        let text = format!(
            "added {} of {}",
            event.event_type,
            event.resources.join(", ")
        );
        run.server.add_event(event).map_err(ActionError::Control)?;
        run.journal.action(&text);
    }
    Ok(())
}

fn machines(run: &Run, machine: Option<usize>) -> Result<Vec<usize>, ActionError> {
    let number = run.server.machines().len();
    match machine {
        None => Ok((0..number).collect()),
        Some(machine) if machine < number => Ok(vec![machine]),
        Some(machine) => Err(ActionError::NoMachine { machine, number }),
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
