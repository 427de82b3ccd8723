//! `doctor`: checks what a watcher with these options will need, where it will run.
//!
//! A module checks a group of things and returns findings; this file puts them together. Nothing is
//! approved, written or run: hooks run in a rehearsal only, which is `rehearse`.
//!
//! - `finding`: what a check found, and how it is printed.
//! - `arguments`: options that do not fit each other. `watch` warns of them when it starts.
//! - `name`: the name of this machine, of which `watch` warns, too.
//! - `service`, `policy`, `hooks` (with `polkit`), `files`, `others`: the checks.
//! - `unit`: runs the checks as a unit of systemd would. `report`: writes them to a file.

mod arguments;
mod files;
mod finding;
mod hooks;
mod name;
mod others;
mod policy;
mod polkit;
mod service;
#[cfg(unix)]
mod unit;

use scheduled_events::policy_file;

use crate::args::DoctorArgs;
use crate::error::CommandError;

pub(crate) use arguments::check_arguments;
use finding::{Check, Finding, by_check, has_failure, print_findings};
pub(crate) use name::NameCheck;

pub(crate) fn doctor(args: &DoctorArgs) -> Result<(), CommandError> {
    let findings = match &args.unit {
        #[cfg(unix)]
        Some(name) => unit::check(name, &unit::read(name)?)?,
        #[cfg(not(unix))]
        Some(_) => {
            return Err(CommandError::usage(
                "--unit needs systemd; give the options of `watch`",
            ));
        }
        None => check(args),
    };
    print_findings(&findings, args.watch.output.json)?;
    if has_failure(&findings) {
        Err(CommandError::printed())
    } else {
        Ok(())
    }
}

/// All checks.
fn check(args: &DoctorArgs) -> Vec<Finding> {
    let watch = &args.watch;
    let mut findings = service::check_service(&watch.service, &watch.machine);
    match policy_file::load(&watch.policy.policy) {
        Ok(policy) => {
            findings.push(policy::check_policy(watch, &policy));
            findings.extend(check_arguments(watch, &policy));
        }
        Err(error) => {
            let advice = "correct the policy: `watch` does not start with it";
            findings.push(Finding::fail(Check::Policy, error.to_string(), advice));
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
    findings.extend(hooks::check_hooks(watch, args.unit_process.is_some()));
    findings.extend(files::check_files(watch, args.unit_process));
    findings.push(service::check_proxies());
    findings.push(others::check_others());
    by_check(findings)
}
