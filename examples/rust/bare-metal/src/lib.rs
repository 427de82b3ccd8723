//! An agent without std and without an allocator: it prepares a machine, approves, takes it back into service, and writes each
//! report as one line of JSON.
//!
//! [`run`] is the whole agent; a [`Board`] has the network, the clock and the machine. `cargo build --target thumbv7em-none-eabi`
//! builds it for a microcontroller, and its test runs it here.
#![no_std]

use scheduled_events_core::record::{EventMembers, Record};
use scheduled_events_core::{
    Action, Cause, GateAnswer, Policy, Preparation, Response, Rule, Session, SessionConfig,
    SessionConfigError, Step, TickClock, TrackedEvent, UnixMillis, VmNames,
};

/// How many events are followed.
const EVENTS: usize = 8;

/// The longest document that is read, in bytes.
const DOCUMENT_MAX: usize = 4096;

/// The longest line that is logged, in bytes.
const LINE_MAX: usize = 2048;

/// What the agent needs of the board that it runs on.
pub trait Board {
    /// Milliseconds since the start of the board; the counter wraps after 49.7 days.
    fn ticks(&self) -> u32;

    /// Sleeps for about so many milliseconds.
    fn sleep(&mut self, ms: u64);

    /// Sends `GET /metadata/scheduledevents?api-version=…` with the header `Metadata: true`, and writes the body of the response to
    /// the front of `buffer`. Returns status and length.
    ///
    /// # Errors
    /// Why there is no whole response.
    fn get(&mut self, api_version: &str, buffer: &mut [u8]) -> Result<(u16, usize), Cause>;

    /// Sends this body with POST. Returns the status.
    ///
    /// # Errors
    /// Why there is no response.
    fn post(&mut self, api_version: &str, body: &[u8]) -> Result<u16, Cause>;

    /// Takes the machine out of service. Returns whether that succeeded.
    fn prepare(&mut self, event: &TrackedEvent) -> bool;

    /// Takes the machine back into service. Returns whether that succeeded.
    fn recover(&mut self) -> bool;

    /// Writes a line to the log.
    fn log(&mut self, line: &str);
}

/// Runs until an event was seen and none is left. A real agent has no end.
///
/// # Errors
/// Those of [`Session::new`].
pub fn run(
    board: &mut impl Board,
    name: &str,
    time_of_day: UnixMillis,
) -> Result<(), SessionConfigError> {
    let names = [name];
    let mut clock = TickClock::new(time_of_day, board.ticks());
    let config = SessionConfig {
        // One rule fits.
        policy: Policy::new(&[Rule::new(Action::Prepare)]).unwrap_or_default(),
        ..SessionConfig::new(VmNames::new(&names))
    };
    let mut session = Session::<EVENTS>::new(&config)?;
    let mut body = [0; DOCUMENT_MAX];
    while !(session.has_seen_event() && session.is_idle()) {
        let now = clock.now(board.ticks());
        let answer = match session.take_step(now) {
            Step::Get { api_version, .. } => board.get(api_version, &mut body),
            Step::Post {
                body, api_version, ..
            } => board.post(api_version, body).map(|status| (status, 0)),
            Step::Prepare { event, attempt, .. } => {
                let result = if board.prepare(event) {
                    Preparation::Ready
                } else {
                    Preparation::Failed
                };
                let _ = session.prepared(attempt, result);
                continue;
            }
            Step::Recover { attempt, .. } => {
                let has_recovered = board.recover();
                let now = clock.now(board.ticks());
                let _ = session.recovered(attempt, has_recovered, now);
                continue;
            }
            Step::Gate { attempt, .. } => {
                let _ = session.gate_answered(attempt, GateAnswer::Open, now);
                continue;
            }
            // Nothing runs while a step is taken.
            Step::Cancel { .. } => continue,
            Step::Report(report) => {
                let report = report.map(EventMembers::from_tracked);
                let record = Record::from_report(&report, None).at(now.seconds());
                let mut line = [0; LINE_MAX];
                match record.write_json(&mut line) {
                    Ok(line) => board.log(line),
                    Err(_) => board.log(r#"{"record":"too-long"}"#),
                }
                continue;
            }
            Step::Wait { until } => {
                board.sleep(until.millis_since(now));
                continue;
            }
        };
        // The request may have taken minutes.
        let now = clock.now(board.ticks());
        let _ = match answer {
            Ok((status, length)) => {
                let body = body.get(..length).unwrap_or_default();
                let response = Response {
                    status,
                    body,
                    ..Response::default()
                };
                session.on_response(&response, now)
            }
            Err(cause) => session.on_failure(cause, now),
        };
    }
    Ok(())
}
