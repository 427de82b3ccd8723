//! The transitions of a supervisor. What it reports to a watcher is tested with a watcher, in
//! `cli/tests/suite/run`.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use scheduled_events::failure_log::FailureLog;
use scheduled_events::hooks::{CommandLine, CommandOutcome};
use scheduled_events::record::EventRecord;
use scheduled_events::watch::PrepareReply;
use scheduled_events_core::spot::{Phase, Signal};

use super::eviction::{Eviction, Remaining, Stop};
use super::hooks::Purpose;
use super::message::{Announcement, RunMessage};
use super::options::{RunCommands, RunOptions};
use super::state::{Processing, Spawning, State};
use super::supervisor::Supervisor;
use super::worker::Worker;

const SIGTERM: i32 = 15;

/// Where a row of the table begins.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Begin {
    Identifying,
    Resuming,
    WarmingUp,
    Spawning,
    Processing,
    Evicted,
    /// The same before there is a worker.
    EvictedEarly,
    Shutdown,
    /// The same after a restart.
    ShutdownBefore,
    /// The worker runs, and whether the last run's event is over is unknown.
    Unconfirmed,
}

/// What happens.
#[derive(Clone, Copy, Debug)]
enum Happens {
    Prepare,
    /// The preparation is no longer needed.
    Cancel,
    Started,
    Over,
    /// An event is over, and others keep the worker from running.
    OverBesideOthers,
    AnswerInService,
    AnswerOutOfService,
    IsThisMachine,
    IsAnotherMachine,
    CommandSucceeds,
    CommandFails,
    Terminate,
    /// All that was to be stopped has ended.
    Gone,
    /// What is due next is due.
    TimePasses,
}

/// Each row: the state, what happens, and the state after that.
const TRANSITIONS: &[(Begin, &[Happens], &str)] = {
    use Begin::*;
    use Happens::*;
    &[
        (Identifying, &[IsThisMachine], "resuming"),
        (Identifying, &[IsAnotherMachine], "warming up"),
        (Identifying, &[TimePasses], "resuming"),
        (Identifying, &[Started], "shutdown"),
        (Identifying, &[Started, IsThisMachine], "shutdown"),
        (Identifying, &[AnswerOutOfService], "identifying"),
        (Identifying, &[Terminate], "exited 143"),
        (Resuming, &[CommandSucceeds], "warming up"),
        (Resuming, &[CommandFails], "exited 125"),
        (Resuming, &[Started], "evicted"),
        (Resuming, &[AnswerOutOfService], "resuming"),
        (Resuming, &[IsAnotherMachine], "resuming"),
        (Resuming, &[Terminate], "exited 143"),
        (WarmingUp, &[CommandSucceeds], "processing"),
        (WarmingUp, &[CommandFails], "exited 125"),
        (WarmingUp, &[Started], "evicted"),
        (WarmingUp, &[Terminate], "exited 143"),
        (Spawning, &[TimePasses], "processing"),
        (Spawning, &[Started], "shutdown"),
        (Spawning, &[Terminate], "exited 143"),
        (Processing, &[Prepare], "evicted"),
        (Processing, &[Prepare, Cancel], "processing"),
        (Processing, &[Started, Prepare, Cancel], "evicted"),
        (Processing, &[Started], "evicted"),
        (Processing, &[Over], "processing"),
        (Processing, &[AnswerOutOfService], "processing"),
        (Processing, &[Terminate], "processing"),
        (Evicted, &[Gone], "shutdown"),
        (Evicted, &[Over, Gone], "resuming"),
        (Evicted, &[OverBesideOthers, Gone], "shutdown"),
        (Evicted, &[Over, Started, Gone], "shutdown"),
        (Evicted, &[Over], "evicted"),
        (Evicted, &[Terminate], "evicted"),
        (Evicted, &[Terminate, Gone], "exited 143"),
        (EvictedEarly, &[CommandSucceeds], "shutdown"),
        (EvictedEarly, &[Over, CommandFails], "resuming"),
        (EvictedEarly, &[Terminate], "exited 143"),
        (Shutdown, &[Over], "resuming"),
        (Shutdown, &[OverBesideOthers], "shutdown"),
        (Shutdown, &[AnswerInService], "shutdown"),
        (Shutdown, &[Started], "shutdown"),
        (Shutdown, &[Terminate], "exited 143"),
        (ShutdownBefore, &[AnswerInService], "resuming"),
        (ShutdownBefore, &[AnswerOutOfService], "shutdown"),
        (
            ShutdownBefore,
            &[AnswerOutOfService, AnswerInService],
            "shutdown",
        ),
        (ShutdownBefore, &[TimePasses], "resuming"),
        (ShutdownBefore, &[TimePasses, AnswerOutOfService], "evicted"),
        (
            ShutdownBefore,
            &[TimePasses, AnswerInService, AnswerOutOfService],
            "resuming",
        ),
        (ShutdownBefore, &[Started, AnswerInService], "shutdown"),
        (Unconfirmed, &[AnswerOutOfService], "evicted"),
        (
            Unconfirmed,
            &[AnswerOutOfService, Prepare, Cancel],
            "evicted",
        ),
        (
            Unconfirmed,
            &[Prepare, AnswerOutOfService, Cancel],
            "evicted",
        ),
        (
            Unconfirmed,
            &[Started, OverBesideOthers, Prepare, Cancel],
            "evicted",
        ),
        (
            Unconfirmed,
            &[AnswerInService, Prepare, Cancel],
            "processing",
        ),
        (
            Unconfirmed,
            &[Prepare, AnswerInService, Cancel],
            "processing",
        ),
    ]
};

#[test]
fn each_message_leads_to_its_state_through_phases_of_the_life_cycle() {
    for &(from, happens, expected) in TRANSITIONS {
        let mut life = Life::begin(from);
        for &what in happens {
            life.happens(what);
        }
        assert_eq!(life.state(), expected, "{from:?}, {happens:?}");
        for pair in life.end().windows(2) {
            let leads = |signal: &Signal| pair[0].next(*signal) == Some(pair[1]);
            assert!(
                Signal::ALL.iter().any(leads),
                "{from:?}, {happens:?}: {pair:?}"
            );
        }
    }
}

/// The number of the preparation.
const ATTEMPT: u32 = 1;

/// A supervisor whose worker and commands run until they are ended.
struct Life {
    supervisor: Supervisor,
    phases: Arc<Mutex<Vec<Phase>>>,
}

impl Life {
    fn begin(from: Begin) -> Self {
        let phase = match from {
            // None is entered yet.
            Begin::Identifying => None,
            Begin::WarmingUp => Some(Phase::Warmup),
            Begin::Resuming => Some(Phase::Recover),
            Begin::Spawning | Begin::Processing | Begin::Unconfirmed => Some(Phase::Processing),
            Begin::Evicted | Begin::EvictedEarly => Some(Phase::Evicted),
            Begin::Shutdown | Begin::ShutdownBefore => Some(Phase::Shutdown),
        };
        let phases = Arc::new(Mutex::new(Vec::from_iter(phase)));
        let entered = Arc::clone(&phases);
        let command = || Some(CommandLine::parse("sleep 60").unwrap());
        let mut supervisor = Supervisor::new(RunOptions {
            worker: vec!["sleep".into(), "60".into()],
            grace: Duration::from_secs(60),
            every: None,
            commands: RunCommands {
                warmup: command(),
                resume: command(),
                ..RunCommands::default()
            },
            approve: false,
            lock: None,
            phase_file: None,
            state_file: None,
            log: |_, _| {},
            on_phase: Box::new(move |phase| entered.lock().unwrap().push(phase)),
        });
        let mut started = || {
            let purpose = Purpose {
                label: "test",
                event: None,
                worker: None,
                deadline: None,
            };
            supervisor.commands.start(&command().unwrap(), &purpose)
        };
        let worker = || Worker::start(&["sleep".into(), "60".into()], || {}).unwrap();
        let evicted = |remaining| {
            State::Evicted(Eviction {
                remaining,
                preparing: Vec::new(),
                keeps_out: false,
                starts_again: false,
            })
        };
        let later = Instant::now() + Duration::from_secs(60);
        supervisor.state = match from {
            Begin::Identifying => State::Identifying { until: later },
            Begin::Resuming => State::Resuming(started()),
            Begin::WarmingUp => State::WarmingUp(started()),
            Begin::Spawning => State::Spawning(Spawning {
                retry_at: later,
                failures: FailureLog::default(),
            }),
            Begin::Processing | Begin::Unconfirmed => {
                State::Processing(Processing::new(worker(), None))
            }
            Begin::Evicted => evicted(Remaining::Worker(
                worker(),
                Box::new(Stop::new(None, Duration::from_secs(60))),
            )),
            Begin::EvictedEarly => evicted(Remaining::Command(started())),
            Begin::Shutdown => State::IDLE,
            Begin::ShutdownBefore => State::Shutdown {
                answer_by: Some(later),
            },
        };
        supervisor.is_unconfirmed = from == Begin::Unconfirmed;
        Self { supervisor, phases }
    }

    fn happens(&mut self, what: Happens) {
        let failed = CommandOutcome::NotStarted(String::new());
        let message = match what {
            Happens::Prepare => {
                let announcement = Announcement {
                    event: EventRecord::default(),
                    start: None,
                };
                RunMessage::Prepare(announcement, PrepareReply::detached(ATTEMPT))
            }
            Happens::Cancel => RunMessage::Cancel(ATTEMPT),
            Happens::Started => RunMessage::Started(EventRecord::default()),
            Happens::Over => RunMessage::Over {
                out_of_service: false,
            },
            Happens::OverBesideOthers => RunMessage::Over {
                out_of_service: true,
            },
            Happens::AnswerInService => RunMessage::Answered {
                out_of_service: false,
            },
            Happens::AnswerOutOfService => RunMessage::Answered {
                out_of_service: true,
            },
            Happens::IsThisMachine => RunMessage::Identified { state_is_own: true },
            Happens::IsAnotherMachine => RunMessage::Identified {
                state_is_own: false,
            },
            Happens::CommandSucceeds => self.command_ended(CommandOutcome::Succeeded),
            Happens::CommandFails => self.command_ended(failed),
            Happens::Terminate => RunMessage::Signal(SIGTERM),
            Happens::Gone => return self.supervisor.on_gone(None),
            Happens::TimePasses => {
                let now = Instant::now();
                match &mut self.supervisor.state {
                    State::Identifying { until: at }
                    | State::Shutdown {
                        answer_by: Some(at),
                    }
                    | State::Spawning(Spawning { retry_at: at, .. }) => *at = now,
                    _ => {}
                }
                return self.supervisor.tick();
            }
        };
        self.supervisor.on_message(message);
    }

    /// The end of the command for which the state waits.
    fn command_ended(&self, outcome: CommandOutcome) -> RunMessage {
        let command = self.supervisor.state.command().expect("a command runs");
        RunMessage::CommandEnded(command.number(), outcome)
    }

    fn state(&self) -> String {
        match &self.supervisor.state {
            State::Identifying { .. } => "identifying".to_owned(),
            State::Resuming(_) => "resuming".to_owned(),
            State::WarmingUp(_) => "warming up".to_owned(),
            State::Spawning(_) => "spawning".to_owned(),
            State::Processing(_) => "processing".to_owned(),
            State::Evicted(_) => "evicted".to_owned(),
            State::Shutdown { .. } => "shutdown".to_owned(),
            State::Exited(code) => format!("exited {code}"),
        }
    }

    /// Ends all that runs. Returns the phases from the first one on.
    fn end(mut self) -> Vec<Phase> {
        if let Some(worker) = self.supervisor.state.worker() {
            worker.kill();
        }
        self.supervisor.exit(0);
        self.phases.lock().unwrap().clone()
    }
}
