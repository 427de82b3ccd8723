//! `doctor`: checks what a watcher with these options will need, where it will run.
//!
//! A module checks a group of things and returns findings; this file puts them together. Nothing is
//! approved, written or run: hooks run in a rehearsal only, which is `rehearse`.
//!
//! - `check`: what is checked. What was found has the form of all programs: `scheduled_events_text::finding`.
//! - `arguments`: options that do not fit each other. `watch` warns of them when it starts.
//! - `name`: the name of this machine, of which `watch` warns, too.
//! - `service`, `policy`, `hooks` (with `polkit` and `fleet`), `files`, `others`: the checks.
//! - `unit`: runs the checks as a unit of systemd would. `report`: writes them to a file.

mod arguments;
mod check;
mod files;
mod fleet;
mod hooks;
mod name;
mod others;
mod policy;
mod polkit;
mod report;
mod service;
#[cfg(unix)]
mod unit;
mod unit_text;

use crate::args::DoctorArgs;
use crate::config::load_policy;
use crate::error::CommandError;
use crate::output::{print, print_record, terminal};

pub(crate) use arguments::{check_arguments, commands};
pub(crate) use check::{Check, Finding};
pub(crate) use hooks::no_recover;
pub(crate) use name::NameCheck;
pub(crate) use polkit::managed_units;
pub(crate) use report::ReportRequest;
use scheduled_events_text::finding::{by_check, has_failure, text};

pub(crate) fn doctor(args: &DoctorArgs) -> Result<(), CommandError> {
    let report = ReportRequest::of(args);
    let json = args.watch.output.json;
    match &args.unit {
        #[cfg(unix)]
        Some(name) => {
            let unit = unit::read(name)?;
            let (findings, inside) = unit::check(name, &unit)?;
            let with_unit = |report: ReportRequest| report.with_unit(unit::text(name), inside);
            finish(findings, json, report.map(with_unit).as_ref())
        }
        #[cfg(not(unix))]
        Some(_) => Err(CommandError::usage(
            "--unit needs systemd; give the options of `watch`",
        )),
        None => {
            let finished = finish(check(args), json, report.as_ref());
            #[cfg(unix)]
            if args.unit_process.is_some() {
                print_record(&unit::Inside::of(&args.watch))?;
            }
            finished
        }
    }
}

/// Prints the findings, one for each check, and writes the report.
///
/// # Errors
/// There is a failure, or the output or the report cannot be written.
pub(crate) fn finish(
    findings: Vec<Finding>,
    json: bool,
    report: Option<&ReportRequest>,
) -> Result<(), CommandError> {
    let findings = by_check(without_none(findings));
    if json {
        findings.iter().try_for_each(print_record)?;
    } else {
        print(text(&findings, terminal::output_width()).as_bytes())?;
    }
    if let Some(report) = report {
        report.write(&findings)?;
    }
    if has_failure(&findings) {
        Err(CommandError::printed())
    } else {
        Ok(())
    }
}

/// The findings without `none` for a check that found something else.
fn without_none(mut findings: Vec<Finding>) -> Vec<Finding> {
    let found = findings.iter().filter(|finding| !is_none(finding));
    let found: Vec<_> = found.map(|finding| finding.check).collect();
    findings.retain(|finding| !is_none(finding) || !found.contains(&finding.check));
    findings
}

/// Whether there is nothing to check.
fn is_none(finding: &Finding) -> bool {
    finding.found == "none"
}

/// Rehearses as the unit would: see `rehearse`. `confirm` asks whether the commands of this unit may run.
///
/// # Errors
/// The unit cannot be read, the answer is no, or the rehearsal fails.
#[cfg(unix)]
pub(crate) fn rehearse_as_unit(
    unit: &str,
    scenario: &str,
    args: &DoctorArgs,
    confirm: fn(&str) -> Result<(), CommandError>,
) -> Result<(), CommandError> {
    let read = unit::read(unit)?;
    if args.report.is_some() {
        return Err(CommandError::usage(
            "a rehearsal of a unit writes no report; leave --report or --rehearse out",
        ));
    }
    if !args.yes {
        confirm(unit)?;
    }
    let mut own = vec![
        "doctor".to_owned(),
        format!("--rehearse={scenario}"),
        "--yes".to_owned(),
        "--unit-process=0".to_owned(),
    ];
    if args.watch.output.json {
        own.push("--json".to_owned());
    }
    unit::rehearse(unit, &read, &own)
}

/// All checks.
fn check(args: &DoctorArgs) -> Vec<Finding> {
    let watch = &args.watch;
    let mut findings = service::check_service(&watch.service, &watch.machine);
    if let Some(mistake) = &watch.config.mistake {
        let advice = "correct the file: `watch` does not start with it";
        findings.push(Finding::fail(Check::Policy, mistake, advice));
    } else {
        match load_policy(&watch.policy.policy, &watch.config) {
            Ok(policy) => {
                findings.push(policy::check_policy(watch, &policy));
                findings.extend(check_arguments(watch, &policy));
            }
            Err(error) => {
                let advice = "correct the policy: `watch` does not start with it";
                findings.push(Finding::fail(Check::Policy, error.message, advice));
                // What the options alone show does not depend on it.
                let none = scheduled_events_core::Policy::observe();
                let of_policy = [Check::Policy, Check::Prepare];
                findings.extend(
                    check_arguments(watch, &none)
                        .into_iter()
                        .filter(|finding| !of_policy.contains(&finding.check)),
                );
            }
        }
    }
    let mut of_options = hooks::check_hooks(watch, args.unit_process.is_some());
    of_options.extend(files::check_files(watch, args.unit_process));
    if watch.config.mistake.is_some() {
        let unknown = |finding: &mut Finding| {
            *finding = Finding::warn(
                finding.check,
                "unknown: the file cannot be read",
                "see policy",
            );
        };
        of_options
            .iter_mut()
            .filter(|finding| is_none(finding))
            .for_each(unknown);
    }
    findings.extend(of_options);
    findings.push(service::check_proxies());
    findings.push(others::check_others());
    findings
}
