//! The figures: tables for people, JSON for the page on performance, and the goals beside what was measured.

use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use scheduled_events_core::UnixSeconds;
use serde_json::{Value, json};

use crate::documents::{Form, Size};
use crate::measure::ROUNDS;
use crate::rivals::Rival;
use crate::strictness::lets_through;

/// Readers of one document: name, nanoseconds, and how many times longer than core.
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

/// What core does beyond reading: name, nanoseconds, and how many times longer than parsing.
pub struct Followed {
    pub size: Size,
    pub bytes: usize,
    pub results: Vec<(&'static str, f64, f64)>,
}

/// A figure that was aimed at.
struct Goal {
    what: String,
    wanted: String,
    measured: String,
    reached: bool,
}

pub struct Report {
    rivals: Vec<(&'static str, &'static str, &'static str, Vec<&'static str>)>,
    absent: Vec<&'static str>,
    readings: Vec<Measured>,
    followings: Vec<Followed>,
}

impl Report {
    pub fn new(rivals: &[Rival], absent: Vec<&'static str>) -> Self {
        let about = |rival: &Rival| (rival.name, rival.version, rival.note, lets_through(rival));
        Self { rivals: rivals.iter().map(about).collect(), absent, readings: Vec::new(), followings: Vec::new() }
    }

    pub fn reading(&mut self, measured: Measured) {
        self.readings.push(measured);
    }

    pub fn following(&mut self, followed: Followed) {
        self.followings.push(followed);
    }

    /// One form's table: a line for each reader, a column for each document.
    pub fn print_form(&self, form: Form) {
        let columns: Vec<_> = self.readings.iter().filter(|measured| measured.form == form).collect();
        println!("{}: every field read, ns (times core's)", form.name());
        print!("  {:<20}", "");
        for column in &columns {
            print!("{:>21}", format!("{}, {} B", column.size.name(), column.bytes));
        }
        println!();
        for (rival, ..) in &self.rivals {
            print!("  {rival:<20}");
            for column in &columns {
                let cell =
                    column.of(rival).map_or("–".to_owned(), |(_, time, ratio)| format!("{time:.0} ({ratio:.2})"));
                print!("{cell:>21}");
            }
            println!();
        }
        println!();
    }

    pub fn print_rest(&self) {
        println!("core, compact: nothing changed since the last time, ns (times parsing)");
        print!("  {:<26}", "");
        for column in &self.followings {
            print!("{:>20}", column.size.name());
        }
        println!();
        let names =
            self.followings.first().map(|first| first.results.iter().map(|result| result.0).collect::<Vec<_>>());
        for (line, name) in names.unwrap_or_default().into_iter().enumerate() {
            print!("  {name:<26}");
            for column in &self.followings {
                let (_, time, ratio) = column.results[line];
                print!("{:>20}", format!("{time:.0} ({ratio:.2})"));
            }
            println!();
        }
        println!("\nwho is who");
        for (name, version, note, faults) in &self.rivals {
            println!("  {name:<20} {version:<10} {note}");
            if !faults.is_empty() {
                println!("  {:<20} {:<10} lets through: {}", "", "", faults.join(", "));
            }
        }
        for absent in &self.absent {
            println!("  NOT MEASURED: {absent}");
        }
        println!("\ngoals");
        for goal in self.goals() {
            let verdict = if goal.reached { "reached" } else { "NOT REACHED" };
            println!("  {:<58} {:>10} {:>10}  {verdict}", goal.what, goal.wanted, goal.measured);
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
        let rivals = self.rivals.iter().map(|(name, version, note, faults)| {
            json!({"name": name, "version": version, "note": note, "lets_through": faults})
        });
        let goals = self.goals().into_iter().map(|goal| {
            json!({"what": goal.what, "wanted": goal.wanted, "measured": goal.measured, "reached": goal.reached})
        });
        let report = json!({
            "run": run(), "rounds": ROUNDS, "readers": rivals.collect::<Value>(), "absent": self.absent,
            "readings": readings.collect::<Value>(), "followings": followings.collect::<Value>(), "goals": goals.collect::<Value>(),
        });
        format!("{report:#}\n")
    }

    fn goals(&self) -> Vec<Goal> {
        let mut goals = Vec::new();
        for (form, sizes, rival, factor) in [
            (Form::Compact, [Size::S, Size::L, Size::X, Size::Xl].as_slice(), "yyjson", 1.3),
            (Form::Compact, &[Size::S, Size::L, Size::X, Size::Xl], "serde_json borrowed", 3.0),
            (Form::Compact, &[Size::S, Size::L, Size::X, Size::Xl], "jiter", 1.9),
            (Form::Pretty, &[Size::S, Size::M, Size::L, Size::X, Size::Xl], "yyjson", 1.1),
        ] {
            for &size in sizes {
                let Some(ratio) = self.ratio(form, size, rival) else { continue };
                goals.push(Goal {
                    what: format!("{} {}: {rival} takes longer than core", size.name(), form.name()),
                    wanted: format!("≥ {factor} ×"),
                    measured: format!("{ratio:.2} ×"),
                    reached: ratio >= factor,
                });
            }
        }
        let sizes = [Size::S, Size::L, Size::X, Size::Xl];
        let ratios: Vec<_> = sizes.iter().filter_map(|&size| self.ratio(Form::Compact, size, "simdjson")).collect();
        if ratios.len() == sizes.len() {
            let faster = ratios.iter().filter(|&&ratio| ratio >= 1.0).count();
            goals.push(Goal {
                what: "compact: core not slower than simdjson, of S, L, X, XL".to_owned(),
                wanted: "≥ 2 of 4".to_owned(),
                measured: format!("{faster} of 4"),
                reached: faster >= 2,
            });
        }
        goals.extend(self.per_byte());
        for (size, wanted, limit) in [(Size::Xl, "≤ 2 ×", 2.0), (Size::S, "< 300 ns", 300.0)] {
            let Some(followed) = self.followings.iter().find(|followed| followed.size == size) else { continue };
            let Some((_, time, ratio)) = followed.results.iter().find(|result| result.0 == "observe + decide") else {
                continue;
            };
            let (value, measured) =
                if size == Size::S { (*time, format!("{time:.0} ns")) } else { (*ratio, format!("{ratio:.2} ×")) };
            goals.push(Goal {
                what: format!("{} unchanged: observe + decide, beside parsing", size.name()),
                wanted: wanted.to_owned(),
                measured,
                reached: value < limit,
            });
        }
        goals
    }

    /// Cost grows with the bytes, not faster.
    fn per_byte(&self) -> Option<Goal> {
        let per_byte = |size| {
            let measured = self.find(Form::Compact, size)?;
            Some(measured.of("core")?.1 / measured.bytes as f64)
        };
        let ratio = per_byte(Size::Xl)? / per_byte(Size::S)?;
        Some(Goal {
            what: "compact: core's ns per byte of XL, beside those of S".to_owned(),
            wanted: "≤ 1.3 ×".to_owned(),
            measured: format!("{ratio:.2} ×"),
            reached: ratio <= 1.3,
        })
    }

    fn find(&self, form: Form, size: Size) -> Option<&Measured> {
        self.readings.iter().find(|measured| measured.form == form && measured.size == size)
    }

    fn ratio(&self, form: Form, size: Size, rival: &str) -> Option<f64> {
        Some(self.find(form, size)?.of(rival)?.2)
    }
}

/// Where and when this ran, and with what it was built.
pub fn run() -> Value {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let commands: Vec<_> = std::env::args().skip(1).collect();
    json!({
        "date": UnixSeconds(now.cast_signed()).to_string(),
        "processor": processor(),
        "processors": std::thread::available_parallelism().map_or(0, usize::from),
        "system": said("uname", &["-sm"]),
        "load": std::fs::read_to_string("/proc/loadavg").ok().and_then(|load| load.split(' ').next().map(str::to_owned)),
        "rustc": env!("BENCH_RUSTC"),
        "cc": env!("BENCH_CC"),
        "arguments": commands.join(" "),
    })
}

fn processor() -> String {
    let known = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = known
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": ").map(|(_, name)| name.to_owned()));
    model.unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

fn said(program: &str, arguments: &[&str]) -> String {
    let said = Command::new(program).args(arguments).output();
    said.map_or_else(|_| "unknown".to_owned(), |said| String::from_utf8_lossy(&said.stdout).trim().to_owned())
}

fn figures(results: &[(&str, f64, f64)]) -> Value {
    let figure = |time: f64, ratio: f64| json!({"ns": round(time), "ratio": round(ratio)});
    results.iter().map(|(name, time, ratio)| ((*name).to_owned(), figure(*time, *ratio))).collect()
}

fn round(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}
