//! The table of variables in `docs/use/hooks.md` has those that commands receive, and no others.

use std::collections::BTreeSet;
use std::fs;

use crate::pages::documentation::{code_spans, lines};
use crate::support::{Folder, PREPARE_ALL, VM, play, run};

const SCENARIO: &str = include_str!("../../../../replay/scenarios/live-migration.toml");

#[test]
fn the_table_has_the_variables_that_commands_receive() {
    let folder = Folder::new();
    let seen = folder.path("variables");
    let hook = folder.file(
        "hook",
        format!("env | sed -n 's/^\\(SCHEDULED_EVENTS_[A-Z_]*\\)=.*/\\1/p' >>{seen}\n"),
    );
    let (hook, policy) = (
        format!("sh {hook}"),
        folder.file("policy.toml", PREPARE_ALL),
    );
    let watch = |hooks: &[&str]| {
        let server = play(SCENARIO, &[]);
        let url = server.url();
        let watch = [
            "watch",
            "--endpoint",
            &url,
            "--policy",
            &policy,
            "--vm-name",
            VM,
            "--until-idle",
        ];
        run(&[&watch[..], hooks].concat()).with_code(0);
    };
    let on = format!("scheduled={hook}");
    watch(&[
        "--prepare",
        &hook,
        "--recover",
        &hook,
        "--gate",
        &hook,
        "--on",
        &on,
    ]);
    // The gate never answers yes.
    watch(&["--prepare", &hook, "--gate", "false", "--last-call", "1h"]);

    let server = play(SCENARIO, &[]);
    let url = server.url();
    // The worker ends by itself; a checkpoint runs while it does.
    let worker = [
        "run",
        "--endpoint",
        &url,
        "--checkpoint",
        &hook,
        "--every",
        "1s",
        "--warmup",
        &hook,
        "--",
        "sleep",
        "3",
    ];
    run(&worker).with_code(0);

    let received: BTreeSet<_> = fs::read_to_string(&seen)
        .expect("variables")
        .lines()
        .map(str::to_owned)
        .collect();
    let rows = lines("docs/use/hooks.md")
        .into_iter()
        .filter(|line| line.text.starts_with("| `SCHEDULED_EVENTS_"));
    let listed: BTreeSet<_> = rows
        .map(|line| code_spans(&line.text).next().expect("a name").to_owned())
        .collect();
    assert_eq!(
        received, listed,
        "received (left), and in docs/use/hooks.md (right)"
    );
}
