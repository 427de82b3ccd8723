//! Compares how fast core and other parsers read documents, in one process and turn by turn. Ratios count; nanoseconds
//! differ from machine to machine.
//!
//! `make bench`, or for a part of it: `cargo run --release -- --documents S,L --competitors core,yyjson --seconds 1`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

use scheduled_events_bench::competitors::{self, Competitor};
use scheduled_events_bench::documents::{Form, Sample, Size};
use scheduled_events_bench::measure::{Timed, take_turns};
use scheduled_events_bench::report::{Followed, Measured, Report};

#[derive(Parser)]
#[command(about = "Compare how fast core and other parsers read documents")]
struct Options {
    /// Which documents: S, M, L, X, XL
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "S,M,L,X,XL",
        ignore_case = true
    )]
    documents: Vec<Size>,
    /// Which forms of them: compact, pretty, escapes, shuffled
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "compact,pretty,escapes,shuffled"
    )]
    forms: Vec<Form>,
    /// Only these parsers, named as in the table; `core` must be one of them
    #[arg(long, value_delimiter = ',')]
    competitors: Vec<String>,
    /// Seconds for each document in each form
    #[arg(long, default_value_t = 6.0)]
    seconds: f64,
    /// Also write the figures to this file
    #[arg(long)]
    json: Option<PathBuf>,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("error: {reason}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<(), String> {
    let (mut competitors, absent) = competitors::all();
    for name in &options.competitors {
        if !competitors.iter().any(|competitor| competitor.name == name) {
            let names: Vec<_> = competitors
                .iter()
                .map(|competitor| competitor.name)
                .collect();
            return Err(format!(
                "unknown competitor `{name}`; expected one of: {}",
                names.join(", ")
            ));
        }
    }
    competitors.retain(|competitor| {
        options.competitors.is_empty()
            || options
                .competitors
                .iter()
                .any(|name| name == competitor.name)
    });
    if !competitors
        .iter()
        .any(|competitor| competitor.name == "core")
    {
        return Err(
            "expected `core` among the competitors: the others are compared with it".to_owned(),
        );
    }
    if !(options.seconds > 0.0 && options.seconds < 3600.0) {
        return Err("--seconds: expected a number above 0 and below 3600".to_owned());
    }
    let budget = Duration::from_secs_f64(options.seconds);
    let mut report = Report::new(&competitors, absent);
    for &form in &options.forms {
        for &size in &options.documents {
            report.reading(read(&Sample::new(size, form), &competitors, budget)?);
        }
        report.print_form(form);
    }
    for &size in &options.documents {
        report.following(follow(&Sample::new(size, Form::Compact), budget / 4));
    }
    report.print_rest();
    if let Some(path) = &options.json {
        std::fs::write(path, report.json())
            .map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}

/// Times all readers of one document, after checking that each reads all fields of it.
fn read(sample: &Sample, competitors: &[Competitor], budget: Duration) -> Result<Measured, String> {
    let mut readers = Vec::new();
    for (index, competitor) in competitors.iter().enumerate() {
        let Some(mut read) = (competitor.prepare)(&sample.body, sample.size, sample.form) else {
            continue;
        };
        let found = read();
        if found != Some(sample.checksum) {
            let (size, form) = (sample.size.name(), sample.form.name());
            return Err(match found {
                Some(_) => {
                    format!(
                        "{} does not read the fields of {size} {form} as they were written",
                        competitor.name
                    )
                }
                None => format!("{} rejects {size} {form}", competitor.name),
            });
        }
        readers.push((index, Box::new(move || read().unwrap_or(0)) as Timed<'_>));
    }
    let (indices, mut calls): (Vec<_>, Vec<_>) = readers.into_iter().unzip();
    let times = take_turns(&mut calls, budget);
    let core = indices
        .iter()
        .position(|&index| competitors[index].name == "core")
        .expect("core is among them");
    let results = indices.iter().enumerate().map(|(place, &index)| {
        (
            competitors[index].name,
            times.median(place),
            times.ratio(place, core),
        )
    });
    Ok(Measured {
        size: sample.size,
        form: sample.form,
        bytes: sample.body.len(),
        results: results.collect(),
    })
}

/// Times what core does with a document after reading it.
fn follow(sample: &Sample, budget: Duration) -> Followed {
    let (names, mut calls): (Vec<_>, Vec<_>) = scheduled_events_bench::follow::calls(&sample.body)
        .into_iter()
        .unzip();
    let times = take_turns(&mut calls, budget);
    let results = names
        .iter()
        .enumerate()
        .map(|(place, &name)| (name, times.median(place), times.ratio(place, 0)));
    Followed {
        size: sample.size,
        bytes: sample.body.len(),
        results: results.collect(),
    }
}
