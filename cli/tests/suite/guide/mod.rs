//! The guide, which is README.md and the pages that `docs/SUMMARY.md` lists: its blocks show the
//! real behaviour. An unknown command needs a program in `console::STAND_INS`, and numbers in an
//! output may differ.
//!
//! `blocks` reads the pages, `console` runs the commands on them. A line `<!-- test: … -->` before
//! a block controls that:
//!
//! * `service NAME`: the block is served this scenario instead of `user-reboot`.
//! * `file NAME`: the block is the content of this file, for later blocks of the page.
//! * `skip, REASON`: the block is not run.

pub(crate) mod blocks;
mod console;
mod hooks;
mod messages;
mod policy_schema;
mod webhook;

use std::collections::BTreeSet;

use scheduled_events::policy_file;
use scheduled_events_replay::Scenario;

use crate::pages::documentation::read;
use crate::support::{Folder, run, together};
use blocks::{Block, blocks};

/// The pages of the guide, as paths from the root.
pub(crate) fn pages() -> Vec<String> {
    let summary = read("docs/SUMMARY.md");
    let chapters = summary
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')'))
        .map(|(path, _)| path);
    let pages = chapters
        .map(|path| format!("docs/{path}"))
        .chain(["README.md".to_owned()]);
    pages.filter(|page| page != "docs/README.md").collect()
}

/// Pages whose blocks of commands and of TOML other tests run, or that the tests themselves write.
const TESTED_ELSEWHERE: [(&str, &str); 6] = [
    (
        "docs/use/coming-from.md",
        "tests/python/programs/test_coming_from.py",
    ),
    (
        "docs/inside/faults.md",
        "cli/tests/suite/http_faults/page.rs",
    ),
    (
        "docs/run/fleet.md",
        "services/gate/src/config/mod.rs, services/fleet/tests/suite/three_machines.rs, services/fleet/tests/suite/by_hand.rs",
    ),
    (
        "docs/run/kubernetes.md",
        "services/fleet/tests/kubernetes/manifests.rs",
    ),
    (
        "docs/run/notifications.md",
        "services/fleet/tests/relay/documentation.rs",
    ),
    (
        "docs/use/scenarios.md",
        "cli/tests/suite/pages/scenarios_page.rs",
    ),
];

#[test]
fn every_page_of_the_guide_is_in_its_summary() {
    let listed: BTreeSet<_> = pages().into_iter().collect();
    let in_guide = crate::pages::documentation::pages()
        .into_iter()
        .filter(|page| page.starts_with("docs/"));
    let without = BTreeSet::from(["docs/README.md", "docs/SUMMARY.md"].map(str::to_owned));
    let unlisted: BTreeSet<_> = in_guide.filter(|page| !listed.contains(page)).collect();
    assert_eq!(unlisted, without, "left: pages that docs/SUMMARY.md lacks");
}

#[test]
fn the_commands_of_every_page_do_what_it_shows() {
    let pages: Vec<_> = pages()
        .into_iter()
        .filter(|page| TESTED_ELSEWHERE.iter().all(|(other, _)| page != other))
        .collect();
    together(&pages, |page| console::run(&blocks(page)));
}

#[test]
fn each_block_of_toml_is_a_policy_a_configuration_or_a_scenario() {
    let mut policies = 0;
    let is_here = |block: &Block| {
        TESTED_ELSEWHERE
            .iter()
            .all(|(other, _)| block.page != *other)
    };
    for block in all_blocks()
        .filter(|block| block.language == "toml" && is_here(block) && !block.is_skipped())
    {
        let place = block.place();
        if block.text.contains("[[event]]") {
            Scenario::parse(&block.text).unwrap_or_else(|error| panic!("{place}: {error}"));
        } else if block.text.contains("\nprepare = ") {
            let folder = Folder::new();
            let file = folder.file("watch.toml", &block.text);
            run(&["check", "--config", &file]).with_code(0);
        } else {
            policy_file::parse(&block.text).unwrap_or_else(|error| panic!("{place}: {error:?}"));
            policies += 1;
        }
    }
    assert!(policies > 5, "the guide has {policies} policies");
}

#[test]
fn each_block_of_json_is_json() {
    for block in all_blocks().filter(|block| block.language == "json") {
        for line in block.text.lines() {
            serde_json::from_str::<serde_json::Value>(line)
                .unwrap_or_else(|error| panic!("{}: {error}", block.place()));
        }
    }
}

#[test]
fn the_configuration_on_the_page_is_the_file_that_ships() {
    let file = read("cli/systemd/drain.toml");
    let (_, lines) = file.split_once("\n\n").expect("a comment");
    let block = blocks("docs/run/systemd.md")
        .into_iter()
        .find(|block| block.language == "toml")
        .expect("a block");
    assert_eq!(
        block.text,
        lines,
        "{}: cli/systemd/drain.toml",
        block.place()
    );
}

/// With the lines that are comments, and as it is.
#[test]
fn the_configuration_of_the_package_is_valid_and_approves_nothing() {
    let installed = read("packaging/system/watch.toml");
    let folder = Folder::new();
    let said = |text: &str| {
        let file = folder.file("watch.toml", text);
        run(&["check", "--config", &file]).with_code(0).stdout
    };
    let observes = said(&installed);
    assert!(
        observes
            .lines()
            .any(|line| line == "  every event  the policy only observes"),
        "{observes}"
    );
    let is_toml = |line: &str| line.starts_with('[') || line.contains(" = ");
    let uncommented = installed.lines().map(|line| {
        let text = line.strip_prefix("# ").filter(|text| is_toml(text));
        // Text of a sentence.
        text.filter(|text| text.starts_with('[') || !text.contains('`'))
            .unwrap_or(line)
    });
    let sample = said(&uncommented.collect::<Vec<_>>().join("\n"));
    assert!(
        sample.contains("prepare, then approve, both once the gate says yes"),
        "{sample}"
    );
}

/// The units run it, and do not restart what only a person can correct.
#[test]
fn the_units_of_the_command_read_the_file_and_are_not_restarted_for_a_mistake_in_it() {
    let watch = read("cli/systemd/scheduled-events.service");
    assert!(watch.contains("\nExecStart=/usr/local/bin/scheduled-events watch --config /etc/scheduled-events/watch.toml\n"));
    assert!(watch.contains("\nExecReload=/bin/kill -HUP $MAINPID\n"));
    let config = read("docs/use/commands.md");
    assert!(config.contains("[default: `/etc/scheduled-events/watch.toml`]"));
    let code = run(&["watch", "--interval", "soon"]).with_code(2);
    assert!(!code.stderr.is_empty());
    for unit in [watch, read("cli/systemd/scheduled-events-run@.service")] {
        assert!(unit.contains("\nRestartPreventExitStatus=2\n"), "{unit}");
    }
}

/// The test of each language names the pages that it runs.
#[test]
fn each_block_of_a_programming_language_is_run_by_a_test() {
    let tests = [
        ("rust", "client/src/lib.rs"),
        ("c", "tests/c/run.py"),
        ("cpp", "tests/c/run.py"),
        ("python", "tests/python/package/test_package.py"),
        ("promql", "tests/metrics/run"),
    ];
    for block in all_blocks() {
        let elsewhere = TESTED_ELSEWHERE.iter().any(|(page, _)| *page == block.page);
        if let Some((_, test)) = tests
            .iter()
            .find(|(language, _)| *language == block.language)
        {
            let is_run = elsewhere || block.is_skipped() || read(test).contains(&block.page);
            assert!(is_run, "{}: {test} does not run this page", block.place());
        } else {
            let known = [
                "console",
                "sh",
                "powershell",
                "toml",
                "json",
                "text",
                "ini",
                "",
            ]
            .contains(&block.language.as_str());
            assert!(
                known || elsewhere || block.is_skipped(),
                "{}: unknown language {:?}",
                block.place(),
                block.language
            );
        }
    }
}

fn all_blocks() -> impl Iterator<Item = Block> {
    pages().into_iter().flat_map(|page| blocks(&page))
}
