//! Counts the instructions of core's main calls with callgrind, which gives the same number in every run, and compares them
//! with those in `instructions.toml`. `make bench-check` fails if a call takes 3 % more. After an intended change,
//! `make bench-check ARGS=--accept` writes the file.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, ExitCode};

use clap::Parser;
use scheduled_events_bench::documents::{Form, Sample, Size};
use scheduled_events_bench::{competitors, follow};
use serde::Deserialize;

/// The increase that fails the check, in percent.
const TOLERANCE: u64 = 3;
const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/instructions.toml");
/// The calls of the longer of two runs. The shorter makes one call, and the difference excludes the program's start.
const CALLS: u64 = 101;

const READ: [(&str, Size, Form); 8] = [
    ("read S", Size::S, Form::Compact),
    ("read S, pretty", Size::S, Form::Pretty),
    ("read S, with escapes", Size::S, Form::Escapes),
    ("read L, with escapes", Size::L, Form::Escapes),
    ("read X, with escapes", Size::X, Form::Escapes),
    ("read S, shuffled", Size::S, Form::Shuffled),
    ("read L", Size::L, Form::Compact),
    ("read L, pretty", Size::L, Form::Pretty),
];
const FOLLOW: [(&str, Size); 2] = [
    ("observe and decide S, unchanged", Size::S),
    ("observe and decide L, unchanged", Size::L),
];

#[derive(Parser)]
#[command(
    about = "Count the instructions of core's main calls, and compare them with instructions.toml"
)]
struct Options {
    /// Write instructions.toml
    #[arg(long)]
    accept: bool,
    /// Make the calls of one case, under callgrind
    #[arg(long, hide = true)]
    case: Option<String>,
    #[arg(long, hide = true, default_value_t = 1)]
    calls: u64,
}

/// The file: the counts and the compiler.
#[derive(Deserialize)]
struct Recorded {
    rustc: String,
    instructions: BTreeMap<String, u64>,
}

fn main() -> ExitCode {
    let options = Options::parse();
    if let Some(case) = &options.case {
        call(case, options.calls);
        return ExitCode::SUCCESS;
    }
    match check(options.accept) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(reason) => {
            eprintln!("error: {reason}");
            ExitCode::FAILURE
        }
    }
}

/// Makes the calls of one case.
fn call(case: &str, calls: u64) {
    if let Some((_, size, form)) = READ.iter().find(|read| read.0 == case) {
        let sample = Sample::new(*size, *form);
        for _ in 0..calls {
            let sum = competitors::core::read(std::hint::black_box(&sample.body));
            assert_eq!(sum, Some(sample.checksum), "every field is read");
        }
    }
    if let Some((_, size)) = FOLLOW.iter().find(|follow| follow.0 == case) {
        let sample = Sample::new(*size, Form::Compact);
        let timed = follow::calls(&sample.body);
        let (_, mut follow) = timed
            .into_iter()
            .find(|call| call.0 == "observe + decide")
            .expect("it is one of them");
        for _ in 0..calls {
            std::hint::black_box(follow());
        }
    }
}

/// Counts all cases and returns whether none takes too many more instructions than recorded.
fn check(accept: bool) -> Result<bool, String> {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        return Err("the recorded numbers are for x86-64 Linux; this is another system".to_owned());
    }
    let mut counted = BTreeMap::new();
    for case in READ
        .iter()
        .map(|read| read.0)
        .chain(FOLLOW.iter().map(|follow| follow.0))
    {
        counted.insert(
            case.to_owned(),
            (count(case, CALLS)? - count(case, 1)?) / (CALLS - 1),
        );
    }
    if accept {
        std::fs::write(FILE, written(&counted)).map_err(|error| format!("{FILE}: {error}"))?;
        println!("wrote tests/bench/instructions.toml");
        return Ok(true);
    }
    let text = std::fs::read_to_string(FILE).map_err(|error| format!("{FILE}: {error}"))?;
    let recorded: Recorded = toml::from_str(&text).map_err(|error| format!("{FILE}: {error}"))?;
    if recorded.rustc != env!("BENCH_RUSTC") {
        println!(
            "note: recorded with {}, counted with {}",
            recorded.rustc,
            env!("BENCH_RUSTC")
        );
    }
    let verdicts = compare(&recorded.instructions, &counted);
    println!(
        "{:<34} {:>10} {:>10} {:>8}",
        "instructions of a call", "recorded", "now", "change"
    );
    for verdict in &verdicts {
        println!("{}", verdict.line);
    }
    let fine = verdicts.iter().all(|verdict| verdict.fine);
    if !fine {
        println!(
            "If the change is intended: make bench-check ARGS=--accept, then commit tests/bench/instructions.toml."
        );
    }
    Ok(fine)
}

struct Verdict {
    line: String,
    fine: bool,
}

/// Compares case by case. A case that is missing on one side is an error, too.
fn compare(recorded: &BTreeMap<String, u64>, counted: &BTreeMap<String, u64>) -> Vec<Verdict> {
    let cases: std::collections::BTreeSet<_> = recorded.keys().chain(counted.keys()).collect();
    let verdict = |case: &String| {
        let (Some(&before), Some(&now)) = (recorded.get(case), counted.get(case)) else {
            let side = if recorded.contains_key(case) {
                "recorded, but not a case"
            } else {
                "not recorded"
            };
            return Verdict {
                line: format!("{case:<34} {side}"),
                fine: false,
            };
        };
        let too_many = now * 100 > before * (100 + TOLERANCE);
        let remark = match now * 100 < before * (100 - TOLERANCE) {
            _ if too_many => "  TOO MANY",
            true => "  FEWER: accept it",
            false => "",
        };
        let change = (now as f64 / before as f64 - 1.0) * 100.0;
        Verdict {
            line: format!("{case:<34} {before:>10} {now:>10} {change:>+7.1}%{remark}"),
            fine: !too_many,
        }
    };
    cases.into_iter().map(verdict).collect()
}

fn written(counted: &BTreeMap<String, u64>) -> String {
    let mut text = format!(
        "# Instructions of one call, counted by callgrind on x86-64 Linux. `make bench-check` compares them,\n\
         # `make bench-check ARGS=--accept` writes them.\n\nrustc = \"{}\"\n\n[instructions]\n",
        env!("BENCH_RUSTC")
    );
    for (case, instructions) in counted {
        let _ = writeln!(text, "\"{case}\" = {instructions}");
    }
    text
}

/// Counts the instructions of this program making so many calls.
fn count(case: &str, calls: u64) -> Result<u64, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let done = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(Path::new(&program))
        .args(["--case", case, "--calls", &calls.to_string()])
        .env_clear() // The environment is on the stack and shifts addresses.
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .output()
        .map_err(|error| format!("valgrind: {error}; tests/setup bench installs it"))?;
    let output = String::from_utf8_lossy(&done.stderr);
    let collected = output
        .lines()
        .find_map(|line| line.split_once("Collected : "))
        .map(|(_, number)| number.trim());
    match collected.and_then(|number| number.parse().ok()) {
        Some(number) if done.status.success() => Ok(number),
        _ => Err(format!(
            "`{case}` could not be counted; valgrind printed:\n{output}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fine(recorded: &[(&str, u64)], counted: &[(&str, u64)]) -> bool {
        let map = |cases: &[(&str, u64)]| {
            cases
                .iter()
                .map(|(case, count)| ((*case).to_owned(), *count))
                .collect()
        };
        compare(&map(recorded), &map(counted))
            .iter()
            .all(|verdict| verdict.fine)
    }

    #[test]
    fn three_percent_more_is_too_many() {
        assert!(fine(&[("read", 1000)], &[("read", 1030)]));
        assert!(!fine(&[("read", 1000)], &[("read", 1031)]));
        assert!(fine(&[("read", 1000)], &[("read", 500)]));
    }

    #[test]
    fn a_case_on_one_side_only_is_wrong() {
        assert!(!fine(&[("read", 1), ("gone", 1)], &[("read", 1)]));
        assert!(!fine(&[("read", 1)], &[("read", 1), ("new", 1)]));
    }

    #[test]
    fn what_is_written_is_read() {
        let counted = BTreeMap::from([("read S, pretty".to_owned(), 7)]);
        let recorded: Recorded = toml::from_str(&written(&counted)).unwrap();
        assert_eq!(recorded.instructions, counted);
    }
}
