//! `docs/run/troubleshooting.md` explains exactly the messages of the code.
//!
//! A message is a text of at least three words in the arguments of a call that creates an error or
//! prints a diagnostic. Where a value is inserted, the page has `…`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::pages::documentation::{ROOT, read};

const PAGE: &str = "docs/run/troubleshooting.md";

/// The calls whose texts are messages.
const CALLS: [&str; 21] = [
    "CommandError::usage(",
    "CommandError::endpoint(",
    "CommandError::document(",
    "CommandError::time_over(",
    "diagnose(",
    "Finding::caution(",
    "Finding::warn(",
    "Finding::fail(",
    "log(",
    "refused(",
    "Err(",
    "map_err(",
    "ok_or(",
    "ok_or_else(",
    "custom(",
    "PolicyError {",
    "ScenarioError {",
    "write!(",
    "format!(",
    "const EMPTY_LIST",
    "=> (",
];

/// Folders and files whose texts are not for the user of the command, and why.
const OTHERS: [(&str, &str); 41] = [
    (
        "replay/src/scenario/file.rs",
        "mistakes in a scenario file, each with what to write",
    ),
    (
        "replay/src/scenario/mod.rs",
        "mistakes in a scenario file, each with what to write",
    ),
    (
        "replay/src/scenario/names.rs",
        "mistakes in a scenario file, each with what to write",
    ),
    (
        "replay/src/scenario/text.rs",
        "mistakes in a scenario file, each with what to write",
    ),
    (
        "replay/src/fault/",
        "mistakes in a fault, each with what to write",
    ),
    (
        "replay/src/http/mod.rs",
        "answers of the replay server, in the words of Azure",
    ),
    (
        "replay/src/http/route.rs",
        "answers of the replay server, in the words of Azure",
    ),
    (
        "replay/src/service/",
        "answers of the replay server, in the words of Azure",
    ),
    (
        "replay/src/control_plane/error.rs",
        "answers of the replay server, in the words of Azure",
    ),
    (
        "replay/src/control_plane/graph.rs",
        "answers of the replay server, in the words of Azure",
    ),
    (
        "replay/src/control_plane/query.rs",
        "answers of the replay server",
    ),
    (
        "replay/src/control_plane/route.rs",
        "answers of the replay server, in the words of Azure",
    ),
    (
        "replay/src/server/connection.rs",
        "answers of the replay server, in the words of Azure",
    ),
    (
        "replay/src/verdict/",
        "findings about a client, in the report of `replay`",
    ),
    (
        "replay/src/timeline/mod.rs",
        "what the replay server reports",
    ),
    (
        "replay/src/server/control.rs",
        "errors of the library, which the replay page shows",
    ),
    (
        "cli/src/args/",
        "mistakes in an option, each with what it takes",
    ),
    (
        "cli/src/config/file.rs",
        "mistakes in a configuration file, each with what it takes",
    ),
    (
        "client/src/resource_name.rs",
        "names of resources, with what Azure allows",
    ),
    ("cli/src/look/policy_source.rs", "generated C"),
    ("cli/src/test/demo.rs", "the output of `demo`"),
    ("cli/src/look/config.rs", "the output of `config`"),
    (
        "cli/src/policy_words.rs",
        "the output of `check` without a document",
    ),
    ("cli/src/look/status.rs", "the output of `status`"),
    ("cli/src/rehearse.rs", "the output of `doctor --rehearse`"),
    ("cli/src/doctor/files.rs", "the output of `doctor`"),
    ("cli/src/doctor/fleet.rs", "the output of `doctor`"),
    ("cli/src/doctor/hooks.rs", "the output of `doctor`"),
    ("cli/src/doctor/policy.rs", "the output of `doctor`"),
    ("cli/src/doctor/polkit.rs", "the output of `doctor`"),
    ("cli/src/doctor/service.rs", "the output of `doctor`"),
    ("cli/src/doctor/others.rs", "the output of `doctor`"),
    ("cli/src/doctor/unit_text.rs", "the output of `doctor`"),
    (
        "cli/src/operate/simulate_eviction.rs",
        "the output of commands for operators",
    ),
    (
        "cli/src/operate/terminate_profile.rs",
        "the output of commands for operators",
    ),
    ("cli/src/output/format.rs", "the output of `watch`"),
    ("client/src/metrics/", "metrics"),
    ("cli/src/picture/svg.rs", "the output of `timeline`"),
    (
        "replay/src/contract/",
        "evidence, in the output of `contract`",
    ),
    ("cli/src/test/sightings.rs", "the output of `contract`"),
    ("cli/src/test/twins.rs", "tests"),
];

/// Texts that are not messages: output, or a part of a message that is on the page as a whole.
const NO_MESSAGES: [&str; 32] = [
    "…. Names, ids and addresses are replaced; look at it before you send it.  == Versions scheduled-events … … == Findings ",
    "none: there is no --audit FILE, or nothing in it",
    " (mode …, of user …)",
    "add --state FILE",
    "add --prepare COMMAND",
    "add a rule with that action, or leave them out",
    "let its name end in .prom",
    "write … \"sh -c '...'\", or a script",
    " (did you mean `…`?)",
    "; another program uses this port, port 0 takes a free one",
    "…; start Azurite first: npx azurite-queue",
    "is not delivered: …",
    "… /…?… HTTP/1.1r Host: …r Connection: closer x-ms-version: …r Content-Type: application/xmlr Content-Length: …r r …",
    "the answer is not HTTP",
    "; did you mean `…`?",
    "; using it needs --allow-endpoint",
    "; expected the file of `watch --audit` or `capture --to`, or the output of `watch --json`",
    "did you mean `…`? ",
    "did you mean …? ",
    "out of service; …",
    "was due …, at …",
    "…watching … every …, policy …",
    "dry run, which does nothing: ",
    "capturing what … answers to …; press Ctrl-C to stop",
    "… in …; see `scheduled-events contract …`",
    "…; press Ctrl-C to stop",
    "invalid type: map, expected a sequence",
    "missing field `action`",
    "listening on … as … ",
    "control plane at … ",
    "…; the last poll failed: …",
    "… (times in UTC)… ",
];

/// The messages of the code, each with a file that contains it.
fn messages() -> BTreeMap<String, String> {
    for (other, _) in OTHERS {
        assert!(
            Path::new(ROOT).join(other).exists(),
            "{other} does not exist"
        );
    }
    let mut found = BTreeMap::new();
    let mut folders = ["client/src", "replay/src", "cli/src", "cli/text/src"]
        .map(str::to_owned)
        .to_vec();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(Path::new(ROOT).join(&folder)).expect("a folder") {
            let path = format!(
                "{folder}/{}",
                entry
                    .expect("an entry")
                    .file_name()
                    .to_str()
                    .expect("a plain name")
            );
            if Path::new(ROOT).join(&path).is_dir() {
                folders.push(path);
            } else if !OTHERS.iter().any(|(other, _)| path.starts_with(other))
                && !path.ends_with("/tests.rs")
            {
                found.extend(
                    of_source(&read(&path))
                        .into_iter()
                        .map(|message| (message, path.clone())),
                );
            }
        }
    }
    found
}

/// The messages of a source file.
fn of_source(source: &str) -> BTreeSet<String> {
    // Tests are at the end of a file.
    let code = source
        .split("#[cfg(test)]\nmod tests")
        .next()
        .unwrap_or_default();
    let lines = code
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect::<Vec<_>>()
        .join("\n");
    let mut messages = BTreeSet::new();
    for call in CALLS {
        for (start, _) in lines.match_indices(call) {
            messages.extend(texts(&lines[start + call.len()..]));
        }
    }
    messages.retain(|message| is_sentence(message) && !NO_MESSAGES.contains(&message.as_str()));
    messages
}

/// The literals up to the end of the call in which the code starts.
fn texts(code: &str) -> Vec<String> {
    let (mut depth, mut texts, mut chars) = (0_usize, Vec::new(), code.chars().peekable());
    while let Some(char) = chars.next() {
        match char {
            '(' | '{' | '[' => depth += 1,
            ')' | '}' | ']' if depth == 0 => return texts,
            ')' | '}' | ']' => depth -= 1,
            // A character, such as '"'. A lifetime has no second quote.
            '\'' => {
                let rest: Vec<_> = chars.clone().take(3).collect();
                let length = match rest[..] {
                    ['\\', _, '\''] => 3,
                    [_, '\'', ..] => 2,
                    _ => 0,
                };
                chars.by_ref().take(length).for_each(drop);
            }
            '"' => texts.push(literal(&mut chars)),
            _ => {}
        }
    }
    texts
}

/// The rest of a literal, with `…` in place of inserted values.
fn literal(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> String {
    let mut text = String::new();
    while let Some(char) = chars.next() {
        match char {
            '"' => break,
            '\\' => match chars.next() {
                // The line continues.
                Some('\n') => while chars.next_if(|next| next.is_whitespace()).is_some() {},
                Some('n') => text.push(' '),
                Some(escaped) => text.push(escaped),
                None => {}
            },
            '{' if chars.next_if_eq(&'{').is_some() => text.push('{'),
            '}' if chars.next_if_eq(&'}').is_some() => text.push('}'),
            '{' => {
                chars
                    .by_ref()
                    .take_while(|inserted| *inserted != '}')
                    .for_each(drop);
                // Adjacent values are one varying part.
                if !text.ends_with('…') {
                    text.push('…');
                }
            }
            char => text.push(char),
        }
    }
    text
}

fn is_sentence(text: &str) -> bool {
    let letters = |word: &str| {
        word.trim_matches(|char: char| !char.is_alphabetic())
            .to_owned()
    };
    let is_word = |word: &String| word.len() > 1 && word.chars().all(char::is_alphabetic);
    text.split_whitespace().map(letters).filter(is_word).count() >= 3
}

/// The messages on the page: the code in the first cell of each row that has an anchor.
fn explained() -> Vec<(String, String)> {
    let rows = read(PAGE)
        .lines()
        .filter(|line| line.starts_with("| <a id=\""))
        .map(str::to_owned)
        .collect::<Vec<_>>();
    let mut found = Vec::new();
    for row in rows {
        let (anchor, rest) = row["| <a id=\"".len()..]
            .split_once("\"></a>")
            .expect("the end of an anchor");
        // Two graves are around a message that has one.
        let code = match rest.strip_prefix("`` ") {
            Some(rest) => rest.split_once(" `` |"),
            None => rest
                .strip_prefix('`')
                .and_then(|rest| rest.split_once("` |")),
        };
        let (code, meaning) =
            code.unwrap_or_else(|| panic!("{PAGE}: {row}: expected a message between ` and `"));
        assert!(
            meaning.trim_matches([' ', '|']).len() > 2,
            "{PAGE}: {code} is not explained"
        );
        found.push((anchor.to_owned(), code.replace("\\|", "|")));
    }
    found
}

#[test]
fn every_message_of_the_code_has_an_anchor_on_the_page() {
    let (mut code, explained) = (messages(), explained());
    assert!(
        code.len() > 100,
        "{} messages: the code has another form now",
        code.len()
    );
    let anchors: BTreeSet<_> = explained.iter().map(|(anchor, _)| anchor).collect();
    assert_eq!(
        anchors.len(),
        explained.len(),
        "{PAGE}: two messages have one anchor"
    );
    let unknown = explained
        .iter()
        .filter(|(_, message)| code.remove(message).is_none());
    let mut errors: Vec<_> = unknown
        .map(|(_, message)| format!("{PAGE}: not in the code: {message}"))
        .collect();
    errors.extend(
        code.iter()
            .map(|(message, path)| format!("{path}: not on the page: {message}")),
    );
    assert!(errors.is_empty(), "\n{}", errors.join("\n"));
}

/// The reasons are words of core, which has no list of them.
#[test]
fn every_reason_of_a_decision_is_on_the_page() {
    let (source, page) = (read("core/src/policy/decision.rs"), read(PAGE));
    let (_, code) = source
        .split_once("impl fmt::Display for Reason")
        .expect("the reasons");
    let reasons = texts(code.split_once("match self {").expect("their words").1);
    assert!(reasons.len() > 10, "{reasons:?}");
    for reason in reasons {
        let words = reason.split('…').next().unwrap_or_default();
        assert!(
            page.contains(&format!("`{words}")),
            "{PAGE} does not explain the reason {reason:?}"
        );
    }
}
