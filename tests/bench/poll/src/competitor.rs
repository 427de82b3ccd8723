//! A polling process: makes one poll for each line on stdin, and prints its cost as a line on stdout.

use std::io::{BufRead, Write};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use scheduled_events::clock::Clock;
use scheduled_events::core::{Response, Session, SessionConfig, Step, VmNames};
use scheduled_events::imds::{API_VERSION, Imds};
use scheduled_events::limits::EVENTS_MAX;

const TIMEOUT: Duration = Duration::from_secs(5);

/// Polls until stdin ends.
pub fn run(name: &str, endpoint: &str) -> Result<(), String> {
    let mut poll: Box<dyn FnMut() -> Result<(), String>> = match name {
        "client" => client(endpoint)?,
        "ureq" => ureq(endpoint),
        _ => {
            return Err(format!(
                "unknown competitor `{name}`; expected `client` or `ureq`"
            ));
        }
    };
    let mut out = std::io::stdout();
    for line in std::io::stdin().lock().lines() {
        line.map_err(|error| error.to_string())?;
        let (processor, begun) = (processor_time(), Instant::now());
        poll()?;
        let (elapsed, used) = (begun.elapsed(), processor_time().saturating_sub(processor));
        writeln!(
            out,
            "{} {} {}",
            elapsed.as_nanos(),
            used.as_nanos(),
            peak_kib()
        )
        .map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// A poll as the command makes it: the request, and core's session, which reads, follows and decides.
fn client(endpoint: &str) -> Result<Box<dyn FnMut() -> Result<(), String>>, String> {
    let imds = Imds::new(endpoint).map_err(|error| error.to_string())?;
    let clock = Clock::start();
    let config = SessionConfig {
        interval_ms: 200,
        ..SessionConfig::new(VmNames::new(&["WestNO_0"]))
    };
    let mut session =
        Box::new(Session::<EVENTS_MAX>::new(&config).map_err(|error| error.to_string())?);
    Ok(Box::new(move || {
        let mut polled = false;
        loop {
            match session.take_step(clock.now()) {
                Step::Get { timeout_ms, .. } => {
                    let timeout = Duration::from_millis(u64::from(timeout_ms));
                    let answer = imds.events(timeout).map_err(|failure| failure.detail)?;
                    let response = Response {
                        status: answer.status,
                        retry_after: None,
                        body: &answer.body,
                    };
                    session.on_response(&response, clock.now());
                    polled = true;
                }
                Step::Wait { .. } if polled => return Ok(()),
                Step::Wait { until } => {
                    std::thread::sleep(Duration::from_millis(
                        until.millis_since(clock.now()).max(1),
                    ));
                }
                Step::Report(_) => {}
                Step::Post { .. }
                | Step::Prepare { .. }
                | Step::Recover { .. }
                | Step::Gate { .. }
                | Step::Cancel { .. } => {
                    return Err("expected an observing session to take no action".to_owned());
                }
            }
        }
    }))
}

/// A bare GET in Rust: the same bytes over the same HTTP library, without reading them.
fn ureq(endpoint: &str) -> Box<dyn FnMut() -> Result<(), String>> {
    let agent = ureq::Agent::config_builder()
        .timeout_global(Some(TIMEOUT))
        .build()
        .new_agent();
    let url = format!("{endpoint}/metadata/scheduledevents?api-version={API_VERSION}");
    Box::new(move || {
        let answer = agent.get(&url).header("Metadata", "true").call();
        let body = answer
            .and_then(|mut answer| answer.body_mut().read_to_vec())
            .map_err(|error| error.to_string())?;
        if body.is_empty() {
            Err("no body".to_owned())
        } else {
            Ok(())
        }
    })
}

fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(
        time.tv_sec.try_into().unwrap_or_default(),
        time.tv_nsec.try_into().unwrap_or_default(),
    )
}

/// The peak memory of this process.
fn peak_kib() -> u64 {
    crate::process::peak_kib("self").unwrap_or(0)
}
