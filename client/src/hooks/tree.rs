//! A process with all that it starts.

use std::io;
use std::process::{Child, Command, ExitStatus};
#[cfg(unix)]
use std::thread;

use super::mark;
use super::register::Registered;
use crate::files::lock::WORKER_MARK;
use crate::platform::{self, COMMAND_ID, CommandTree};

/// A process and all that it starts, as far as that can be found: in a process group of its own, and on Windows in a job.
///
/// What is found on each system is in the documentation of [`hooks`](crate::hooks).
///
/// ```
/// use std::process::Command;
///
/// use scheduled_events::hooks::ProcessTree;
///
/// # if cfg!(not(unix)) { return Ok(()) }
/// let mut command = Command::new("sh");
/// command.args(["-c", "sleep 60 & exit 3"]);
/// let mut tree = ProcessTree::start(command)?;
/// assert!(tree.id() > 0);
/// while tree.ended().is_none() {}
/// assert_eq!(tree.ended().and_then(|status| status.code()), Some(3));
/// assert!(tree.runs()); // what it started still does
/// tree.terminate();
/// tree.kill();
/// tree.kill_rest();
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct ProcessTree {
    child: Child,
    tree: CommandTree,
    status: Option<ExitStatus>,
    _registered: Option<Registered>,
}

impl ProcessTree {
    /// Starts the command.
    ///
    /// # Errors
    /// Those of the system.
    pub fn start(command: Command) -> io::Result<Self> {
        Self::with_mark(command, &mark(), false)
    }

    /// Starts the worker of a `run`: it is registered as [`register_with`](super::register_with) says, so that a later run ends what
    /// a killed one left, and [`workers_in`](crate::files::lock::workers_in) counts it.
    ///
    /// # Errors
    /// Those of the system.
    ///
    /// ```
    /// use std::process::Command;
    ///
    /// use scheduled_events::hooks::ProcessTree;
    ///
    /// # if cfg!(not(unix)) { return Ok(()) }
    /// let mut command = Command::new("sleep");
    /// command.arg("60");
    /// let mut worker = ProcessTree::start_worker(command)?;
    /// assert!(worker.runs());
    /// worker.kill();
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn start_worker(command: Command) -> io::Result<Self> {
        Self::with_mark(command, &format!("{WORKER_MARK}{}", mark()), true)
    }

    fn with_mark(mut command: Command, mark: &str, registers: bool) -> io::Result<Self> {
        command.env(COMMAND_ID, mark);
        platform::new_group(&mut command);
        let mut child = command.spawn()?;
        let registered = registers.then(|| Registered::new(child.id(), mark));
        let tree = CommandTree::new(&mut child, mark)?;
        Ok(Self {
            child,
            tree,
            status: None,
            _registered: registered,
        })
    }

    /// The id of the process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// How the process itself has ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        if self.status.is_none() {
            self.status = self.child.try_wait().unwrap_or_default();
        }
        self.status
    }

    /// Whether the process or anything that it started still runs.
    pub fn runs(&mut self) -> bool {
        self.ended().is_none() || self.tree.has_others()
    }

    /// Calls the function on another thread when the process itself has ended. Returns whether the system gives a thread.
    ///
    /// ```
    /// use std::process::Command;
    /// use std::sync::mpsc;
    ///
    /// use scheduled_events::hooks::ProcessTree;
    ///
    /// let tree = ProcessTree::start(Command::new("true"))?;
    /// let (sender, ended) = mpsc::channel();
    /// assert!(tree.on_end(move || drop(sender.send("over"))));
    /// assert_eq!(ended.recv(), Ok("over"));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[cfg(unix)]
    pub fn on_end(&self, on_end: impl FnOnce() + Send + 'static) -> bool {
        let process = self.child.id();
        let waiter = thread::Builder::new().spawn(move || {
            if platform::wait_for_end(process) {
                on_end();
            }
        });
        waiter.is_ok()
    }

    /// Sends a signal to the process group.
    ///
    /// ```
    /// use std::process::Command;
    ///
    /// use scheduled_events::hooks::ProcessTree;
    ///
    /// let mut command = Command::new("sleep");
    /// command.arg("60");
    /// let mut tree = ProcessTree::start(command)?;
    /// tree.pass_on(15); // SIGTERM
    /// while tree.ended().is_none() {}
    /// assert!(!tree.ended().is_some_and(|status| status.success()));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[cfg(unix)]
    pub fn pass_on(&self, signal: i32) {
        self.tree.pass_on(signal);
    }

    /// Asks all of them to terminate.
    pub fn terminate(&mut self) {
        #[cfg(unix)]
        self.tree.terminate_all(self.status.is_none());
        #[cfg(windows)]
        self.tree.terminate(&mut self.child);
    }

    /// Kills all of them.
    pub fn kill(&mut self) {
        #[cfg(unix)]
        self.tree.kill_all(self.status.is_none());
        #[cfg(windows)]
        self.tree.kill(&mut self.child);
    }

    /// Kills what is left after the process itself has ended.
    pub fn kill_rest(&mut self) {
        self.tree.kill_rest(&mut self.child);
    }
}

/// Whether starting a process or a thread failed for a reason that may go away, such as a limit on processes that is reached.
///
/// ```
/// use std::io;
///
/// use scheduled_events::hooks::is_temporary_spawn_error;
///
/// assert!(!is_temporary_spawn_error(&io::ErrorKind::NotFound.into()));
/// ```
pub fn is_temporary_spawn_error(error: &io::Error) -> bool {
    platform::is_temporary_spawn_error(error)
}
