//! How fast core reads documents, beside other people's parsers: in one process, turn by turn. Ratios are what counts;
//! nanoseconds move from machine to machine.
//!
//! `make bench`, or for a part: `cargo run --release -- --documents S,L --rivals core,yyjson --seconds 1`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

use scheduled_events_bench::documents::{Form, Sample, Size};
use scheduled_events_bench::measure::{Contender, take_turns};
use scheduled_events_bench::report::{Followed, Measured, Report};
use scheduled_events_bench::rivals::{self, Rival};

#[derive(Parser)]
#[command(about = "Read documents with core and its rivals, turn by turn, and compare")]
struct Options {
    /// Which documents: S, M, L, X, XL
    #[arg(long, value_delimiter = ',', default_value = "S,M,L,X,XL", ignore_case = true)]
    documents: Vec<Size>,
    /// Which forms of them: compact, pretty, escapes, shuffled
    #[arg(long, value_delimiter = ',', default_value = "compact,pretty,escapes,shuffled")]
    forms: Vec<Form>,
    /// Only these readers, `core` among them: names as in the table
    #[arg(long, value_delimiter = ',')]
    rivals: Vec<String>,
    /// Seconds for each document in each form
    #[arg(long, default_value_t = 6.0)]
    seconds: f64,
    /// Write the figures to this file too
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
    let (mut rivals, absent) = rivals::all();
    for name in &options.rivals {
        if !rivals.iter().any(|rival| rival.name == name) {
            let names: Vec<_> = rivals.iter().map(|rival| rival.name).collect();
            return Err(format!("there is no rival `{name}`; there are: {}", names.join(", ")));
        }
    }
    rivals.retain(|rival| options.rivals.is_empty() || options.rivals.iter().any(|name| name == rival.name));
    if !rivals.iter().any(|rival| rival.name == "core") {
        return Err("core is what the others are compared with: name it among the rivals".to_owned());
    }
    if !(options.seconds > 0.0 && options.seconds < 3600.0) {
        return Err("--seconds is a time above 0 and under an hour".to_owned());
    }
    let budget = Duration::from_secs_f64(options.seconds);
    let mut report = Report::new(&rivals, absent);
    for &form in &options.forms {
        for &size in &options.documents {
            report.reading(read(&Sample::new(size, form), &rivals, budget)?);
        }
        report.print_form(form);
    }
    for &size in &options.documents {
        report.following(follow(&Sample::new(size, Form::Compact), budget / 4));
    }
    report.print_rest();
    if let Some(path) = &options.json {
        std::fs::write(path, report.json()).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}

/// Times all readers of one document, once each has shown that it reads all of it.
fn read(sample: &Sample, rivals: &[Rival], budget: Duration) -> Result<Measured, String> {
    let mut readers = Vec::new();
    for (index, rival) in rivals.iter().enumerate() {
        let Some(mut read) = (rival.prepare)(&sample.body, sample.size, sample.form) else { continue };
        let found = read();
        if found != Some(sample.checksum) {
            let (size, form) = (sample.size.name(), sample.form.name());
            return Err(match found {
                Some(_) => format!("{} reads other fields than were written to {size} {form}", rival.name),
                None => format!("{} says that {size} {form} is no document", rival.name),
            });
        }
        readers.push((index, Box::new(move || read().unwrap_or(0)) as Contender<'_>));
    }
    let (indices, mut contenders): (Vec<_>, Vec<_>) = readers.into_iter().unzip();
    let times = take_turns(&mut contenders, budget);
    let core = indices.iter().position(|&index| rivals[index].name == "core").expect("core was asked for");
    let results = indices
        .iter()
        .enumerate()
        .map(|(place, &index)| (rivals[index].name, times.median(place), times.ratio(place, core)));
    Ok(Measured { size: sample.size, form: sample.form, bytes: sample.body.len(), results: results.collect() })
}

/// Times what core does with a document beyond reading it.
fn follow(sample: &Sample, budget: Duration) -> Followed {
    let (names, mut contenders): (Vec<_>, Vec<_>) =
        scheduled_events_bench::follow::contenders(&sample.body).into_iter().unzip();
    let times = take_turns(&mut contenders, budget);
    let results = names.iter().enumerate().map(|(place, &name)| (name, times.median(place), times.ratio(place, 0)));
    Followed { size: sample.size, bytes: sample.body.len(), results: results.collect() }
}
