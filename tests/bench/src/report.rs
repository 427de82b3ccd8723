//! The figures: tables for people, JSON for docs/inside/performance.md, and the goals with their measured values.

use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use scheduled_events_core::UnixSeconds;
use serde_json::{Value, json};

use crate::competitors::Competitor;
use crate::documents::{Form, Size};
use crate::measure::ROUNDS;
use crate::strictness::accepted_faults;

/// The readers of one document: name, nanoseconds, and the time as a multiple of core's.
pub struct Measured {
    pub size: Size,
    pub form: Form,
    pub bytes: usize,
    pub results: Vec<(&'static str, f64, f64)>,
}

impl Measured {
    fn of(&self, name: &str) -> Option<&(&'static str, f64, f64)> {
        self.results.iter().find(|result| result.0 == name)
    }
}

/// What core does after reading: name, nanoseconds, and the time as a multiple of parsing.
pub struct Followed {
    pub size: Size,
    pub bytes: usize,
    pub results: Vec<(&'static str, f64, f64)>,
}

/// A goal and its measured value.
struct Goal {
    what: String,
    wanted: String,
    measured: String,
    reached: bool,
}

pub struct Report {
    competitors: Vec<(&'static str, &'static str, &'static str, Vec<&'static str>)>,
    absent: Vec<&'static str>,
    readings: Vec<Measured>,
    followings: Vec<Followed>,
}

impl Report {
    pub fn new(competitors: &[Competitor], absent: Vec<&'static str>) -> Self {
        let about = |competitor: &Competitor| {
            (
                competitor.name,
                competitor.version,
                competitor.note,
                accepted_faults(competitor),
            )
        };
        Self {
            competitors: competitors.iter().map(about).collect(),
            absent,
            readings: Vec::new(),
            followings: Vec::new(),
        }
    }

    pub fn reading(&mut self, measured: Measured) {
        self.readings.push(measured);
    }

    pub fn following(&mut self, followed: Followed) {
        self.followings.push(followed);
    }

    /// Prints the table of one form: a line for each reader, a column for each document.
    pub fn print_form(&self, form: Form) {
        let columns: Vec<_> = self
            .readings
            .iter()
            .filter(|measured| measured.form == form)
            .collect();
        println!(
            "{}: reading every field, ns (multiple of core's)",
            form.name()
        );
        print!("  {:<20}", "");
        for column in &columns {
            print!(
                "{:>21}",
                format!("{}, {} B", column.size.name(), column.bytes)
            );
        }
        println!();
        for (competitor, ..) in &self.competitors {
            print!("  {competitor:<20}");
            for column in &columns {
                let cell = column
                    .of(competitor)
                    .map_or("–".to_owned(), |(_, time, ratio)| {
                        format!("{time:.0} ({ratio:.2})")
                    });
                print!("{cell:>21}");
            }
            println!();
        }
        println!();
    }

    pub fn print_rest(&self) {
        println!("core, compact: an unchanged document, ns (multiple of parsing)");
        print!("  {:<26}", "");
        for column in &self.followings {
            print!("{:>20}", column.size.name());
        }
        println!();
        let names = self.followings.first().map(|first| {
            first
                .results
                .iter()
                .map(|result| result.0)
                .collect::<Vec<_>>()
        });
        for (line, name) in names.unwrap_or_default().into_iter().enumerate() {
            print!("  {name:<26}");
            for column in &self.followings {
                let (_, time, ratio) = column.results[line];
                print!("{:>20}", format!("{time:.0} ({ratio:.2})"));
            }
            println!();
        }
        println!("\nparsers");
        for (name, version, note, faults) in &self.competitors {
            println!("  {name:<20} {version:<10} {note}");
            if !faults.is_empty() {
                println!("  {:<20} {:<10} accepts: {}", "", "", faults.join(", "));
            }
        }
        for absent in &self.absent {
            println!("  NOT MEASURED: {absent}");
        }
        println!("\ngoals");
        for goal in self.goals() {
            let verdict = if goal.reached {
                "reached"
            } else {
                "NOT REACHED"
            };
            println!(
                "  {:<58} {:>10} {:>10}  {verdict}",
                goal.what, goal.wanted, goal.measured
            );
        }
    }

    pub fn json(&self) -> String {
        let readings = self.readings.iter().map(|measured| {
            let (size, form) = (measured.size.name(), measured.form.name());
            json!({"document": size, "form": form, "bytes": measured.bytes, "readers": figures(&measured.results)})
        });
        let followings = self.followings.iter().map(|followed| {
            let steps = figures(&followed.results);
            json!({"document": followed.size.name(), "bytes": followed.bytes, "steps": steps})
        });
        let competitors = self.competitors.iter().map(|(name, version, note, faults)| {
            json!({"name": name, "version": version, "note": note, "accepted_faults": faults})
        });
        let report = json!({
            "run": run(), "rounds": ROUNDS, "readers": competitors.collect::<Value>(), "absent": self.absent,
            "readings": readings.collect::<Value>(), "followings": followings.collect::<Value>(),
        });
        format!("{report:#}\n")
    }

    fn goals(&self) -> Vec<Goal> {
        let mut goals = Vec::new();
        for (form, sizes, competitor, factor) in [
            (
                Form::Compact,
                [Size::S, Size::L, Size::X, Size::Xl].as_slice(),
                "yyjson",
                1.3,
            ),
            (
                Form::Compact,
                &[Size::S, Size::L, Size::X, Size::Xl],
                "serde_json borrowed",
                3.0,
            ),
            (
                Form::Compact,
                &[Size::S, Size::L, Size::X, Size::Xl],
                "jiter",
                1.9,
            ),
            (
                Form::Compact,
                &[Size::S, Size::M, Size::L, Size::X, Size::Xl],
                "simdjson",
                1.0,
            ),
            (
                Form::Pretty,
                &[Size::S, Size::M, Size::L, Size::X, Size::Xl],
                "yyjson",
                1.1,
            ),
            (
                Form::Escapes,
                &[Size::S, Size::M, Size::L, Size::X, Size::Xl],
                "yyjson",
                0.8,
            ),
            (
                Form::Escapes,
                &[Size::S, Size::M, Size::L, Size::X, Size::Xl],
                "jiter",
                1.2,
            ),
        ] {
            for &size in sizes {
                let Some(ratio) = self.ratio(form, size, competitor) else {
                    continue;
                };
                goals.push(Goal {
                    what: format!(
                        "{} {}: {competitor}'s time as a multiple of core's",
                        size.name(),
                        form.name()
                    ),
                    wanted: format!("≥ {factor} ×"),
                    measured: format!("{ratio:.2} ×"),
                    reached: ratio >= factor,
                });
            }
        }
        goals.extend(self.per_byte());
        for (size, wanted, limit) in [(Size::Xl, "≤ 2 ×", 2.0), (Size::S, "< 300 ns", 300.0)] {
            let Some(followed) = self
                .followings
                .iter()
                .find(|followed| followed.size == size)
            else {
                continue;
            };
            let Some((_, time, ratio)) = followed
                .results
                .iter()
                .find(|result| result.0 == "observe + decide")
            else {
                continue;
            };
            let (value, measured) = if size == Size::S {
                (*time, format!("{time:.0} ns"))
            } else {
                (*ratio, format!("{ratio:.2} ×"))
            };
            goals.push(Goal {
                what: format!(
                    "{} unchanged: observe + decide, as a multiple of parsing",
                    size.name()
                ),
                wanted: wanted.to_owned(),
                measured,
                reached: value < limit,
            });
        }
        goals
    }

    /// The time per byte does not grow with the document.
    fn per_byte(&self) -> Option<Goal> {
        let per_byte = |size| {
            let measured = self.find(Form::Compact, size)?;
            Some(measured.of("core")?.1 / measured.bytes as f64)
        };
        let ratio = per_byte(Size::Xl)? / per_byte(Size::S)?;
        Some(Goal {
            what: "compact: core's ns per byte of XL, as a multiple of S's".to_owned(),
            wanted: "≤ 1.3 ×".to_owned(),
            measured: format!("{ratio:.2} ×"),
            reached: ratio <= 1.3,
        })
    }

    fn find(&self, form: Form, size: Size) -> Option<&Measured> {
        self.readings
            .iter()
            .find(|measured| measured.form == form && measured.size == size)
    }

    fn ratio(&self, form: Form, size: Size, competitor: &str) -> Option<f64> {
        Some(self.find(form, size)?.of(competitor)?.2)
    }
}

/// Where and when this ran, and the compilers that built it.
pub fn run() -> Value {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    let commands: Vec<_> = std::env::args().skip(1).collect();
    json!({
        "date": UnixSeconds(now.cast_signed()).to_string(),
        "processor": processor(),
        "processors": std::thread::available_parallelism().map_or(0, usize::from),
        "system": output_of("uname", &["-sm"]),
        "load": std::fs::read_to_string("/proc/loadavg").ok().and_then(|load| load.split(' ').next().map(str::to_owned)),
        "rustc": env!("BENCH_RUSTC"),
        "cc": env!("BENCH_CC"),
        "arguments": commands.join(" "),
    })
}

fn processor() -> String {
    let known = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = known.lines().find_map(|line| {
        line.strip_prefix("model name")?
            .split_once(": ")
            .map(|(_, name)| name.to_owned())
    });
    model.unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

fn output_of(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    output.map_or_else(
        |_| "unknown".to_owned(),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    )
}

fn figures(results: &[(&str, f64, f64)]) -> Value {
    let figure = |time: f64, ratio: f64| json!({"ns": round(time), "ratio": round(ratio)});
    results
        .iter()
        .map(|(name, time, ratio)| ((*name).to_owned(), figure(*time, *ratio)))
        .collect()
}

fn round(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}
