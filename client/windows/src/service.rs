//! A Windows service: its installation, its control, and the process that the service manager starts.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use windows_service::Error;
use windows_service::define_windows_service;
use windows_service::service::{
    Service, ServiceAccess, ServiceAction, ServiceActionType, ServiceControl, ServiceControlAccept,
    ServiceErrorControl, ServiceExitCode, ServiceFailureActions, ServiceFailureResetPeriod,
    ServiceInfo, ServiceStartType, ServiceState, ServiceStatus, ServiceType,
};
use windows_service::service_control_handler::{
    self, ServiceControlHandlerResult, ServiceStatusHandle,
};
use windows_service::service_dispatcher;
use windows_service::service_manager::{ServiceManager, ServiceManagerAccess};
use windows_sys::Win32::Foundation::{
    ERROR_FAILED_SERVICE_CONTROLLER_CONNECT, ERROR_SERVICE_CANNOT_ACCEPT_CTRL,
    ERROR_SERVICE_DOES_NOT_EXIST, ERROR_SERVICE_EXISTS, ERROR_SERVICE_MARKED_FOR_DELETE,
    ERROR_SERVICE_NOT_ACTIVE,
};

use crate::stop;

/// How long the service may take to stop: its commands have seconds to end.
const STOP_TIME: Duration = Duration::from_secs(20);

/// How long a shutdown of the machine waits for the service.
const PRESHUTDOWN_TIME: Duration = Duration::from_secs(30);

/// The delays before the service is started again after a failure. The last one is used from then on.
const RESTART_DELAYS: [Duration; 3] = [
    Duration::from_secs(1),
    Duration::from_secs(5),
    Duration::from_secs(60),
];

/// After this time without a failure, the delays start from the first one.
const RESTART_RESET: Duration = Duration::from_secs(24 * 3600);

/// How often the state of a service is asked for while it starts or stops.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// What is installed.
#[derive(Clone, Debug)]
pub struct Installation {
    /// The service's name, also that of its source in the Event Log.
    pub name: &'static str,
    /// The name that people see.
    pub display_name: &'static str,
    /// A sentence about it.
    pub description: &'static str,
    /// The program, and its arguments. They are kept exactly.
    pub program: PathBuf,
    /// The arguments.
    pub arguments: Vec<OsString>,
}

/// Installs a service that starts with the machine, some time after the services that others wait for, and again after a failure.
/// Returns the settings that Windows refuses.
///
/// # Errors
/// [`ServiceError::Refused`].
pub fn install(wanted: &Installation) -> Result<Vec<ServiceError>, ServiceError> {
    let manager = manager(ServiceManagerAccess::CONNECT | ServiceManagerAccess::CREATE_SERVICE)?;
    let info = ServiceInfo {
        name: wanted.name.into(),
        display_name: wanted.display_name.into(),
        service_type: ServiceType::OWN_PROCESS,
        start_type: ServiceStartType::AutoStart,
        error_control: ServiceErrorControl::Normal,
        executable_path: wanted.program.clone(),
        launch_arguments: wanted.arguments.clone(),
        dependencies: Vec::new(),
        account_name: None,
        account_password: None,
    };
    let service = manager
        .create_service(&info, ServiceAccess::all())
        .map_err(failed("install"))?;
    let restart = |delay| ServiceAction {
        action_type: ServiceActionType::Restart,
        delay,
    };
    let failure_actions = ServiceFailureActions {
        reset_period: ServiceFailureResetPeriod::After(RESTART_RESET),
        reboot_msg: None,
        command: None,
        actions: Some(RESTART_DELAYS.into_iter().map(restart).collect()),
    };
    let settings = [
        (
            "its description",
            service.set_description(wanted.description),
        ),
        ("its delayed start", service.set_delayed_auto_start(true)),
        (
            "its time before a shutdown",
            service.set_preshutdown_timeout(PRESHUTDOWN_TIME),
        ),
        (
            "its restart after a failure",
            service.update_failure_actions(failure_actions),
        ),
        (
            "its restart after an error",
            service.set_failure_actions_on_non_crash_failures(true),
        ),
    ];
    Ok(settings
        .into_iter()
        .filter_map(|(what, set)| set.err().map(failed_to("set", what)))
        .collect())
}

/// Stops the service if it runs, and removes it.
///
/// # Errors
/// [`ServiceError::Refused`].
pub fn uninstall(name: &str) -> Result<(), ServiceError> {
    let service = open(
        name,
        ServiceAccess::QUERY_STATUS | ServiceAccess::STOP | ServiceAccess::DELETE,
    )?;
    stop_and_wait(&service)?;
    service.delete().map_err(failed("remove"))
}

/// Starts the service, and waits until it runs.
///
/// # Errors
/// [`ServiceError::Refused`], or [`ServiceError::EndedAtOnce`].
pub fn start(name: &str) -> Result<(), ServiceError> {
    let service = open(name, ServiceAccess::QUERY_STATUS | ServiceAccess::START)?;
    service.start::<&OsStr>(&[]).map_err(failed("start"))?;
    wait_while(
        ServiceState::StartPending,
        Instant::now() + STOP_TIME,
        || state(&service),
    )?;
    let status = service.query_status().map_err(failed("query"))?;
    match status.current_state {
        ServiceState::Running => Ok(()),
        _ => Err(ServiceError::EndedAtOnce {
            exit: exit(&status),
        }),
    }
}

/// Stops the service, and waits until it has ended. One that does not run is no error.
///
/// # Errors
/// [`ServiceError::Refused`].
pub fn stop(name: &str) -> Result<(), ServiceError> {
    stop_and_wait(&open(
        name,
        ServiceAccess::QUERY_STATUS | ServiceAccess::STOP,
    )?)
}

/// The state of the service, in words.
///
/// # Errors
/// [`ServiceError::Refused`]: there is no such service, for example.
pub fn status(name: &str) -> Result<String, ServiceError> {
    let service = open(name, ServiceAccess::QUERY_STATUS)?;
    let status = service.query_status().map_err(failed("query"))?;
    Ok(match status.current_state {
        ServiceState::Running => {
            format!("running, process {}", status.process_id.unwrap_or_default())
        }
        ServiceState::StartPending => "starting".to_owned(),
        ServiceState::StopPending => "stopping".to_owned(),
        ServiceState::Stopped => format!("stopped ({})", exit(&status)),
        other => format!("{other:?}"),
    })
}

fn exit(status: &ServiceStatus) -> String {
    match status.exit_code {
        ServiceExitCode::Win32(0) => "exit code 0".to_owned(),
        ServiceExitCode::ServiceSpecific(code) => format!("exit code {code}"),
        ServiceExitCode::Win32(code) => {
            std::io::Error::from_raw_os_error(code.cast_signed()).to_string()
        }
    }
}

fn manager(access: ServiceManagerAccess) -> Result<ServiceManager, ServiceError> {
    ServiceManager::local_computer(None::<&OsStr>, access).map_err(failed("ask for"))
}

fn open(name: &str, access: ServiceAccess) -> Result<Service, ServiceError> {
    manager(ServiceManagerAccess::CONNECT)?
        .open_service(name, access)
        .map_err(failed("find"))
}

/// Why a service is not as it was asked to be.
#[derive(Debug)]
#[non_exhaustive]
pub enum ServiceError {
    /// Windows refuses it.
    Refused {
        /// What was to be done: a verb.
        attempt: &'static str,
        /// The service, or one of its settings.
        object: &'static str,
        /// The error of Windows.
        error: Error,
    },
    /// The service was started, and ended at once.
    EndedAtOnce {
        /// How it ended, in words.
        exit: String,
    },
    /// The service was asked to stop, and does not.
    StillRuns {
        /// Its state.
        state: ServiceState,
    },
    /// The service manager did not start this process.
    NotAService,
}

impl fmt::Display for ServiceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused {
                attempt,
                object,
                error,
            } => write!(f, "cannot {attempt} {object}: {}", advice(error)),
            Self::EndedAtOnce { exit } => write!(
                f,
                "the service ended at once ({exit}); the Application log has the reason"
            ),
            Self::StillRuns { state } => write!(f, "the service does not stop; it is {state:?}"),
            Self::NotAService => {
                f.write_str("only the service manager can run this; use `service start`")
            }
        }
    }
}

impl std::error::Error for ServiceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Refused { error, .. } => Some(error),
            Self::EndedAtOnce { .. } | Self::StillRuns { .. } | Self::NotAService => None,
        }
    }
}

fn failed(attempt: &'static str) -> impl FnOnce(Error) -> ServiceError {
    failed_to(attempt, "the service")
}

fn failed_to(attempt: &'static str, object: &'static str) -> impl FnOnce(Error) -> ServiceError {
    move |error| ServiceError::Refused {
        attempt,
        object,
        error,
    }
}

/// What Windows refuses, and what to do about it.
fn advice(error: &Error) -> String {
    match raw_code(error) {
        Some(5) => "access is denied; run it as administrator".to_owned(),
        Some(code) if code == ERROR_SERVICE_EXISTS.cast_signed() => {
            "there is one; `service uninstall` removes it".to_owned()
        }
        Some(code) if code == ERROR_SERVICE_DOES_NOT_EXIST.cast_signed() => {
            "there is none; `service install` installs it".to_owned()
        }
        Some(code) if code == ERROR_SERVICE_MARKED_FOR_DELETE.cast_signed() => {
            "it is being removed; close the programs that show it".to_owned()
        }
        Some(code) => std::io::Error::from_raw_os_error(code).to_string(),
        None => error.to_string(),
    }
}

fn raw_code(error: &Error) -> Option<i32> {
    match error {
        Error::Winapi(error) => error.raw_os_error(),
        _ => None,
    }
}

fn is(error: &Error, code: u32) -> bool {
    raw_code(error) == Some(code.cast_signed())
}

fn stop_and_wait(service: &Service) -> Result<(), ServiceError> {
    stop_with(|| service.stop(), || state(service))
}

/// Asks a service to stop, and waits until it has ended. While it starts or stops, it may refuse requests.
fn stop_with(
    mut stop: impl FnMut() -> Result<ServiceStatus, Error>,
    mut state: impl FnMut() -> Result<ServiceState, ServiceError>,
) -> Result<(), ServiceError> {
    let deadline = Instant::now() + STOP_TIME;
    loop {
        let refused = match stop() {
            Ok(_) => None,
            Err(error) if is(&error, ERROR_SERVICE_NOT_ACTIVE) => return Ok(()),
            Err(error) => Some(error).filter(|error| !is(error, ERROR_SERVICE_CANNOT_ACCEPT_CTRL)),
        };
        let state = wait_while(ServiceState::StopPending, deadline, &mut state)?;
        match (state, refused) {
            (ServiceState::Stopped, _) => return Ok(()),
            (_, Some(error)) => return Err(failed("stop")(error)),
            _ if Instant::now() >= deadline => {
                return Err(ServiceError::StillRuns { state });
            }
            _ => thread::sleep(CHECK_INTERVAL),
        }
    }
}

fn state(service: &Service) -> Result<ServiceState, ServiceError> {
    service
        .query_status()
        .map(|status| status.current_state)
        .map_err(failed("query"))
}

/// Waits while the service is in this state. Returns the next one, or the same at the deadline.
fn wait_while(
    waited: ServiceState,
    deadline: Instant,
    mut state: impl FnMut() -> Result<ServiceState, ServiceError>,
) -> Result<ServiceState, ServiceError> {
    loop {
        let state = state()?;
        if state != waited || Instant::now() >= deadline {
            return Ok(state);
        }
        thread::sleep(CHECK_INTERVAL);
    }
}

/// The work of the service, which returns its exit code.
type Work = Box<dyn FnOnce() -> u32 + Send>;

static RUN: Mutex<Run> = Mutex::new(Run {
    name: "",
    work: None,
    handle: None,
    is_stopping: false,
});

struct Run {
    name: &'static str,
    work: Option<Work>,
    handle: Option<ServiceStatusHandle>,
    is_stopping: bool,
}

fn run_lock() -> MutexGuard<'static, Run> {
    RUN.lock().unwrap_or_else(PoisonError::into_inner)
}

define_windows_service!(ffi_service_main, service_main);

/// Does the work of the service in the process that the service manager started. The work calls [`report_running`] once it has
/// started, and ends after [`stop::on_stop`]'s function was called: by Stop, Shutdown and Preshutdown.
///
/// # Errors
/// [`ServiceError::NotAService`]: the service manager did not start this process.
pub fn run(
    name: &'static str,
    work: impl FnOnce() -> u32 + Send + 'static,
) -> Result<(), ServiceError> {
    stop::be_service();
    *run_lock() = Run {
        name,
        work: Some(Box::new(work)),
        handle: None,
        is_stopping: false,
    };
    service_dispatcher::start(name, ffi_service_main).map_err(|error| {
        if is(&error, ERROR_FAILED_SERVICE_CONTROLLER_CONNECT) {
            return ServiceError::NotAService;
        }
        failed("run")(error)
    })
}

fn service_main(_arguments: Vec<OsString>) {
    let (name, work) = {
        let mut run = run_lock();
        (run.name, run.work.take())
    };
    let handler = |control| match control {
        ServiceControl::Stop | ServiceControl::Shutdown | ServiceControl::Preshutdown => {
            report_stopping();
            stop::ask();
            ServiceControlHandlerResult::NoError
        }
        ServiceControl::Interrogate => ServiceControlHandlerResult::NoError,
        _ => ServiceControlHandlerResult::NotImplemented,
    };
    // Without a handler there is nobody to report anything to.
    let Ok(handle) = service_control_handler::register(name, handler) else {
        return;
    };
    {
        let mut run = run_lock();
        run.handle = Some(handle);
        report(&run, ServiceState::StartPending, 0);
    }
    let code = work.map_or(0, |work| work());
    let mut run = run_lock();
    report(&run, ServiceState::Stopped, code);
    // The last report: a request to stop that comes now must not report that the service is about to end.
    run.handle = None;
}

/// Reports to the service manager that the service runs, unless it is about to end.
pub fn report_running() {
    // Kept, so that no request to stop comes between.
    let run = run_lock();
    if !run.is_stopping {
        report(&run, ServiceState::Running, 0);
    }
}

/// Whether the service manager started this process.
pub fn is_service() -> bool {
    run_lock().handle.is_some()
}

/// Reports to the service manager that the service is about to end.
pub fn report_stopping() {
    let mut run = run_lock();
    run.is_stopping = true;
    report(&run, ServiceState::StopPending, 0);
}

fn report(run: &Run, state: ServiceState, code: u32) {
    let is_pending = matches!(
        state,
        ServiceState::StartPending | ServiceState::StopPending
    );
    let accepts = ServiceControlAccept::STOP
        | ServiceControlAccept::SHUTDOWN
        | ServiceControlAccept::PRESHUTDOWN;
    let status = ServiceStatus {
        service_type: ServiceType::OWN_PROCESS,
        current_state: state,
        // A service that starts can be stopped, too: the metadata service may be slow.
        controls_accepted: match state {
            ServiceState::Running | ServiceState::StartPending => accepts,
            _ => ServiceControlAccept::empty(),
        },
        exit_code: if code == 0 {
            ServiceExitCode::Win32(0)
        } else {
            ServiceExitCode::ServiceSpecific(code)
        },
        checkpoint: u32::from(is_pending),
        wait_hint: if is_pending {
            STOP_TIME
        } else {
            Duration::ZERO
        },
        process_id: None,
    };
    // It fails if the service manager is gone.
    let _ = run.handle.map(|handle| handle.set_service_status(status));
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    /// Stops a service that answers so: each request with a code, or none, and each question with a state.
    fn stop(answers: &[u32], states: &[ServiceState]) -> (Result<(), String>, usize) {
        let (mut answers, mut states) = (answers.iter(), states.iter().copied());
        let result = stop_with(
            || {
                let code = answers.next().expect("no more requests").cast_signed();
                Err(Error::Winapi(io::Error::from_raw_os_error(code)))
            },
            || Ok(states.next().expect("no more questions")),
        );
        let result = result.map_err(|error| error.to_string());
        (result, answers.len() + states.len())
    }

    #[test]
    fn a_service_that_refuses_requests_for_a_while_is_stopped() {
        use ServiceState::{Running, StartPending, StopPending, Stopped};

        let (busy, inactive) = (ERROR_SERVICE_CANNOT_ACCEPT_CTRL, ERROR_SERVICE_NOT_ACTIVE);
        assert_eq!(stop(&[inactive], &[]), (Ok(()), 0));
        assert_eq!(
            stop(&[busy], &[StopPending, StopPending, Stopped]),
            (Ok(()), 0)
        );
        assert_eq!(
            stop(
                &[busy, busy, inactive],
                &[StartPending, StopPending, Running]
            ),
            (Ok(()), 0)
        );
        // It ended meanwhile.
        assert_eq!(stop(&[109], &[Stopped]), (Ok(()), 0));
        let (result, left) = stop(&[5], &[Running]);
        assert_eq!(
            (result.unwrap_err().as_str(), left),
            (
                "cannot stop the service: access is denied; run it as administrator",
                0
            )
        );
    }
}
