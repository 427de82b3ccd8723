//! Windows: console events and the service manager. There is no journal.

use std::io;
use std::os::windows::io::AsHandle;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use scheduled_events_windows::{service, stop};

use super::LockState;

/// A device is not distinguished from a file.
pub(crate) fn is_stdin_null() -> bool {
    false
}

/// There is no journal.
pub(crate) fn is_stream(_stream: &impl AsHandle, _named: &str) -> bool {
    false
}

/// See [`is_stream`].
#[derive(Debug)]
pub(crate) struct DatagramSocket;

impl DatagramSocket {
    /// See [`is_stream`].
    pub(crate) fn connect(_path: &Path) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// See [`is_stream`].
    #[allow(clippy::unused_self)] // The same method as on Unix.
    pub(crate) fn send(&self, _datagram: &[u8]) -> bool {
        false
    }
}

/// Calls the function on another thread when Ctrl-C, Ctrl-Break, the end of the console, a shutdown
/// or the service manager asks the process to stop. A second Ctrl-C ends it at once.
/// There is no SIGHUP, so that nothing is read again.
pub(crate) fn on_stop_signal(
    stop: impl Fn() + Send + 'static,
    _reload: Option<Arc<dyn Fn() + Send + Sync>>,
) -> io::Result<()> {
    stop::on_stop(stop)
}

/// Windows has no such limit.
#[allow(clippy::unnecessary_wraps)] // The same function as on Unix.
pub(crate) fn ignore_file_size_signal() -> io::Result<()> {
    Ok(())
}

/// Whether the service manager started the process.
pub(crate) fn has_supervisor() -> bool {
    service::is_service()
}

/// The service manager expects no keep-alives.
pub(crate) fn watchdog_timeout() -> Option<Duration> {
    None
}

/// Reports to the service manager that the service runs: once it watches, whether or not the
/// metadata service answers. It shows no status in words.
pub(crate) fn notify_supervisor(_ready: bool, _status: Option<&str>, _alive: bool) {
    service::report_running();
}

/// Reports to the service manager that the service is about to end.
pub(crate) fn notify_stopping() {
    service::report_stopping();
}

/// Whether the system may run the file: its name decides.
pub(crate) fn may_execute(path: &Path) -> bool {
    path.is_file()
}

/// Access rights are not shown here.
pub(crate) fn mode_in_words(_path: &Path) -> String {
    String::new()
}

/// Access rights are not checked here: opening the file reports them.
#[allow(clippy::unnecessary_wraps)] // The same function as on Unix.
pub(crate) fn check_writable(_path: &Path) -> io::Result<()> {
    Ok(())
}

/// Not known here.
pub(crate) fn free_space(_folder: &Path) -> Option<u64> {
    None
}

/// Not known here.
pub(crate) fn locked_by(_lock: &Path) -> LockState {
    LockState::Free
}

/// There is no such setting.
pub(crate) fn gains_no_rights() -> bool {
    false
}

/// There is no polkit.
pub(crate) fn is_root() -> bool {
    true
}
