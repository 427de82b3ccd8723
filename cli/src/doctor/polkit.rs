//! What polkit answers for a `systemctl` of a hook: asked, not tried.

use std::ffi::OsStr;
use std::path::Path;

use scheduled_events::hooks::CommandLine;
use serde::{Deserialize, Serialize};

#[cfg(unix)]
use super::check::Check;

/// How root asks for the user of a unit.
pub(super) const ADVICE: &str = "scheduled-events doctor --unit UNIT";

/// The action of `systemctl start`, `stop` and the like.
#[cfg(unix)]
const MANAGE_UNITS: &str = "org.freedesktop.systemd1.manage-units";

/// The verbs of that action.
const VERBS: [&str; 9] = [
    "start",
    "stop",
    "restart",
    "reload",
    "try-restart",
    "reload-or-restart",
    "try-reload-or-restart",
    "isolate",
    "kill",
];

/// Options of systemctl that are followed by a word of their own.
const WITH_VALUE: [&str; 10] = [
    "-H",
    "-M",
    "-n",
    "-o",
    "-p",
    "-s",
    "-t",
    "--host",
    "--machine",
    "--job-mode",
];

/// Programs that run the text after `-c`.
const SHELLS: [&str; 6] = ["sh", "bash", "dash", "ash", "ksh", "zsh"];

/// What a hook asks systemd to do.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Question {
    verb: String,
    units: Vec<String>,
}

impl Question {
    /// The questions that this command leads to: for a `systemctl` that changes units of the system, and for
    /// each one in the text of `sh -c`.
    pub(super) fn all(command: &CommandLine) -> Vec<Self> {
        let words = command.words();
        let is_shell = |word: &String| {
            let name = Path::new(word).file_name().and_then(OsStr::to_str);
            name.is_some_and(|name| SHELLS.contains(&name))
        };
        let text = match words {
            [shell, option, text, ..]
                if is_shell(shell) && option.starts_with('-') && option.ends_with('c') =>
            {
                // A line ends a command, too, and an operator needs no space.
                let text = text.replace('\n', ";").replace("&&", " && ");
                text.replace("||", " || ").replace(';', " ; ")
            }
            _ => return Self::of(words).into_iter().collect(),
        };
        let Ok(text) = CommandLine::parse(&text) else {
            return Vec::new();
        };
        let is_operator = |word: &String| [";", "&&", "||", "|", "&"].contains(&word.as_str());
        let mut questions = Vec::new();
        for words in text.words().split(is_operator) {
            let redirection = words.iter().position(|word| word.contains(['<', '>']));
            questions.extend(Self::of(&words[..redirection.unwrap_or(words.len())]));
        }
        questions
    }

    /// The question of these words.
    fn of(words: &[String]) -> Option<Self> {
        const BEFORE: [&str; 6] = ["exec", "if", "then", "else", "do", "!"];
        let is_before = |word: &&String| BEFORE.contains(&word.as_str()) || word.contains('=');
        let words = &words[words.iter().take_while(is_before).count()..];
        let (program, arguments) = words.split_first()?;
        if Path::new(program).file_name()? != "systemctl" {
            return None;
        }
        let mut words = Vec::new();
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            if argument == "--user" {
                return None;
            }
            if WITH_VALUE.contains(&argument.as_str()) {
                arguments.next();
            } else if !argument.starts_with('-') {
                words.push(argument.clone());
            }
        }
        let mut words = words.into_iter();
        let verb = words.next().filter(|verb| VERBS.contains(&verb.as_str()))?;
        // As systemctl completes names.
        let with_type = |unit: String| {
            if unit.contains('.') {
                unit
            } else {
                unit + ".service"
            }
        };
        // What a shell replaces is not known.
        let words = words.filter(|unit| !unit.contains(['$', '`']));
        let units: Vec<_> = words.map(with_type).collect();
        (!units.is_empty()).then_some(Self { verb, units })
    }

    pub(super) fn words(&self) -> String {
        format!("`systemctl {} {}`", self.verb, self.units.join(" "))
    }

    /// The arguments of `pkcheck` for each unit: whether this process may do it.
    #[cfg(unix)]
    fn arguments(&self, process: u32) -> impl Iterator<Item = Vec<String>> + use<'_> {
        let process = process.to_string();
        self.units.iter().map(move |unit| {
            [
                "--action-id",
                MANAGE_UNITS,
                "--process",
                &process,
                "--detail",
                "unit",
                unit,
                "--detail",
                "verb",
                &self.verb,
            ]
            .map(str::to_owned)
            .into()
        })
    }
}

/// A command that leads to a question.
#[cfg(unix)]
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Asking {
    pub(super) check: Check,
    pub(super) option: String,
    pub(super) question: Question,
}

/// The units that a `systemctl` in this command changes.
pub(crate) fn managed_units(command: &CommandLine) -> Vec<String> {
    let mut units = Vec::new();
    for question in Question::all(command) {
        units.extend(question.units);
    }
    units
}

/// What polkit answered.
#[cfg(unix)]
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Allowed,
    Refused,
    /// It cannot be asked, for this reason.
    Unknown(String),
}

#[cfg(unix)]
pub(super) use asking::answers_for;

#[cfg(unix)]
mod asking {
    use std::io::ErrorKind;
    use std::process::{Command, Stdio};

    use super::super::check::Finding;
    use super::{Answer, Asking, Question};

    /// A process that polkit is asked about: one with the unit's user, who may exist only while such a
    /// process runs. It ends after a minute at the latest.
    struct Subject {
        unit: String,
        process: u32,
    }

    impl Subject {
        fn start(properties: &[String]) -> Result<Self, String> {
            let unit = format!("scheduled-events-doctor-{}.service", std::process::id());
            let named = format!("--unit={unit}");
            let start = ["--quiet", "--collect", "--service-type=exec", &named];
            let sleep = ["--", "sleep", "60"];
            let words = start
                .into_iter()
                .chain(properties.iter().map(String::as_str));
            run("systemd-run", words.chain(sleep))?;
            let mut subject = Self { unit, process: 0 };
            let show = ["show", "--property=MainPID", "--value", "--", &subject.unit];
            let process = run("systemctl", show)?;
            subject.process = process.trim().parse().unwrap_or_default();
            Ok(subject)
        }
    }

    impl Drop for Subject {
        fn drop(&mut self) {
            let _ = run("systemctl", ["stop", "--", &self.unit]);
        }
    }

    /// Runs a program to its end. Returns what it printed, or why it failed.
    fn run<'a>(
        program: &str,
        arguments: impl IntoIterator<Item = &'a str>,
    ) -> Result<String, String> {
        let output = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .map_err(|error| format!("cannot run {program}: {error}"))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() {
            return Ok(text(&output.stdout));
        }
        let errors = text(&output.stderr);
        let first = errors.lines().next().unwrap_or("it failed");
        Err(format!("{program}: {first}"))
    }

    /// What polkit answers for these commands, to a process with these properties of `systemd-run`.
    pub(in crate::doctor) fn answers_for(asking: &[Asking], properties: &[String]) -> Vec<Finding> {
        let mut subject = None;
        answers(asking, &mut |question| {
            let subject = subject.get_or_insert_with(|| Subject::start(properties));
            match subject {
                Ok(subject) => ask(question, subject.process),
                Err(reason) => Answer::Unknown(reason.clone()),
            }
        })
    }

    /// What polkit answers for these commands.
    pub(super) fn answers(
        asking: &[Asking],
        ask: &mut dyn FnMut(&Question) -> Answer,
    ) -> Vec<Finding> {
        let answer = |asking: &Asking| {
            let (check, option, words) = (asking.check, &asking.option, asking.question.words());
            match ask(&asking.question) {
                Answer::Allowed => Finding::ok(check, format!("polkit allows {words}")),
                Answer::Refused => Finding::fail(
                    check,
                    format!("{option}: polkit refuses {words} to the unit's user"),
                    "allow it in a rule of polkit, as scheduled-events.rules does: docs/run/systemd.md",
                ),
                Answer::Unknown(reason) => Finding::warn(
                    check,
                    format!("{option}: whether polkit allows {words} is unknown: {reason}"),
                    "try it as the unit's user",
                ),
            }
        };
        asking.iter().map(answer).collect()
    }

    /// Asks polkit whether this process may do it. Only root gets an answer.
    fn ask(question: &Question, process: u32) -> Answer {
        for arguments in question.arguments(process) {
            match pkcheck(&arguments) {
                Answer::Allowed => {}
                other => return other,
            }
        }
        Answer::Allowed
    }

    fn pkcheck(arguments: &[String]) -> Answer {
        let output = Command::new("pkcheck")
            .args(arguments)
            .stdin(Stdio::null())
            .output();
        let output = match output {
            Ok(output) => output,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Answer::Unknown(
                    "there is no pkcheck: without polkit, only root may".to_owned(),
                );
            }
            Err(error) => return Answer::Unknown(format!("pkcheck: {error}")),
        };
        match output.status.code() {
            Some(0) => Answer::Allowed,
            // Refused; a person could authenticate; a person did not.
            Some(1..=3) => Answer::Refused,
            _ => {
                let text = String::from_utf8_lossy(&output.stderr);
                let first = text.lines().next().unwrap_or("it failed");
                Answer::Unknown(format!("pkcheck: {first}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #[cfg(unix)]
    use super::asking::answers;
    use super::*;
    #[cfg(unix)]
    use scheduled_events_text::finding::Outcome;

    fn question(text: &str) -> Option<Question> {
        all(text).pop()
    }

    fn all(text: &str) -> Vec<Question> {
        Question::all(&CommandLine::parse(text).unwrap())
    }

    #[test]
    fn what_systemctl_is_to_do_is_read_from_the_command() {
        for (text, words) in [
            (
                "systemctl stop app.service",
                Some("`systemctl stop app.service`"),
            ),
            (
                "/bin/systemctl --no-block restart nginx php.socket",
                Some("`systemctl restart nginx.service php.socket`"),
            ),
            (
                "systemctl --job-mode fail start app",
                Some("`systemctl start app.service`"),
            ),
            ("systemctl is-active app", None),
            ("systemctl --user stop app", None),
            ("systemctl stop", None),
            ("drain stop app", None),
        ] {
            let found = question(text).map(|question| question.words());
            assert_eq!(found.as_deref(), words, "{text}");
        }
    }

    #[test]
    fn what_systemctl_is_to_do_is_found_in_the_text_of_a_shell() {
        for (text, expected) in [
            (
                "sh -c 'systemctl stop app && sync'",
                &["`systemctl stop app.service`"][..],
            ),
            (
                "/bin/bash -ec 'sync; systemctl stop a; systemctl start b c || systemctl restart d'",
                &[
                    "`systemctl stop a.service`",
                    "`systemctl start b.service c.service`",
                    "`systemctl restart d.service`",
                ],
            ),
            (
                "sh -c 'systemctl stop app\nsync\nsystemctl start x.socket >/dev/null 2>&1'",
                &["`systemctl stop app.service`", "`systemctl start x.socket`"],
            ),
            (
                "sh -c 'if test -e x; then exec systemctl stop app; fi'",
                &["`systemctl stop app.service`"],
            ),
            (
                "sh -c 'LANG=C systemctl stop app&&sync'",
                &["`systemctl stop app.service`"],
            ),
            ("sh -c 'systemctl stop \"$UNIT\" && sync'", &[]),
            ("sh -c 'echo systemctl stop app'", &[]),
            ("sh -c 'systemctl --user stop app ; '", &[]),
            ("sh drain -c 'systemctl stop app'", &[]),
            ("sh -c", &[]),
        ] {
            let found: Vec<_> = all(text).iter().map(Question::words).collect();
            assert_eq!(found, expected, "{text}");
        }
        let command = CommandLine::parse("sh -c 'systemctl stop a && systemctl stop b'").unwrap();
        assert_eq!(managed_units(&command), ["a.service", "b.service"]);
    }

    #[test]
    #[cfg(unix)]
    fn polkit_is_asked_for_each_unit() {
        let question = question("systemctl stop a b").unwrap();
        let asked: Vec<_> = question.arguments(7).map(|words| words.join(" ")).collect();
        let expected = |unit| {
            format!(
                "--action-id org.freedesktop.systemd1.manage-units --process 7 --detail unit {unit} --detail verb stop"
            )
        };
        assert_eq!(asked, [expected("a.service"), expected("b.service")]);
    }

    #[test]
    #[cfg(unix)]
    fn what_polkit_refuses_is_a_failure() {
        let asking = [
            (Check::Prepare, "systemctl stop a"),
            (Check::Recover, "systemctl start b"),
            (Check::On, "systemctl restart c"),
        ]
        .map(|(check, text)| Asking {
            check,
            option: "--option".to_owned(),
            question: question(text).unwrap(),
        });
        let answers = answers(&asking, &mut |question| {
            let words = question.words();
            if words.contains(" a.") {
                Answer::Refused
            } else if words.contains(" b.") {
                Answer::Allowed
            } else {
                Answer::Unknown("no pkcheck".to_owned())
            }
        });
        let outcomes: Vec<_> = answers
            .iter()
            .map(|finding| (finding.check, finding.outcome))
            .collect();
        assert_eq!(
            outcomes,
            [
                (Check::Prepare, Outcome::Fail),
                (Check::Recover, Outcome::Ok),
                (Check::On, Outcome::Warn)
            ]
        );
        assert!(
            answers[0]
                .found
                .contains("polkit refuses `systemctl stop a.service`"),
            "{answers:?}"
        );
    }
}
