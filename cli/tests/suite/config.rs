//! The configuration file: `--config FILE`.

use serde_json::json;

use crate::support::{FakeService, Folder, PREPARE_ALL, VM, command, freeze, helper, run, with};
use crate::support::{Run, lines};

/// A watcher's options that end it after some polls of a service.
fn until_polled(config: &str, service: &FakeService) -> Vec<String> {
    let endpoint = service.url();
    let words = ["watch", "--config", config, "--endpoint", &endpoint];
    words.map(str::to_owned).to_vec()
}

#[test]
fn one_file_has_the_options_the_commands_and_the_rules() {
    let folder = Folder::new();
    let service = FakeService::start();
    let log = folder.path("log");
    let quoted = |word: &str| json!(helper(&[format!("append {log} {word} $EVENT_ID")]));
    let (on, prepare) = (quoted("scheduled"), quoted("prepare"));
    let state = folder.path("state");
    let text = format!(
        "json = true\nvm_name = [\"{VM}\"]\nstate = {state:?}\ninterval = \"200ms\"\nprepare = {prepare}\n\
         [on]\nscheduled = {on}\n{PREPARE_ALL}"
    );
    let config = folder.file("watch.toml", &text);
    service.show(2, &[freeze("a")]);
    let mut watch = Run::start(command(&until_polled(&config, &service)));
    watch.record("an approval", |record| {
        record["record"] == json!("approval")
    });
    watch.stop();
    let mut logged = lines(&log);
    logged.sort();
    assert_eq!(logged, ["prepare a", "scheduled a"]);
    assert!(std::path::Path::new(&state).exists());
}

#[test]
fn a_mistake_in_the_file_is_reported_with_line_and_column() {
    let folder = Folder::new();
    for (text, place, words) in [
        (
            "metric_file = \"a\"",
            "1:1",
            "unknown key `metric_file`; did you mean `metrics_file`?",
        ),
        (
            "\nmetrics-file = \"a\"",
            "2:1",
            "did you mean `metrics_file`?",
        ),
        (
            "[[rules]]\naction = \"hold\"",
            "1:3",
            "did you mean `rule`?",
        ),
        // `run`, and so its options, is not on Windows.
        #[cfg(unix)]
        (
            "json = true\ngrace = \"soon\"",
            "2:9",
            "expected a time such as 8s",
        ),
        #[cfg(unix)]
        ("grace = true", "1:9", "found a boolean, expected a text"),
        #[cfg(unix)]
        ("every = \"5min\"", "1:9", "--checkpoint <COMMAND>"),
        ("config = \"a\"", "1:1", "unknown key `config`"),
        ("interval = \"soon\"", "1:12", "expected a time such as 1s"),
        ("interval = 1.5", "1:12", "found a float, expected a text"),
        ("interval = 8s", "1:", ""),
        (
            "recover_all = \"yes\"",
            "1:15",
            "found a string, expected true or false",
        ),
        ("prepare = \"drain 'now\"", "1:11", "quote"),
        ("prepare = []", "1:11", "the command is empty"),
        (
            "prepare = [\"a\", 1]",
            "1:17",
            "found an integer, expected a word",
        ),
        (
            "on = \"a\"",
            "1:6",
            "found a string, expected a table such as [on]",
        ),
        (
            "[on]\nschedule = \"a\"",
            "2:1",
            "unknown change `schedule`; did you mean `scheduled`?",
        ),
        ("last_call = \"8s\"", "1:13", "--gate <COMMAND>"),
        (
            "policy = \"sample\"\n[[rule]]\naction = \"hold\"",
            "2:3",
            "`policy` and `rule`: the rules are either",
        ),
        (
            "state = \"a\"\n[[rule]]\naction = \"aprove\"",
            "3:10",
            "did you mean `approve`?",
        ),
        (
            "state = \"a\"\n[[rule]]\nevents = \"Freeze\"\naction = \"hold\"",
            "3:1",
            "events",
        ),
        (
            "state = \"a\\u0000b\"",
            "1:9",
            "found a NUL character, which no value can have",
        ),
        (
            "prepare = [\"a\", \"b\\u0000\"]",
            "1:17",
            "found a NUL character",
        ),
        ("leader = \"Rank\"", "1:10", "did you mean `rank`?"),
        ("state = ", "1:", ""),
        (
            "endpoint = \"\"",
            "1:12",
            "the endpoint \"\" is not a URL: empty string",
        ),
        (
            "endpoint = \"169.254.169.254\"",
            "1:12",
            "must start with http://",
        ),
        (
            "json = true\nendpoint = \"http://1.2.3.4\"",
            "2:12",
            "`allow_endpoint = true` accepts it",
        ),
        (
            "api_version = \"\"",
            "1:15",
            "\"\" is not an API version; the newest is ",
        ),
        (
            "json = true\npolicy = \"/no/such/policy.toml\"",
            "2:10",
            "cannot read the policy \"/no/such/policy.toml\": ",
        ),
    ] {
        let config = folder.file("watch.toml", text);
        for command in ["watch", "check", "config"] {
            let finished = run(&[command, "--config", &config]).with_code(2);
            assert!(
                finished
                    .stderr
                    .starts_with(&format!("error: {config}:{place}"))
                    && finished.stderr.contains(words)
                    && finished.stderr.lines().count() == 1,
                "{command}, {text}: {}",
                finished.stderr
            );
        }
    }
    let missing = folder.path("missing.toml");
    let finished = run(&["watch", "--config", &missing]).with_code(2);
    assert!(
        finished
            .stderr
            .starts_with(&format!("error: cannot read the configuration {missing}: ")),
        "{}",
        finished.stderr
    );
}

#[test]
fn a_file_that_names_itself_as_its_policy_is_refused() {
    let folder = Folder::new();
    let config = folder.path("watch.toml");
    for policy in [config.clone(), folder.path("./watch.toml")] {
        folder.file("watch.toml", format!("json = true\npolicy = {policy:?}\n"));
        for command in ["watch", "check"] {
            let finished = run(&[command, "--config", &config]).with_code(2);
            assert_eq!(
                finished.stderr,
                format!(
                    "error: {config}:2:10: this file has no rules; write [[rule]] tables in place of `policy`, or name another file\n"
                ),
            );
        }
    }
    // Named beside it, it is read as a policy.
    folder.file("watch.toml", "json = true\n");
    let finished = run(&["watch", "--config", &config, "--policy", &config]).with_code(2);
    let place = format!("error: {config}:1:1: ");
    assert!(finished.stderr.starts_with(&place), "{}", finished.stderr);
}

#[test]
fn an_endpoint_of_the_file_is_one_that_watch_accepts() {
    let folder = Folder::new();
    for text in [
        "endpoint = \"auto\"\napi_version = \"auto\"\n",
        "endpoint = \"http://1.2.3.4\"\nallow_endpoint = true\n",
    ] {
        let config = folder.file("watch.toml", text);
        run(&["check", "--config", &config]).with_code(0);
    }
    let config = folder.file("watch.toml", "endpoint = \"http://1.2.3.4\"\n");
    // What is not in force is no mistake, and what the file needs may be beside it.
    for option in ["--allow-endpoint", "--endpoint=http://127.0.0.1:9"] {
        run(&["config", "--config", &config, option]).with_code(0);
    }
}

#[test]
fn check_says_what_to_do_with_two_policies() {
    let folder = Folder::new();
    let config = folder.file("watch.toml", "");
    let finished = run(&["check", "--config", &config, "--policy", "sample"]).with_code(2);
    assert_eq!(
        finished.stderr,
        "error: --config and --policy both have a policy; leave out one of them\n"
    );
}

#[test]
fn the_command_line_and_the_environment_replace_the_file() {
    let folder = Folder::new();
    let config = folder.file(
        "watch.toml",
        "endpoint = \"http://127.0.0.2:9\"\njson = true\nvm_name = \"Other_0\"\nmax_polls = 1\ninterval = \"1h\"\npolicy = \"sample\"\n",
    );
    let service = FakeService::start();
    service.show(2, &[with(freeze("a"), &json!({ "EventSource": "User" }))]);
    let arguments = [
        "--quiet",
        "watch",
        "--config",
        &config,
        "--vm-name",
        VM,
        "--interval",
        "200ms",
    ];
    let mut watch = command(&arguments);
    watch.env("SCHEDULED_EVENTS_ENDPOINT", service.url());
    let finished = Run::start(watch).finish().with_code(0);
    assert_eq!(finished.of_kind("decision")[0]["action"], "approve");
}

#[test]
#[cfg(unix)]
fn one_file_serves_watch_and_run() {
    let folder = Folder::new();
    let service = FakeService::start();
    let log = folder.path("log");
    let command_for = |what: &str| json!(helper(&[format!("append {log} {what}")]));
    let (warmup, prepare) = (command_for("warm"), command_for("prepare"));
    let config = folder.file(
        "watch.toml",
        format!(
            "endpoint = {:?}\nmax_polls = 1\nprepare = {prepare}\nrecover = \"true\"\nrecover_all = true\n\
             audit = {:?}\nwarmup = {warmup}\ngrace = \"1s\"\nstop_before = \"2min\"\n[on]\nscheduled = [[\"a\"], [\"b\"]]\n{PREPARE_ALL}",
            service.url(),
            folder.path("audit"),
        ),
    );
    run(&["check", "--config", &config]).with_code(0);
    let printed = run(&["config", "--config", &config]).with_code(0).stdout;
    assert!(
        printed.contains("\n# for `run`: warmup, grace, stop_before\n"),
        "{printed}"
    );
    run(&["watch", "--config", &config]).with_code(0);
    assert!(std::path::Path::new(&folder.path("audit")).exists());
    assert!(!std::path::Path::new(&log).exists());
    // What is for the watcher is not run, and a note says so.
    let kept = run(&["run", "--config", &config, "--", "true"]).with_code(0);
    assert_eq!(lines(&log), ["warm"]);
    let note =
        format!("note: `run` ignores what is for `watch` in {config}: prepare, recover, on\n");
    assert!(kept.stderr.contains(&note), "{}", kept.stderr);
}

#[test]
#[cfg(unix)]
fn run_approves_nothing_with_a_file_in_which_a_watcher_would_wait() {
    let folder = Folder::new();
    for (text, key) in [
        ("approve = true\nprepare = \"true\"\n", "prepare"),
        ("approve = true\ngate = \"true\"\n", "gate"),
        ("approve = true\ndry_run = true\n", "dry_run"),
    ] {
        let config = folder.file("watch.toml", text);
        let refused = run(&["run", "--config", &config, "--", "true"]).with_code(2);
        assert!(
            refused.stderr.starts_with(&format!("error: {config}:2:"))
                && refused
                    .stderr
                    .contains(&format!("would approve without regard to `{key}`")),
            "{}",
            refused.stderr
        );
        run(&["check", "--config", &config]).with_code(0);
    }
}

#[test]
#[cfg(unix)]
fn run_reads_its_options_from_a_file() {
    let folder = Folder::new();
    let log = folder.path("log");
    let service = FakeService::start();
    let warmup = json!(helper(&[format!("append {log} warm")]));
    let config = folder.file(
        "run.toml",
        format!("warmup = {warmup}\nstop_on = [\"Preempt\", \"Reboot\"]\ngrace = \"1s\"\n"),
    );
    let endpoint = service.url();
    run(&[
        "run",
        "--config",
        &config,
        "--endpoint",
        &endpoint,
        "--",
        "true",
    ])
    .with_code(0);
    assert_eq!(lines(&log), ["warm"]);
    // The command line replaces what it excludes, and one file has not both.
    let worker = ["--policy", "observe", "--endpoint", &endpoint, "--", "true"];
    run(&[&["run", "--config", &config], &worker[..]].concat()).with_code(0);
    let both = folder.file(
        "run.toml",
        "stop_on = \"Preempt\"\n[[rule]]\naction = \"hold\"\n",
    );
    let finished = run(&["run", "--config", &both, "--", "true"]).with_code(2);
    assert!(
        finished
            .stderr
            .starts_with(&format!("error: {both}:1:11: "))
            && finished.stderr.contains("cannot be used with"),
        "{}",
        finished.stderr
    );
    let rules = folder.file("run.toml", "[[rule]]\naction = \"prepare\"\n");
    run(&[
        "run",
        "--config",
        &rules,
        "--endpoint",
        &endpoint,
        "--",
        "true",
    ])
    .with_code(0);
    let config = folder.file("run.toml", "stop_on = [\"Preempt\", \"Reset\"]\n");
    let finished = run(&[
        "run",
        "--config",
        &config,
        "--endpoint",
        &endpoint,
        "--",
        "true",
    ])
    .with_code(2);
    assert!(
        finished
            .stderr
            .starts_with(&format!("error: {config}:1:23: ")),
        "{}",
        finished.stderr
    );
}

#[test]
fn what_is_in_force_is_printed_with_its_origin_and_can_be_read_back() {
    let folder = Folder::new();
    let text = "vm_name = [\"WestNO_0\"]\nprepare = \"drain 'all of it'\"\nmax_polls = 3\nleader = \"everyone\"\n\
                [on]\nscheduled = [\"logger\", \"-t\", \"azure\"]\ncompleted = [[\"a\"], [\"b\", \"\"]]\n\
                [[rule]]\nmax_duration = \"8s\"\naction = \"approve\"\n";
    let config = folder.file("watch.toml", text);
    let printed = |config: &str, more: &[&str]| {
        let mut config = command(&[&["config", "--config", config], more].concat());
        config.env("SCHEDULED_EVENTS_ENDPOINT", "http://127.0.0.1:9");
        Run::start(config).finish().with_code(0).stdout
    };
    let first = printed(&config, &["--interval", "2s", "--recover-all"]);
    for (line, origin) in [
        (
            "endpoint = \"http://127.0.0.1:9\"",
            "environment: SCHEDULED_EVENTS_ENDPOINT",
        ),
        ("api_version = \"auto\"", "default"),
        ("vm_name = [\"WestNO_0\"]", &format!("{config}:1")),
        (
            "prepare = [\"drain\", \"all of it\"]",
            &format!("{config}:2"),
        ),
        ("max_polls = 3", &format!("{config}:3")),
        ("interval = \"2s\"", "command line"),
        ("recover_all = true", "command line"),
        (
            "scheduled = [\"logger\", \"-t\", \"azure\"]",
            &format!("{config}:6"),
        ),
        (
            "completed = [[\"a\"], [\"b\", \"\"]]",
            &format!("{config}:7"),
        ),
    ] {
        let found = first.lines().find(|found| found.starts_with(line));
        let found = found.unwrap_or_else(|| panic!("{line} is missing: {first}"));
        assert!(found.ends_with(&format!("# {origin}")), "{found}");
    }
    assert!(first.contains("leader = \"everyone\"\n"), "{first}");
    assert!(
        first.contains("\n[[rule]]\nmax_duration = \"8s\"\naction = \"approve\"\n"),
        "{first}"
    );
    assert!(
        first
            .lines()
            .any(|line| line.starts_with("# not set: ") && line.contains("audit, ")),
        "{first}"
    );
    let unset = first
        .lines()
        .skip_while(|line| !line.starts_with("# not set: "));
    let mut unset = unset.take_while(|line| line.starts_with('#'));
    assert!(unset.all(|line| line.len() <= 80), "{first}");
    // The origins differ.
    let values = |text: &str| {
        let lines = text.lines().map(|line| {
            line.split(" #")
                .next()
                .unwrap_or_default()
                .trim()
                .to_owned()
        });
        lines
            .filter(|line| !line.starts_with('#'))
            .collect::<Vec<_>>()
    };
    let again = folder.file("again.toml", &first);
    assert_eq!(values(&printed(&again, &[])), values(&first));
    let missing = folder.path("missing.toml");
    run(&["config", "--config", &missing]).with_code(2);
}
