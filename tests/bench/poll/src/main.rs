//! The cost of a whole poll: processor time, latency and memory of the client, of a bare GET and of Python's HTTP libraries.
//! All poll one server on loopback in turns, each in a process of its own, all on one processor, so that the wake-up of
//! another processor is not measured. `make bench-poll`.

mod competitor;
mod process;
mod server;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;
use rustix::thread::{CpuSet, sched_setaffinity};
use scheduled_events_bench::documents::{Form, Sample, Size};
use scheduled_events_bench::report;
use serde_json::{Value, json};
use server::Server;

/// The shortest time between two polls of one competitor: slightly more than the client's own minimum, whose wait would
/// otherwise count as latency.
const PACE: Duration = Duration::from_millis(210);
/// The first polls open connections, import modules and fill caches.
const WARM_UP: usize = 3;
/// The number of watchers whose memory is measured, and the polls of all but the first.
const WATCHES: usize = 9;
const WATCH_POLLS: usize = 10;

#[derive(Parser)]
#[command(about = "Poll in turns and compare the costs")]
struct Options {
    /// Polls of each competitor
    #[arg(long, default_value_t = 200)]
    polls: usize,
    /// A Python with requests; without one, the output names Python as not measured
    #[arg(long)]
    python: Option<PathBuf>,
    /// The command `scheduled-events`, for the cost of `watch`
    #[arg(long)]
    command: Option<PathBuf>,
    /// Also write the figures to this file
    #[arg(long)]
    json: Option<PathBuf>,
    /// Run as a competitor: its name and the endpoint
    #[arg(long, hide = true, num_args = 2)]
    competitor: Option<Vec<String>>,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let done = match options.competitor.as_deref() {
        Some([name, endpoint]) => competitor::run(name, endpoint),
        _ => compare(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("error: {reason}");
            ExitCode::FAILURE
        }
    }
}

/// The cost of one competitor: medians, the 99th percentile, peak memory, and for a watcher its resident memory.
struct Cost {
    name: String,
    processor_us: f64,
    p50_us: Option<f64>,
    p99_us: Option<f64>,
    peak_kib: u64,
    resident_kib: Option<u64>,
}

fn compare(options: &Options) -> Result<(), String> {
    let mut one = CpuSet::new();
    one.set(0);
    sched_setaffinity(None, &one)
        .map_err(|error| format!("cannot keep to one processor: {error}"))?;
    let sample = Sample::new(Size::S, Form::Compact);
    let server = Server::start(&sample.body).map_err(|error| error.to_string())?;
    let mut competitors = Vec::new();
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    for name in ["ureq", "client"] {
        competitors.push(Competitor::start(
            name,
            Command::new(&program).arg("--competitor"),
            &server.endpoint,
        )?);
    }
    if let Some(python) = &options.python {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("competitors.py");
        for name in ["http.client", "urllib", "requests.Session", "requests"] {
            competitors.push(Competitor::start(
                name,
                Command::new(python).arg(&script),
                &server.endpoint,
            )?);
        }
    }
    for round in 0..options.polls + WARM_UP {
        for turn in 0..competitors.len() {
            // The direction alternates, so that no competitor always follows the same one.
            let place = if round % 2 == 0 {
                turn
            } else {
                competitors.len() - 1 - turn
            };
            let competitor = (place + round / 2) % competitors.len();
            competitors[competitor].poll(round >= WARM_UP)?;
        }
        thread::sleep(PACE); // After the round, so that the last one of this round may be the first one of the next.
    }
    let mut costs: Vec<_> = competitors.into_iter().map(Competitor::cost).collect();
    if let Some(command) = &options.command {
        costs.push(watch(command, &server, options.polls)?);
    }
    print(&costs, options, sample.body.len());
    if let Some(path) = &options.json {
        let text = format!("{:#}\n", figures(&costs, options, sample.body.len()));
        std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}

struct Competitor {
    name: &'static str,
    process: Child,
    turns: ChildStdin,
    costs: BufReader<ChildStdout>,
    elapsed_us: Vec<f64>,
    processor_us: Vec<f64>,
    peak_kib: u64,
}

impl Competitor {
    fn start(name: &'static str, command: &mut Command, endpoint: &str) -> Result<Self, String> {
        let started = command
            .args([name, endpoint])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut process = started.map_err(|error| format!("{name} does not start: {error}"))?;
        let turns = process.stdin.take().ok_or("no stdin")?;
        let costs = BufReader::new(process.stdout.take().ok_or("no stdout")?);
        Ok(Self {
            name,
            process,
            turns,
            costs,
            elapsed_us: Vec::new(),
            processor_us: Vec::new(),
            peak_kib: 0,
        })
    }

    /// Makes one poll, and keeps its cost unless it belongs to the warm-up.
    fn poll(&mut self, keep: bool) -> Result<(), String> {
        let mut line = String::new();
        let exchanged = self
            .turns
            .write_all(b"\n")
            .and_then(|()| self.costs.read_line(&mut line));
        exchanged.map_err(|error| format!("{} ended: {error}", self.name))?;
        let numbers: Vec<u64> = line
            .split_whitespace()
            .filter_map(|word| word.parse().ok())
            .collect();
        let [elapsed, processor, peak] = numbers[..] else {
            return Err(format!("{} failed", self.name));
        };
        if keep {
            self.elapsed_us.push(elapsed as f64 / 1e3);
            self.processor_us.push(processor as f64 / 1e3);
        }
        self.peak_kib = peak;
        Ok(())
    }

    fn cost(mut self) -> Cost {
        drop(self.turns); // The end of stdin ends the process.
        let _ = self.process.wait();
        Cost {
            name: self.name.to_owned(),
            processor_us: quantile(&mut self.processor_us, 0.5),
            p50_us: Some(quantile(&mut self.elapsed_us, 0.5)),
            p99_us: Some(quantile(&mut self.elapsed_us, 0.99)),
            peak_kib: self.peak_kib,
            resident_kib: None,
        }
    }
}

/// The command's `watch`: processor time of all its threads for a poll, and its memory. The layout of its pages is random
/// and changes the memory by a tenth, so this takes the median of several watchers.
fn watch(command: &Path, server: &Server, polls: usize) -> Result<Cost, String> {
    let (processor_us, peak, resident) = watch_once(command, server, polls)?;
    let (mut peaks, mut residents) = (vec![peak], vec![resident]);
    while peaks.len() < WATCHES {
        let (_, peak, resident) = watch_once(command, server, WATCH_POLLS)?;
        peaks.push(peak);
        residents.push(resident);
    }
    peaks.sort_unstable();
    residents.sort_unstable();
    let (peak_kib, resident_kib) = (peaks[WATCHES / 2], Some(residents[WATCHES / 2]));
    let name = "watch, the command".to_owned();
    Ok(Cost {
        name,
        processor_us,
        p50_us: None,
        p99_us: None,
        peak_kib,
        resident_kib,
    })
}

/// Returns the processor time of a poll in microseconds, and the peak and final memory in KiB.
fn watch_once(command: &Path, server: &Server, polls: usize) -> Result<(f64, u64, u64), String> {
    let mut process = Command::new(command)
        .args([
            "watch",
            "--json",
            "--interval",
            "210ms",
            "--vm-name",
            "WestNO_0",
            "--endpoint",
            &server.endpoint,
        ])
        .stdout(Stdio::null())
        .spawn()
        .map_err(|error| format!("{} does not start: {error}", command.display()))?;
    let id = process.id().to_string();
    let measured = (|| {
        let first = server.answered() + WARM_UP;
        let begun = at(server, first, &id)?;
        let ended = at(server, first + polls, &id)?;
        let processor_us = ended.saturating_sub(begun) as f64 / 1e3 / polls as f64;
        Some((
            processor_us,
            process::peak_kib(&id)?,
            process::resident_kib(&id)?,
        ))
    })();
    // It runs until it is killed.
    let _ = process.kill();
    let _ = process.wait();
    measured.ok_or_else(|| "`watch` ended or does not poll".to_owned())
}

/// Returns the processor time that a process has used once the server has answered so many requests.
fn at(server: &Server, answered: usize, process: &str) -> Option<u64> {
    let mut before = (Instant::now(), server.answered());
    while server.answered() < answered {
        thread::sleep(Duration::from_millis(20));
        if server.answered() > before.1 {
            before = (Instant::now(), server.answered());
        } else if before.0.elapsed() > Duration::from_secs(20) {
            return None;
        }
    }
    thread::sleep(Duration::from_millis(50)); // Its work after the answer is part of the poll.
    process::processor_ns(process)
}

fn quantile(values: &mut [f64], part: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values[((values.len() - 1) as f64 * part).round() as usize]
}

fn print(costs: &[Cost], options: &Options, bytes: usize) {
    let bare = costs[0].processor_us;
    println!("a poll of {bytes} B over loopback, {} each", options.polls);
    println!(
        "  {:<22}{:>14}{:>12}{:>10}{:>10}{:>12}",
        "", "processor µs", "× ureq", "p50 µs", "p99 µs", "peak MB"
    );
    for cost in costs {
        let time = |time: Option<f64>| time.map_or("–".to_owned(), |time| format!("{time:.0}"));
        println!(
            "  {:<22}{:>14.0}{:>12.2}{:>10}{:>10}{:>12.1}",
            cost.name,
            cost.processor_us,
            cost.processor_us / bare,
            time(cost.p50_us),
            time(cost.p99_us),
            megabytes(cost.peak_kib)
        );
    }
    for absent in absent(options) {
        println!("  NOT MEASURED: {absent}");
    }
    println!("\ngoals");
    for (what, wanted, measured, reached) in goals(costs) {
        let verdict = if reached { "reached" } else { "NOT REACHED" };
        println!("  {what:<58} {wanted:>10} {measured:>10}  {verdict}");
    }
}

fn megabytes(kib: u64) -> f64 {
    kib as f64 * 1024.0 / 1e6
}

fn absent(options: &Options) -> Vec<&'static str> {
    let python = options
        .python
        .is_none()
        .then_some("Python's libraries: --python is missing");
    let command = options
        .command
        .is_none()
        .then_some("watch: --command is missing");
    python.into_iter().chain(command).collect()
}

fn goals(costs: &[Cost]) -> Vec<(&'static str, &'static str, String, bool)> {
    let find = |name| costs.iter().find(|cost| cost.name == name);
    let mut goals = Vec::new();
    if let (Some(bare), Some(client)) = (find("ureq"), find("client")) {
        let ratio = client.processor_us / bare.processor_us;
        let what = "a poll through the client, as a multiple of a bare GET";
        goals.push((what, "≤ 1.5 ×", format!("{ratio:.2} ×"), ratio <= 1.5));
    }
    if let Some(resident) = find("watch, the command").and_then(|watch| watch.resident_kib) {
        let size = megabytes(resident);
        goals.push((
            "resident memory of watch, between polls",
            "≤ 4 MB",
            format!("{size:.1} MB"),
            size <= 4.0,
        ));
    }
    goals
}

fn figures(costs: &[Cost], options: &Options, bytes: usize) -> Value {
    let bare = costs[0].processor_us;
    let cost = |cost: &Cost| {
        json!({"name": cost.name, "processor_us": cost.processor_us, "ratio": cost.processor_us / bare,
            "p50_us": cost.p50_us, "p99_us": cost.p99_us, "peak_kib": cost.peak_kib,
            "resident_kib": cost.resident_kib})
    };
    json!({"run": report::run(), "bytes": bytes, "polls": options.polls, "costs": costs.iter().map(cost).collect::<Value>(),
        "absent": absent(options)})
}
