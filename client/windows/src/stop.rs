//! Requests to stop: Ctrl-C and Ctrl-Break, a console that is closed, a logoff, a shutdown, and the service manager's.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use windows_sys::Win32::Foundation::{FALSE, TRUE};
use windows_sys::Win32::System::Console::{
    AllocConsole, CTRL_BREAK_EVENT, CTRL_C_EVENT, CTRL_LOGOFF_EVENT, CTRL_SHUTDOWN_EVENT,
    SetConsoleCtrlHandler,
};
use windows_sys::core::BOOL;

/// How long a console event waits for the end of this process. Windows ends the process once the event is handled, and by itself
/// some seconds after the console was closed.
const END_WAIT: Duration = Duration::from_secs(60);

static REQUEST: Mutex<Request> = Mutex::new(Request {
    stop: None,
    is_stopping: false,
    is_service: false,
});

struct Request {
    stop: Option<Box<dyn Fn() + Send>>,
    is_stopping: bool,
    is_service: bool,
}

/// Calls the function, on another thread, when this process is asked to stop; at once, if it was already.
///
/// # Errors
/// Windows refuses to report console events.
pub fn on_stop(stop: impl Fn() + Send + 'static) -> io::Result<()> {
    let mut request = request();
    if request.is_stopping {
        stop();
    }
    request.stop = Some(Box::new(stop));
    drop(request);
    // SAFETY: the function has the signature that Windows calls, and lives as long as the process.
    crate::check(unsafe { SetConsoleCtrlHandler(Some(on_console_event), TRUE) })
}

/// Asks this process to stop. Returns whether it was asked before.
pub fn ask() -> bool {
    let mut request = request();
    if let Some(stop) = &request.stop {
        stop();
    }
    std::mem::replace(&mut request.is_stopping, true)
}

/// From now on, the service manager ends this process: it ignores that a user logs off, and the Ctrl-C of a command that sends one to
/// all of its console. It gets a console, which it needs to send Ctrl-Break to its commands.
pub(crate) fn be_service() {
    request().is_service = true;
    // SAFETY: nothing is passed. It fails if there is a console.
    unsafe { AllocConsole() };
}

fn request() -> MutexGuard<'static, Request> {
    REQUEST.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Windows calls this on a thread of its own.
unsafe extern "system" fn on_console_event(event: u32) -> BOOL {
    match event {
        CTRL_C_EVENT | CTRL_BREAK_EVENT | CTRL_LOGOFF_EVENT | CTRL_SHUTDOWN_EVENT
            if request().is_service =>
        {
            TRUE
        }
        // The second time, the default handler ends the process.
        CTRL_C_EVENT | CTRL_BREAK_EVENT => {
            if ask() {
                FALSE
            } else {
                TRUE
            }
        }
        _ => {
            ask();
            // The process ends as soon as this returns, and it has to save its state before.
            thread::sleep(END_WAIT);
            TRUE
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn the_first_request_stops_and_the_second_ends_the_process() {
        let (sender, stops) = mpsc::channel();
        on_stop(move || sender.send(()).unwrap()).unwrap();
        // SAFETY: as Windows calls it.
        let pressed = || unsafe { on_console_event(CTRL_C_EVENT) };
        assert_eq!((pressed(), pressed()), (TRUE, FALSE));
        assert_eq!(stops.try_iter().count(), 2);
        // A watcher that starts late stops, too.
        let (sender, stops) = mpsc::channel();
        on_stop(move || sender.send(()).unwrap()).unwrap();
        assert_eq!(stops.try_iter().count(), 1);
        // Only the service manager stops a service: its commands share its console.
        request().is_service = true;
        assert_eq!((pressed(), pressed()), (TRUE, TRUE));
        assert_eq!(stops.try_iter().count(), 0);
        assert!(ask());
        assert_eq!(stops.try_iter().count(), 1);
        request().is_service = false;
    }
}
