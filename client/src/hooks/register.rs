//! The register of running commands, through which a program finds those that it left running when it was killed.

use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::files::lock::{CommandProcess, CommandRegister};
use crate::limits::COMMAND_GRACE;
use crate::platform;
use crate::state::StateFile;

static REGISTER: Mutex<Option<CommandRegister>> = Mutex::new(None);

/// How long processes may take to end after they were killed.
const KILL_WAIT: Duration = Duration::from_secs(1);

/// How often that is checked, which may take a search of all processes.
const CHECK_INTERVAL: Duration = Duration::from_millis(25);

/// Registers the commands that are started from now on with the state file, on Linux. Before that, it ends the commands that the
/// last process registered and that still run, as when it was killed: they are started again, and must not run beside themselves.
/// Returns how many there were.
///
/// This takes up to [`COMMAND_GRACE`] for a command that ignores SIGTERM.
///
/// ```
/// use scheduled_events::hooks::register_with;
/// use scheduled_events::state::StateFile;
///
/// # let folder = std::env::temp_dir().join(format!("register-example-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// let (file, _) = StateFile::open(&folder.join("state"))?;
/// assert_eq!(register_with(&file), 0); // no earlier run left a command running
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn register_with(file: &StateFile) -> usize {
    register_commands(file.commands())
}

/// Does what [`register_with`] does, with the register of any lock.
///
/// ```
/// use scheduled_events::files::lock::FileLock;
/// use scheduled_events::hooks::register_commands;
///
/// # let path = std::env::temp_dir().join(format!("register-commands-example-{}", std::process::id()));
/// let lock = FileLock::acquire_at(&path, &path, "lock")?;
/// assert_eq!(register_commands(lock.commands()), 0);
/// # drop(lock);
/// # std::fs::remove_file(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn register_commands(register: CommandRegister) -> usize {
    let left = register.all();
    for command in &left {
        command.end(false);
    }
    wait(&left, COMMAND_GRACE);
    for command in left.iter().filter(|command| command.runs()) {
        command.end(true);
    }
    wait(&left, KILL_WAIT);
    for command in &left {
        register.remove(command.process);
    }
    *REGISTER.lock().unwrap_or_else(PoisonError::into_inner) = Some(register);
    left.len()
}

fn wait(commands: &[CommandProcess], time: Duration) {
    let deadline = Instant::now() + time;
    while commands.iter().any(CommandProcess::runs) && Instant::now() < deadline {
        thread::sleep(CHECK_INTERVAL);
    }
}

/// A registered command. It is removed when this value is dropped.
pub(crate) struct Registered(Option<(CommandRegister, u32)>);

impl Registered {
    pub(crate) fn new(process: u32, mark: &str) -> Self {
        let register = REGISTER
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let started = platform::process_start(process);
        Self(register.zip(started).map(|(register, started)| {
            register.add(CommandProcess {
                process,
                started,
                mark: mark.to_owned(),
            });
            (register, process)
        }))
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        if let Some((register, process)) = self.0.take() {
            register.remove(process);
        }
    }
}
