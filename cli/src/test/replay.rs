//! `replay` and `scenarios`: imitate Azure's metadata service.

use std::ffi::OsString;
use std::fmt::{self, Write as _};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
#[cfg(unix)]
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use super::clients::Clients;
use super::record::recorded;
use crate::args::{ReplayArgs, ScenariosArgs};
use crate::error::CommandError;
use crate::output::format::{count, printable};
use crate::output::style::{BAD, BOLD, CAUTION, DIM, GOOD, PLAIN};
use crate::output::table::Table;
use crate::output::terminal;
use crate::output::{check_written, diagnose, print, print_progress, print_record};
use crate::platform;
use crate::startup::survive_size_limit;
use scheduled_events::files::is_same_file;
use scheduled_events::record::Record;
use scheduled_events_replay::scenario::EventScript;
use scheduled_events_replay::verdict::report::{ReportFormat, TimelineLine, VerdictReport};
use scheduled_events_replay::verdict::{Outcome, Untested};
use scheduled_events_replay::{
    ADVICE_API_VERSION, ControlPlane, QueueAddress, ReplayEvent, Scenario, Server, ServerConfig,
    Verdict,
};

pub(crate) fn replay(args: ReplayArgs) -> Result<(), CommandError> {
    let scenario = load(&args.scenario)?;
    survive_size_limit()?;
    let format = args.report.as_deref();
    let format = format
        .map(|path| report_format(path, &args.scenario))
        .transpose()?;
    let (observer, events) = mpsc::channel();
    let mut config = ServerConfig::new(scenario)
        .listen(args.listen)
        .speed(args.speed)
        .vm_name(args.vm_name);
    config = config
        .machines(args.machines)
        .observer(observer)
        .findings(true);
    config = config.newest_api_version(args.newest_api_version);
    config.seed = args.seed;
    for fault in args.fault {
        config = config.fault(fault);
    }
    for approved in args
        .automatically_approve
        .split(',')
        .filter(|approved| !approved.is_empty())
    {
        config = config.automatically_approved(match approved {
            "reboot" => "Reboot",
            "redeploy" => "Redeploy",
            _ => {
                let message = format!(
                    "found {approved:?} to approve automatically, expected reboot, redeploy or both"
                );
                return Err(CommandError::usage(message));
            }
        });
    }
    if args.control_plane || args.control_plane_queue.is_some() {
        let mut control_plane = ControlPlane::default();
        if let Some(queue) = args.control_plane_queue {
            let queue = queue.parse::<QueueAddress>();
            control_plane =
                control_plane.queue(queue.map_err(|error| CommandError::usage(error.to_string()))?);
        }
        config = config.control_plane(control_plane);
    }
    config
        .check()
        .map_err(|error| CommandError::usage(error.to_string()))?;
    let advice = unseen_advice(&config);
    let started = SystemTime::now();
    let server = Server::start(config).map_err(|error| {
        let advice = match error.kind() {
            io::ErrorKind::AddrInUse => "; another program uses this port, port 0 takes a free one",
            io::ErrorKind::Other => {
                return CommandError::endpoint(error.to_string());
            }
            _ => "",
        };
        CommandError::usage(format!("cannot listen on {}: {error}{advice}", args.listen))
    })?;
    // Scripts need this line, so --quiet does not suppress it: without it, the port is unknown.
    print(server.addresses().as_bytes()).and_then(|()| check_written())?;
    if let Some(advice) = advice {
        diagnose("note", &advice);
    }
    let mut run = ReplayRun {
        server,
        timeline: Vec::new(),
        has_started: false,
        is_over: None,
    };
    if args.command.is_empty() && format.is_none() {
        for event in events {
            run.event(&event);
        }
        return check_written();
    }
    let clients = run.test_clients(&args.command, args.linger, &events)?;
    if !args.command.is_empty() {
        run.server.settle();
    }
    let verdicts: Vec<_> = (0..run.server.machines().len())
        .map(|number| run.server.verdict(number))
        .collect();
    for verdict in &verdicts {
        print_progress(&summary(verdict));
        let name = printable(verdict.machine());
        match verdict.untested() {
            None => {}
            Some(Untested::NeverPolled) => diagnose(
                "warning",
                &format!("{name} never polled, so nothing was tested; check the client's endpoint"),
            ),
            Some(Untested::NoEventOfItsOwn) => diagnose(
                "warning",
                &format!("{name} was shown no event of its own, so nothing was tested"),
            ),
            Some(_) => diagnose(
                "warning",
                &format!("{name} was shown no event, so nothing was tested"),
            ),
        }
    }
    if let (Some(format), Some(path)) = (format, &args.report) {
        let (timeline, duration) = (&run.timeline, run.server.started().elapsed());
        let report = VerdictReport {
            scenario: &args.scenario,
            started,
            duration,
            verdicts: &verdicts,
            timeline,
        };
        fs::write(path, report.write(format))
            .map_err(|error| CommandError::endpoint(not_written(path, &error)))?;
    }
    check_written()?;
    if let Some(status) = clients.failure() {
        let exit_code = status
            .code()
            .and_then(|code| u8::try_from(code).ok())
            .unwrap_or(1);
        return Err(CommandError {
            exit_code,
            message: format!("the command failed: {status}"),
        });
    }
    let all = count(verdicts.len(), "client");
    let number = |is: fn(&Verdict) -> bool| verdicts.iter().filter(|verdict| is(verdict)).count();
    let broken = number(Verdict::breaks_a_rule);
    if broken > 0 {
        return Err(CommandError::endpoint(format!(
            "{broken} of {all} broke the wire contract"
        )));
    }
    let untested = number(|verdict| verdict.tested() == Outcome::Failed);
    if untested > 0 {
        return Err(CommandError::endpoint(format!(
            "nothing was tested for {untested} of {all}"
        )));
    }
    Ok(())
}

/// Says that no client can see the scenario's advice, if the service has no version that shows it.
fn unseen_advice(config: &ServerConfig) -> Option<String> {
    let has_advice = config.scenario.events.iter().any(EventScript::is_advice);
    let is_unseen = has_advice && config.newest_api_version.as_str() < ADVICE_API_VERSION;
    is_unseen.then(|| {
        format!("the scenario has advice, which no client sees without --newest-api-version {ADVICE_API_VERSION}")
    })
}

/// A server, and its reports so far.
struct ReplayRun {
    server: Server,
    timeline: Vec<TimelineLine>,
    /// Whether a document was served, which starts the scenario.
    has_started: bool,
    /// When the scenario ended.
    is_over: Option<Instant>,
}

impl ReplayRun {
    fn event(&mut self, event: &ReplayEvent) {
        // Successful polls come every second and are not printed.
        let is_routine = matches!(event, ReplayEvent::Answered { method, status: Some(200 | 304), faults, .. }
            if method == "GET" && faults.is_empty());
        if is_routine {
            return;
        }
        let machine = match event {
            ReplayEvent::Answered { machine, .. } | ReplayEvent::Finding { machine, .. } => {
                Some(*machine)
            }
            _ => None,
        };
        let machines = self.server.machines();
        let name = machine
            .filter(|_| machines.len() > 1)
            .and_then(|number| machines.get(number));
        let name = name.map_or_else(String::new, |machine| format!("{}: ", machine.name));
        print_progress(&format!("{}\n", printable(&format!("{name}{event}"))));
        self.has_started |= matches!(event, ReplayEvent::ScenarioStarted);
        if matches!(event, ReplayEvent::Finished) {
            self.is_over.get_or_insert_with(Instant::now);
        }
        if self.timeline.len() < TIMELINE_MAX {
            let at = match event {
                ReplayEvent::Finding { finding, .. } => finding.at,
                _ => self.server.started().elapsed(),
            };
            self.timeline.push(TimelineLine {
                at,
                machine,
                text: event.to_string(),
            });
        }
    }

    /// Runs the command for each machine until all have ended, or until a signal asks this program
    /// to stop. Without a command, the clients are the user's.
    fn test_clients(
        &mut self,
        command: &[OsString],
        linger: Duration,
        events: &Receiver<ReplayEvent>,
    ) -> Result<Clients, CommandError> {
        let is_stopped = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&is_stopped);
        platform::on_stop_signal(move || flag.store(true, Ordering::SeqCst), None)
            .map_err(|error| CommandError::usage(format!("cannot start a thread: {error}")))?;
        let machines = if command.is_empty() {
            &[]
        } else {
            self.server.machines()
        };
        let mut clients =
            Clients::start(command, machines, &outside(&self.server)).map_err(|error| {
                CommandError::usage(format!(
                    "cannot run {}: {error}",
                    command[0].to_string_lossy()
                ))
            })?;
        loop {
            let most = START_MAX * if self.server.is_answering() { 2 } else { 1 };
            let never_starts = !self.has_started && self.server.started().elapsed() >= most;
            let is_over =
                never_starts || self.is_over.is_some_and(|since| since.elapsed() >= linger);
            if is_stopped.load(Ordering::SeqCst) || is_over && !command.is_empty() {
                clients.stop();
            }
            for number in clients.ended() {
                if let Some(exit) = clients.exit(number) {
                    self.server.client_exited(number, exit);
                }
            }
            let has_ended = match command {
                [] => is_stopped.load(Ordering::SeqCst),
                _ => clients.all_ended(),
            };
            // The events that are in the channel by now belong to the report.
            while let Ok(event) = events.try_recv() {
                self.event(&event);
            }
            if has_ended {
                return Ok(clients);
            }
            thread::sleep(CLIENTS_CHECK);
        }
    }
}

/// How long clients may run without an answered request for a document: the first response may take
/// two minutes. Those that wait for it may run for twice as long, since they may have begun late.
const START_MAX: Duration = Duration::from_secs(150);

/// How often to check whether the clients have ended.
const CLIENTS_CHECK: Duration = Duration::from_millis(50);

/// The most lines of a report's timeline.
const TIMELINE_MAX: usize = 10_000;

/// The format of the report. Its file is opened before anything else, so that an error in its path
/// shows at once, and keeps its contents until there is a report.
fn report_format(path: &Path, scenario: &str) -> Result<ReportFormat, CommandError> {
    let format = ReportFormat::of(path).ok_or_else(|| {
        CommandError::usage(format!(
            "found the report {}, expected a name that ends in .xml (JUnit), .ndjson or .html",
            path.display()
        ))
    })?;
    if is_same_file(path, scenario.as_ref()) {
        let path = path.display();
        return Err(CommandError::usage(format!(
            "{path} is the scenario; write another path after --report"
        )));
    }
    // Opening a pipe would wait for its reader.
    #[cfg(unix)]
    if fs::metadata(path).is_ok_and(|file| file.file_type().is_fifo()) {
        return Err(CommandError::usage(not_written(path, &"it is a pipe")));
    }
    let mut options = OpenOptions::new();
    let opened = options.append(true).create(true).open(path);
    opened.map_err(|error| CommandError::usage(not_written(path, &error)))?;
    Ok(format)
}

fn not_written(path: &Path, error: &dyn fmt::Display) -> String {
    format!("cannot write the report {}: {error}", path.display())
}

/// A verdict in some lines, with colours.
fn summary(verdict: &Verdict) -> String {
    let mut text = String::from("\n");
    for line in verdict.to_string().lines() {
        let is_first = !line.starts_with(' ');
        let style = if is_first && line.contains(": clean;") {
            GOOD
        } else if is_first && verdict.is_clean() {
            CAUTION
        } else if line.starts_with("  broken ") || is_first {
            BAD
        } else if line.starts_with("  warning ") {
            CAUTION
        } else {
            PLAIN
        };
        let _ = writeln!(text, "{style}{line}{style:#}");
    }
    text
}

/// The variables with the addresses outside the machines.
fn outside(server: &Server) -> Vec<(&'static str, String)> {
    let control_plane = server
        .control_plane()
        .map(|url| ("SCHEDULED_EVENTS_CONTROL_PLANE", url));
    let queue = server
        .queue()
        .map(|queue| ("SCHEDULED_EVENTS_QUEUE", queue.with_access()));
    control_plane.into_iter().chain(queue).collect()
}

/// The built-in scenario of this name, or the scenario in the file of this path. An audit file
/// becomes a scenario of its records.
pub(crate) fn load(name: &str) -> Result<Scenario, CommandError> {
    if Scenario::builtin_source(name).is_none() && is_audit(Path::new(name)) {
        let text = recorded(Path::new(name), false)?;
        return Scenario::parse(&text)
            .map_err(|error| CommandError::document(format!("{name}: {}", error.message())));
    }
    Scenario::load(name).map_err(CommandError::usage)
}

/// Whether a file has JSON Lines, as an audit file does. No scenario file begins with a brace.
fn is_audit(path: &Path) -> bool {
    let mut first = [0];
    File::open(path)
        .and_then(|mut file| file.read_exact(&mut first))
        .is_ok()
        && first == *b"{"
}

pub(crate) fn scenarios(args: &ScenariosArgs) -> Result<(), CommandError> {
    if let Some(name) = &args.show {
        let source = Scenario::builtin_source(name).ok_or_else(|| {
            CommandError::usage(format!(
                "there is no scenario {name:?}; {}",
                Scenario::suggestion(name)
            ))
        })?;
        return print(source.as_bytes());
    }
    if args.output.json {
        return Scenario::builtins().try_for_each(|(name, about)| {
            print_record(&Record::Scenario {
                name,
                about: &about,
            })
        });
    }
    let mut table = Table::default();
    for (name, about) in Scenario::builtins() {
        table.row([(name.to_owned(), BOLD), (about, PLAIN)]);
    }
    let mut text = Vec::new();
    // Writing to memory does not fail.
    let _ = table.print(&mut text, terminal::output_width());
    let _ = writeln!(
        text,
        "\n{DIM}Watch one:       scheduled-events demo SCENARIO\n\
         Print its file:  scheduled-events scenarios --show SCENARIO{DIM:#}"
    );
    print(&text)
}
