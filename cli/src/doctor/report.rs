//! `doctor --report`: what somebody who helps needs, in a text file that says nothing about whose
//! machine it is.

use std::fmt::Write as _;
use std::fs;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use scheduled_events::files::{open_no_link, replace, sibling};
use scheduled_events::hooks::CommandLine;
use scheduled_events_replay::capture::{Mask, is_guid};
use scheduled_events_text::finding::text;
use serde_json::Value;

use super::check::{Check, Finding};
use super::name::names_in;
#[cfg(unix)]
use super::unit::Inside;
use super::unit_text::logical_lines;
use crate::args::DoctorArgs;
use crate::error::CommandError;
use crate::output::diagnose;
use crate::output::format::printable;

/// The columns of the findings.
const WIDTH: usize = 100;

/// How many records of the audit file are in the report, and the most bytes of them.
const RECORDS: usize = 50;
const RECORDS_MAX: u64 = 64 << 10;

/// The beginning of each report.
const TITLE: &str = "Report of scheduled-events doctor";

/// What a report is made of, besides the findings.
pub(crate) struct ReportRequest {
    file: PathBuf,
    audit: Option<PathBuf>,
    names: Vec<String>,
    /// The text of the unit's files.
    unit: Option<String>,
}

impl ReportRequest {
    /// What `--report` asks for.
    pub(crate) fn of(args: &DoctorArgs) -> Option<Self> {
        Some(Self {
            file: args.report.clone()?,
            audit: args.watch.audit.clone(),
            names: args.watch.machine.vm_name.clone(),
            unit: None,
        })
    }

    /// The same about a unit.
    #[cfg(unix)]
    pub(super) fn with_unit(mut self, text: String, inside: Inside) -> Self {
        self.audit = inside.audit;
        self.names = inside.names;
        self.unit = Some(text);
        self
    }

    /// Writes the report, which only this user can read.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn write(&self, findings: &[Finding]) -> Result<(), CommandError> {
        Self::check_place(&self.file)?;
        // It is written there first.
        Self::check_place(&sibling(&self.file, "tmp"))?;
        let report = self.masked(findings);
        replace(&self.file, report.as_bytes()).map_err(|error| {
            CommandError::usage(format!(
                "cannot write the report {}: {error}",
                self.file.display()
            ))
        })?;
        let file = printable(&self.file.display().to_string());
        let note = format!(
            "the report is in {file}, without names, ids and addresses; look at it before you send it"
        );
        diagnose("note", &note);
        Ok(())
    }

    /// Refuses a path that has anything but an earlier report: it would be replaced, also where it is a device, or the audit file of
    /// the watcher.
    fn check_place(path: &Path) -> Result<(), CommandError> {
        let is_free = fs::symlink_metadata(path)
            .is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound);
        // A process that was killed may have written a part of one.
        let is_report = || {
            let file = open_no_link(path)?;
            let mut start = Vec::new();
            let is_file = file.metadata()?.is_file();
            if is_file {
                file.take(TITLE.len() as u64).read_to_end(&mut start)?;
            }
            std::io::Result::Ok(is_file && TITLE.as_bytes().starts_with(&start))
        };
        if is_free || is_report().unwrap_or(false) {
            return Ok(());
        }
        let file = printable(&path.display().to_string());
        Err(CommandError::usage(format!(
            "{file} is there, and is no earlier report; write another path after --report"
        )))
    }

    fn masked(&self, findings: &[Finding]) -> String {
        let records = self.audit.as_deref().map_or(Vec::new(), last_records);
        let mut mask = Mask::default();
        for name in self.names(findings, &records) {
            // A name of the system is in many paths.
            if !name.is_empty() && !["root", "localhost", "scheduled-events"].contains(&&*name) {
                mask.name(&name);
            }
        }
        let mut report = format!(
            "{TITLE}. Names, ids and addresses are replaced; look at it before you send it.\n\n\
             == Versions\nscheduled-events {}\n{}\n== Findings\n",
            env!("CARGO_PKG_VERSION"),
            versions()
        );
        // Before a line ends within a name.
        let mut findings = findings.to_vec();
        for finding in &mut findings {
            finding.found = mask.text(&finding.found);
            finding.advice = finding.advice.as_deref().map(|advice| mask.text(advice));
        }
        let findings = text(&findings, Some(WIDTH));
        report += &anstream::adapter::strip_str(&findings).to_string();
        if let Some(unit) = &self.unit {
            let _ = write!(report, "\n== Unit\n{}", mask.text(&without_values(unit)));
        }
        report += "\n== Last records\n";
        if records.is_empty() {
            report += "none: there is no --audit FILE, or nothing in it\n";
        }
        for record in &records {
            report += &mask.text(record);
            report.push('\n');
        }
        report
    }

    /// What identifies machines and people: names in options, findings and records, and this host's.
    fn names(&self, findings: &[Finding], records: &[String]) -> Vec<String> {
        let of_findings = findings
            .iter()
            .filter(|finding| finding.check == Check::Name)
            .flat_map(|finding| names_in(&finding.found));
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let user = std::env::var("SUDO_USER").or_else(|_| std::env::var("USER"));
        let mut names = self.names.clone();
        names.extend(of_findings.map(str::to_owned));
        names.extend(findings.iter().flat_map(|finding| finding.machines.clone()));
        names.push(host.trim().to_owned());
        names.push(user.unwrap_or_default());
        for record in records {
            let Ok(record) = serde_json::from_str::<Value>(record) else {
                continue;
            };
            let resources = record["resources"].as_array().into_iter().flatten();
            let machine = [&record["machine"], &record["event_id"]];
            let texts = resources.chain(machine).filter_map(Value::as_str);
            // The mask knows ids in the usual form by themselves.
            names.extend(texts.filter(|text| !is_guid(text)).map(str::to_owned));
        }
        names
    }
}

/// The system, its kernel and its systemd.
fn versions() -> String {
    let first = |path: &str| {
        let text = fs::read_to_string(path).unwrap_or_default();
        text.lines().next().unwrap_or_default().to_owned()
    };
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let system = release
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="))
        .map_or(std::env::consts::OS, |name| name.trim_matches('"'));
    let kernel = first("/proc/sys/kernel/osrelease");
    let systemd = std::process::Command::new("systemctl")
        .arg("--version")
        .stdin(std::process::Stdio::null())
        .output()
        .map_or(String::new(), |output| {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            text.lines().next().unwrap_or_default().to_owned()
        });
    format!("{system}\n{kernel} {}\n{systemd}\n", std::env::consts::ARCH)
}

/// The unit's settings without comments, with the names of its environment variables and credentials only: their values may be secrets.
fn without_values(unit: &str) -> String {
    let mut text = String::new();
    for line in logical_lines(unit) {
        let setting = line.split_once('=');
        let masked = match setting.map(|(key, value)| (key.trim(), value.trim())) {
            Some((key @ "Environment", value)) if !value.is_empty() => {
                let variables = CommandLine::parse(value);
                let names = variables.as_ref().map_or(&[][..], CommandLine::words);
                let names = names.iter().filter_map(|variable| variable.split_once('='));
                let names: Vec<_> = names.map(|(name, _)| format!("{name}=***")).collect();
                format!("{key}={}", names.join(" "))
            }
            Some((key @ ("SetCredential" | "SetCredentialEncrypted"), value)) => {
                let name = value.split(':').next().unwrap_or_default();
                format!("{key}={name}:***")
            }
            _ => line,
        };
        text += &masked;
        text.push('\n');
    }
    text
}

/// The last records of an audit file.
fn last_records(path: &Path) -> Vec<String> {
    let read = || {
        let mut file = open_no_link(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(RECORDS_MAX)))?;
        let mut bytes = Vec::new();
        file.take(RECORDS_MAX).read_to_end(&mut bytes)?;
        std::io::Result::Ok(bytes)
    };
    let bytes = read().unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let mut lines: Vec<_> = text.lines().map(printable).collect();
    // The first one may be cut off.
    lines.retain(|line| line.starts_with('{'));
    lines.split_off(lines.len().saturating_sub(RECORDS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_variables_are_left_out() {
        assert_eq!(
            without_values("[Service]\nEnvironment=A=secret \"B=x\"\nEnvironment=\nUser=a\n"),
            "[Service]\nEnvironment=A=*** B=***\nEnvironment=\nUser=a\n"
        );
        for secret in [
            "Environment=A=x \\\n  TOKEN=secret",
            "Environment = TOKEN=secret",
            "Environment=\"A=x B=secret\"",
            "#Environment=TOKEN=secret",
            "SetCredential=token:secret",
        ] {
            let text = without_values(&format!("[Service]\n{secret}\nUser=a\n"));
            assert!(
                !text.contains("secret") && text.contains("User=a"),
                "{text}"
            );
        }
    }

    #[test]
    fn a_report_has_no_name_id_or_address() {
        let folder = std::env::temp_dir().join(format!("doctor-report-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let audit = folder.join("audit");
        let record = r#"{"seq":1,"record":"change","event_id":"6A7B1C2D-0000-1111-2222-333344445555","resources":["secretset_3","Secret-db"],"description":"for secret-db at 10.1.2.3"}"#;
        fs::write(&audit, format!("{record}\n")).unwrap();
        let request = ReportRequest {
            file: folder.join("report"),
            audit: Some(audit),
            names: vec!["secret-option".to_owned()],
            unit: Some("ExecStart=/x watch --vm-name secret-option\n".to_owned()),
        };
        let findings = [
            Finding::ok(Check::Service, "http://10.1.2.3:80 answered"),
            Finding::fail(
                Check::Name,
                "the metadata service calls this machine secretset_3, --vm-name secret-option: events of secretset_3 count as another machine's; instance of the uniform scale set secretset; Resources have its name and a number",
                "leave it out",
            ),
        ];
        let text = request.masked(&findings);
        let lower = text.to_ascii_lowercase();
        for secret in ["secret", "10.1.2.3", "6a7b1c2d"] {
            assert!(!lower.contains(secret), "{secret}: {text}");
        }
        for kept in [
            "== Versions\nscheduled-events ",
            "== Unit\n",
            "\"record\":\"change\"",
            "FAIL",
        ] {
            assert!(text.contains(kept), "{kept}: {text}");
        }
        request
            .write(&findings)
            .map_err(|error| error.message)
            .unwrap();
        assert_eq!(fs::read_to_string(folder.join("report")).unwrap(), text);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_name_that_a_line_has_no_place_for_is_replaced() {
        let request = ReportRequest {
            file: PathBuf::new(),
            audit: None,
            names: vec!["secretset_3".to_owned()],
            unit: None,
        };
        for length in 60..100 {
            let found = format!("{}/secretset_3", "x".repeat(length));
            let text = request.masked(&[Finding::ok(Check::Service, found)]);
            let joined: String = text.split_whitespace().collect();
            assert!(!joined.contains("secretset"), "{text}");
        }
    }

    #[test]
    fn a_file_beside_the_report_is_not_replaced() {
        let folder = std::env::temp_dir().join(format!("doctor-beside-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let beside = folder.join("report.tmp");
        fs::write(&beside, "precious").unwrap();
        let request = ReportRequest {
            file: folder.join("report"),
            audit: None,
            names: Vec::new(),
            unit: None,
        };
        let error = request.write(&[]).unwrap_err().message;
        assert!(
            error.contains("report.tmp is there, and is no earlier report"),
            "{error}"
        );
        assert_eq!(fs::read_to_string(&beside).unwrap(), "precious");
        // What an earlier run left is, also if it was killed at once.
        for left in ["", &TITLE[..5], &format!("{TITLE}. Na")] {
            fs::write(&beside, left).unwrap();
            request.write(&[]).map_err(|error| error.message).unwrap();
            assert!(!beside.exists());
        }
        fs::remove_dir_all(folder).unwrap();
    }
}
