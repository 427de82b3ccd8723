//! A run: a replay server that plays settings, with a journal. The player has one run at a time.

use std::error::Error;
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use scheduled_events_replay::{ControlError, ControlPlane, ReplayEvent, Scenario, Server};
use tokio::sync::watch;

use crate::journal::Journal;
use crate::settings::{Settings, SettingsError};

/// The player of the current run.
pub(crate) struct Player {
    /// The first machine's address, as the user chose it.
    listen: SocketAddr,
    /// The services of every run outside the machines.
    outside: Option<ControlPlane>,
    current: Mutex<Arc<Run>>,
    /// Held while a run begins: only one may at a time.
    beginning: Mutex<()>,
    /// The number of the current run, for readers of an earlier one that wait.
    number: watch::Sender<u64>,
}

/// One run of a scenario.
pub(crate) struct Run {
    /// From 1.
    pub(crate) number: u64,
    pub(crate) settings: Settings,
    pub(crate) scenario: Scenario,
    /// Shared with the previous run if that had the same machines: clients keep their addresses and
    /// connections.
    pub(crate) server: Arc<Server>,
    pub(crate) journal: Arc<Journal>,
    pub(crate) started: SystemTime,
}

/// How long an address may take to become free.
const FREE_MAX: Duration = Duration::from_secs(2);

impl Player {
    /// Starts to play. The first machine listens on `listen`.
    pub(crate) fn new(
        settings: Settings,
        listen: SocketAddr,
        outside: Option<ControlPlane>,
    ) -> Result<Self, RunError> {
        let run = start(1, settings, listen, outside.clone())?;
        Ok(Self {
            listen,
            outside,
            current: Mutex::new(Arc::new(run)),
            beginning: Mutex::default(),
            number: watch::Sender::new(1),
        })
    }

    pub(crate) fn current(&self) -> Arc<Run> {
        Arc::clone(&self.current.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Begins a run with these settings. With the same machines, their addresses stay. This may
    /// take a moment, since the threads of the previous run end.
    pub(crate) fn begin(&self, settings: Settings) -> Result<(), RunError> {
        let _beginning = self
            .beginning
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let current = self.current();
        let number = current.number + 1;
        let same = (settings.machines, &settings.vm_name)
            == (current.settings.machines, &current.settings.vm_name);
        let mut failed = None;
        let run = if same {
            begin_again(number, settings, Arc::clone(&current.server))?
        } else {
            settings.config(self.listen).map_err(RunError::Settings)?;
            let last = current.server.addr();
            free(&current.server);
            // The first machine's client keeps its address, if the next ports are free.
            let start = |settings, listen| start(number, settings, listen, self.outside.clone());
            let next = start(settings.clone(), last).or_else(|_| start(settings, self.listen));
            match next {
                Ok(run) => run,
                // The previous run has stopped.
                Err(error) => match start(current.settings.clone(), last) {
                    Ok(run) => {
                        failed = Some(error);
                        run
                    }
                    Err(_) => return Err(error),
                },
            }
        };
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(run);
        self.number.send_replace(number);
        failed.map_or(Ok(()), |error| Err(RunError::Replaced(Box::new(error))))
    }

    /// Waits until another run begins.
    pub(crate) async fn next_run(&self, number: u64) {
        // The sender is part of self, so the channel is open.
        let _ = self
            .number
            .subscribe()
            .wait_for(|current| *current != number)
            .await;
    }
}

impl Run {
    /// The machine with this name.
    pub(crate) fn machine(&self, name: &str) -> Option<usize> {
        self.server
            .machines()
            .iter()
            .position(|machine| machine.name == name)
    }
}

/// Why a run cannot begin.
#[derive(Debug)]
pub(crate) enum RunError {
    Settings(SettingsError),
    Start {
        listen: SocketAddr,
        error: io::Error,
    },
    /// The same server refuses to play another time.
    Again(ControlError),
    Thread(io::Error),
    /// The run before begins again, since the next one cannot, for this reason.
    Replaced(Box<RunError>),
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Settings(error) => error.fmt(f),
            Self::Start { listen, error } => match error.kind() {
                io::ErrorKind::InvalidInput | io::ErrorKind::Other => error.fmt(f),
                io::ErrorKind::AddrInUse => write!(
                    f,
                    "cannot listen on {listen}: {error}; port 0 takes a free port"
                ),
                _ => write!(f, "cannot listen on {listen}: {error}"),
            },
            Self::Again(error) => error.fmt(f),
            Self::Thread(error) => write!(f, "cannot start a thread: {error}"),
            Self::Replaced(error) => write!(f, "{error}; the scenario before begins again"),
        }
    }
}

impl Error for RunError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Settings(error) => error.source(),
            Self::Start { error, .. } | Self::Thread(error) => Some(error),
            Self::Again(error) => error.source(),
            Self::Replaced(error) => Some(&**error),
        }
    }
}

fn start(
    number: u64,
    settings: Settings,
    listen: SocketAddr,
    outside: Option<ControlPlane>,
) -> Result<Run, RunError> {
    let (observer, events) = mpsc::channel();
    let config = settings.config(listen).map_err(RunError::Settings)?;
    let mut config = config.observer(observer);
    config.control_plane = outside;
    let scenario = config.scenario.clone();
    let server = Server::start(config).map_err(|error| RunError::Start { listen, error })?;
    finish(number, settings, scenario, Arc::new(server), events)
}

/// Stops a server, and waits until its first address can be used again.
fn free(server: &Server) {
    server.stop();
    let since = Instant::now();
    while TcpListener::bind(server.addr()).is_err() && since.elapsed() < FREE_MAX {
        thread::sleep(Duration::from_millis(10));
    }
}

fn begin_again(number: u64, settings: Settings, server: Arc<Server>) -> Result<Run, RunError> {
    let (observer, events) = mpsc::channel();
    let config = settings
        .config(server.addr())
        .map_err(RunError::Settings)?
        .observer(observer);
    let scenario = config.scenario.clone();
    server.begin_again(config).map_err(RunError::Again)?;
    finish(number, settings, scenario, server, events)
}

fn finish(
    number: u64,
    settings: Settings,
    scenario: Scenario,
    server: Arc<Server>,
    events: Receiver<ReplayEvent>,
) -> Result<Run, RunError> {
    let journal = Arc::new(Journal::new(server.started()));
    for machine in 0..server.machines().len() {
        if !settings.faults.is_empty() {
            journal.faults(machine, &settings.faults);
        }
    }
    let (kept, facts) = (Arc::clone(&journal), Arc::downgrade(&server));
    // It ends when the server does, or when the server has another observer.
    thread::Builder::new()
        .name(format!("journal-{number}"))
        .spawn(move || keep(&kept, &facts, &events))
        .map_err(RunError::Thread)?;
    Ok(Run {
        number,
        settings,
        scenario,
        server,
        journal,
        started: SystemTime::now(),
    })
}

fn keep(journal: &Journal, server: &Weak<Server>, events: &Receiver<ReplayEvent>) {
    for event in events {
        journal.replay_event(&event, |id| server.upgrade()?.event(id));
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::*;

    fn answers(player: &Player) -> bool {
        TcpStream::connect_timeout(&player.current().server.addr(), Duration::from_secs(5)).is_ok()
    }

    #[test]
    fn what_cannot_begin_leaves_a_run_that_answers() {
        let good = Settings::load("preempt").expect("a built-in name");
        let player = Player::new(good.clone(), ([127, 0, 0, 1], 0).into(), None).expect("a run");
        let refused = [
            Settings {
                machines: 0,
                ..good.clone()
            },
            Settings {
                machines: 1001,
                ..good.clone()
            },
            Settings {
                machines: 2,
                speed: 0.0,
                ..good.clone()
            },
            Settings {
                vm_name: String::new(),
                ..good.clone()
            },
            Settings {
                vm_name: "a\nb".to_owned(),
                ..good.clone()
            },
        ];
        for settings in refused {
            let message = player
                .begin(settings.clone())
                .expect_err("refused")
                .to_string();
            assert!(!message.contains("begins again"), "{message}");
            assert!(
                player.current().number == 1 && answers(&player),
                "{settings:?}"
            );
        }
        player
            .begin(Settings {
                machines: 2,
                ..good
            })
            .expect("a run");
        assert!(player.current().number == 2 && answers(&player));
    }

    #[test]
    fn a_run_whose_addresses_are_taken_gives_way_to_the_one_before() {
        let good = Settings::load("preempt").expect("a built-in name");
        // The port after the first machine's is taken, so no port is left for a second machine.
        let (player, _taken) = loop {
            let player =
                Player::new(good.clone(), ([127, 0, 0, 1], 0).into(), None).expect("a run");
            let mut next = player.current().server.addr();
            next.set_port(next.port().saturating_add(1));
            if let Ok(taken) = TcpListener::bind(next) {
                let listen = player.current().server.addr();
                break (Player { listen, ..player }, taken);
            }
        };
        let message = player
            .begin(Settings {
                machines: 2,
                ..good
            })
            .expect_err("no address")
            .to_string();
        assert!(
            message.contains("the scenario before begins again"),
            "{message}"
        );
        assert!(
            player.current().number == 2
                && player.current().settings.machines == 1
                && answers(&player)
        );
    }
}
