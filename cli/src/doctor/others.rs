//! Other programs on the machine that act on scheduled events: by process, and by unit.

use std::fs;
use std::path::Path;

use scheduled_events::files::folder_of;

use super::check::{Check, Finding};

/// A program that acts on scheduled events.
struct Other {
    /// What it is called here.
    name: &'static str,
    /// How a word of its command line ends.
    process: &'static str,
    /// The unit that runs it.
    unit: &'static str,
    /// What it does, if it may approve or drain; `None` if it does neither.
    acts: Option<&'static str>,
}

/// The known programs. Most follow their documentation: docs/run/beside-others.md.
const OTHERS: [Other; 6] = [
    Other {
        name: "azure-events-az",
        process: "azure-events-az",
        unit: "",
        acts: Some("an agent of Pacemaker: it moves resources, and approves"),
    },
    Other {
        name: "azure-events",
        process: "azure-events",
        unit: "",
        acts: Some("an agent of Pacemaker: it moves resources, and approves"),
    },
    Other {
        name: "AKS node problem detector",
        process: "node-problem-detector",
        unit: "node-problem-detector.service",
        acts: Some("on AKS, nodes are drained for its conditions; it approves nothing"),
    },
    Other {
        name: "aks-node-termination-handler",
        process: "aks-node-termination-handler",
        unit: "",
        acts: Some("it drains the node"),
    },
    Other {
        name: "scheduled-events-fleet",
        process: "scheduled-events-fleet",
        unit: "scheduled-events-fleet.service",
        acts: None,
    },
    Other {
        name: "waagent",
        process: "waagent",
        unit: "walinuxagent.service",
        acts: None,
    },
];

/// The programs that run on this machine, as far as this user sees them.
pub(super) fn check_others() -> Finding {
    let processes = command_lines(Path::new("/proc"));
    let units = Path::new("/sys/fs/cgroup/system.slice");
    of(&processes, &|unit| units.join(unit).is_dir())
}

fn of(processes: &[Vec<String>], is_active: &dyn Fn(&str) -> bool) -> Finding {
    let runs = |other: &&Other| {
        let by_process = processes
            .iter()
            .any(|words| is_program(words, other.process));
        by_process || (!other.unit.is_empty() && is_active(other.unit))
    };
    let found: Vec<_> = OTHERS.iter().filter(runs).collect();
    let names = |acts: bool| {
        let names = found
            .iter()
            .filter(move |other| other.acts.is_some() == acts);
        names.map(|other| match other.acts {
            Some(about) => format!("{} runs: {about}", other.name),
            None => format!("{} runs", other.name),
        })
    };
    let acting: Vec<_> = names(true).collect();
    if !acting.is_empty() {
        let advice =
            "let one program approve: disable one of them, or use a policy that never approves";
        return Finding::warn(Check::Others, acting.join("; "), advice);
    }
    let harmless: Vec<_> = names(false).collect();
    Finding::ok(
        Check::Others,
        if harmless.is_empty() {
            "no other program that acts on events is known to run".to_owned()
        } else {
            harmless.join("; ")
        },
    )
}

/// A folder that `node_exporter` reads in place of that of the metrics file.
pub(super) fn check_collector(metrics: &Path) -> Option<Finding> {
    collector(&command_lines(Path::new("/proc")), metrics)
}

fn collector(processes: &[Vec<String>], metrics: &Path) -> Option<Finding> {
    const NAMES: [&str; 2] = ["node_exporter", "prometheus-node-exporter"];
    const OPTION: &str = "--collector.textfile.directory";
    let is_exporter = |words: &&Vec<String>| NAMES.iter().any(|name| is_program(words, name));
    let mut folders = Vec::new();
    for words in processes.iter().filter(is_exporter) {
        let values =
            words
                .iter()
                .enumerate()
                .filter_map(|(at, word)| match word.strip_prefix(OPTION)? {
                    "" => words.get(at + 1).map(String::as_str),
                    rest => rest.strip_prefix('='),
                });
        // One that runs in a container may name a folder that is none here.
        folders.extend(values.filter_map(|folder| fs::canonicalize(folder).ok()));
    }
    let own = fs::canonicalize(folder_of(metrics)).ok()?;
    if folders.is_empty() || folders.contains(&own) {
        return None;
    }
    let found = format!(
        "node_exporter reads {}, and not {}",
        folders[0].display(),
        own.display()
    );
    let advice = "let the file be in the folder of its --collector.textfile.directory";
    Some(Finding::warn(Check::Metrics, found, advice))
}

/// Whether one of the first words, the program or the script that an interpreter runs, is this one.
fn is_program(words: &[String], name: &str) -> bool {
    let mut first = words.iter().filter(|word| !word.starts_with('-')).take(2);
    first.any(|word| word.rsplit('/').next() == Some(name))
}

/// The command lines of all processes that this user sees.
fn command_lines(proc: &Path) -> Vec<Vec<String>> {
    let entries = fs::read_dir(proc).into_iter().flatten().flatten();
    let processes = entries.filter(|entry| {
        let name = entry.file_name();
        name.as_encoded_bytes().iter().all(u8::is_ascii_digit)
    });
    processes
        .filter_map(|entry| fs::read(entry.path().join("cmdline")).ok())
        .map(|line| {
            let words = line
                .split(|byte| *byte == 0)
                .filter(|word| !word.is_empty());
            words
                .map(|word| String::from_utf8_lossy(word).into_owned())
                .collect()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use scheduled_events_text::finding::Outcome;

    fn words(lines: &[&str]) -> Vec<Vec<String>> {
        let split = |line: &&str| line.split(' ').map(str::to_owned).collect();
        lines.iter().map(split).collect()
    }

    #[test]
    #[cfg(unix)]
    fn a_folder_that_node_exporter_does_not_read_is_found() {
        let folder = std::env::temp_dir().join(format!("doctor-metrics-{}", std::process::id()));
        fs::create_dir_all(folder.join("read")).unwrap();
        let read = folder.join("read").display().to_string();
        let found = |line: &str, file: &str| collector(&words(&[line]), &folder.join(file));
        for line in [
            format!("/usr/bin/prometheus-node-exporter --collector.textfile.directory={read}"),
            format!("/bin/node_exporter --web.x --collector.textfile.directory {read}/"),
        ] {
            assert_eq!(found(&line, "read/x.prom"), None, "{line}");
            let finding = found(&line, "x.prom").unwrap();
            assert_eq!(finding.outcome, Outcome::Warn);
            let expected = format!("node_exporter reads {read}, and not ");
            assert!(finding.found.starts_with(&expected), "{finding:?}");
        }
        for line in [
            "/bin/node_exporter",
            "/bin/node_exporter --collector.textfile.directory=/no/such",
            "/bin/other --collector.textfile.directory=/",
        ] {
            assert_eq!(found(line, "x.prom"), None, "{line}");
        }
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_process_is_seen_with_its_name() {
        use scheduled_events_test_support::wait;
        use std::os::unix::process::CommandExt as _;

        let agent = "/usr/lib/ocf/resource.d/heartbeat/azure-events-az";
        let mut child = std::process::Command::new("sleep")
            .arg0(agent)
            .arg("60")
            .spawn()
            .unwrap();
        // Its command line is empty for a moment after it has started.
        let seen = wait::until("its command line", || {
            let mut seen = command_lines(Path::new("/proc"));
            seen.retain(|words| words.first().is_some_and(|first| first == agent));
            (!seen.is_empty()).then_some(seen)
        });
        child.kill().unwrap();
        child.wait().unwrap();
        let finding = of(&seen, &|_| false);
        assert_eq!(finding.outcome, Outcome::Warn, "{seen:?}");
    }

    #[test]
    fn programs_are_known_by_process_and_by_unit() {
        let found = |lines: &[&str], unit: &str| of(&words(lines), &|active| active == unit);
        assert_eq!(found(&["/bin/sh -c x"], "").outcome, Outcome::Ok);
        let agent = "/usr/bin/python3 -u /usr/lib/ocf/resource.d/heartbeat/azure-events-az monitor";
        let finding = found(&[agent], "");
        assert_eq!(finding.outcome, Outcome::Warn);
        assert!(
            finding.found.starts_with("azure-events-az runs: "),
            "{finding:?}"
        );
        // The name as an argument is no process of it.
        assert_eq!(found(&["vi x azure-events-az"], "").outcome, Outcome::Ok);
        let waagent = found(&["python3 -u /usr/sbin/waagent -daemon"], "");
        assert_eq!(waagent.outcome, Outcome::Ok);
        assert!(waagent.found.starts_with("waagent runs"), "{waagent:?}");
        let by_unit = found(&[], "node-problem-detector.service");
        assert_eq!(by_unit.outcome, Outcome::Warn);
    }
}
