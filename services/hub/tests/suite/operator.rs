//! The commands for people.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use scheduled_events_test_support::wait;
use serde_json::{Value, json};

use crate::control::Control;
use crate::fixture::{Hub, SUBSCRIPTION, TestQueue, event_id, resource, row};

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden");

/// With this variable in the environment, the test writes the files instead of comparing them.
const WRITE: &str = "SCHEDULED_EVENTS_WRITE_GOLDEN";

/// Runs a command to its end, and returns the exit code and the output.
fn run(command: &mut Command) -> (i32, String, String) {
    let output = wait::output(command);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (
        output.status.code().expect("a code"),
        text(output.stdout),
        text(output.stderr),
    )
}

fn hub(arguments: &[&str]) -> (i32, String, String) {
    run(Command::new(env!("CARGO_BIN_EXE_scheduled-events-hub")).args(arguments))
}

/// Azure starts events by its own clock.
#[test]
fn how_far_away_an_event_is_goes_by_azures_clock() {
    let control = Control::start();
    let mut event = row(
        &resource("virtualMachines", "db"),
        &event_id(1),
        "Scheduled",
        &["db"],
    );
    event["properties"]["NotBefore"] = json!("Mon, 19 Sep 2016 18:29:47 GMT");
    control.with(|world| {
        world.rows = vec![event];
        world.date = Some("Mon, 19 Sep 2016 18:14:47 GMT");
    });
    let configured = Hub::new(&control.url(), None, "");
    for (within, is_shown) in [("16m", true), ("14m", false)] {
        let (code, text, problem) = run(configured.command().args(["events", "--within", within]));
        assert_eq!(code, 0, "{problem}");
        assert!(
            problem.contains("ahead of Azure's, which counts"),
            "{problem}"
        );
        assert_eq!(text.contains("18:29 UTC, in 15m"), is_shown, "{text}");
    }
    let (code, _, problem) = run(configured.command().args(["events", "--within", "-1s"]));
    assert_eq!(code, 2, "{problem}");
    let expected = "invalid value '-1s' for '--within <TIME>'";
    assert!(problem.contains(expected), "{problem}");
}

#[test]
fn what_is_announced_is_a_table_or_records_and_filtered() {
    let control = Control::start();
    let (db, set) = (
        resource("virtualMachines", "db"),
        resource("virtualMachineScaleSets", "front"),
    );
    let machines = ["front_0", "front_1", "front_2", "front_3", "front_4"];
    control.with(|world| {
        world.rows = vec![
            row(&db, &event_id(1), "Completed", &["db"]),
            row(&set, &event_id(2), "Scheduled", &machines),
        ];
        world.rows[1]["properties"]["Description"] = json!("\u{1b}[2J");
    });
    let configured = Hub::new(&control.url(), None, "");
    let events = |more: &[&str]| {
        let (code, text, problem) = run(configured.command().arg("events").args(more));
        assert_eq!((code, problem.as_str()), (0, ""));
        text
    };
    let expected = format!(
        "TYPE    STATE      NOT BEFORE                GROUP  MACHINES                             EVENT\n\
         Reboot  scheduled  2039-09-19 18:29 UTC, in  web    front_0, front_1, front_2 and 2 more  {}\n",
        event_id(2)
    );
    let columns = |text: &str| {
        text.lines()
            .map(|line| {
                line.split("  ")
                    .filter(|cell| !cell.is_empty())
                    .map(str::trim)
            })
            // The time left until 2039 changes.
            .map(|cells| {
                cells
                    .map(|cell| {
                        cell.split_inclusive(", in")
                            .next()
                            .unwrap_or(cell)
                            .to_owned()
                    })
                    .collect()
            })
            .collect::<Vec<Vec<_>>>()
    };
    assert_eq!(columns(&events(&[])), columns(&expected));
    let lines = events(&["--json", "--history"]);
    let records: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(
        records
            .iter()
            .map(|record| record["state"].as_str().expect("a word"))
            .collect::<Vec<_>>(),
        ["scheduled", "completed"]
    );
    assert_eq!(
        records[0]["machines"][4],
        format!("{set}/virtualMachines/4")
    );
    assert!(!lines.contains('\u{1b}') && records[0]["description"] == "\u{1b}[2J");
    for none in [
        &["--group", "db"][..],
        &["--type", "freeze"],
        &["--state", "started"],
        &["--within", "2h"],
    ] {
        assert_eq!(events(none), "no events\n", "{none:?}");
    }
    assert!(
        events(&[
            "--group",
            "WEB",
            "--type",
            "reboot,freeze",
            "--state",
            "scheduled"
        ])
        .contains(&event_id(2))
    );
    let (code, _, problem) = run(configured.command().args(["events", "--type", "restart"]));
    assert!(
        code == 2 && problem.contains("expected one of Freeze"),
        "{problem}"
    );
}

#[test]
fn an_approval_for_several_machines_takes_a_yes() {
    let control = Control::start();
    let set = resource("virtualMachineScaleSets", "front");
    let (one, two) = (event_id(1), event_id(2));
    control.with(|world| world.rows = vec![row(&set, &one, "Scheduled", &["front_0"])]);
    let configured = Hub::new(&control.url(), None, "");
    let approve = |more: &[&str]| run(configured.command().arg("approve").args(more));
    let approvals = || control.with(|world| std::mem::take(&mut world.approvals));

    let (code, text, _) = approve(&["--dry-run", &set, &one, &two]);
    assert!(
        code == 0 && text.starts_with("POST /subscriptions/") && text.contains("{\"value\":["),
        "{text}"
    );
    assert!(approvals().is_empty());
    // One machine.
    let (code, text, problem) = approve(&[&set, &one]);
    assert_eq!(
        (code, text, problem.as_str()),
        (0, format!("approved: {one}\n"), "")
    );
    assert_eq!(approvals().len(), 1);
    control.with(|world| world.rows = vec![row(&set, &one, "Scheduled", &["front_0", "front_1"])]);
    let named = [
        "--subscription",
        SUBSCRIPTION,
        "-g",
        "web",
        "--scale-set",
        "front",
        &one,
    ];
    let (code, _, problem) = approve(&named);
    assert!(
        code == 2 && problem.contains("2 machines: front_0, front_1") && problem.contains("--yes"),
        "{problem}"
    );
    assert!(approvals().is_empty());
    let (code, ..) = approve(&[&["--yes"], &named[..]].concat());
    assert_eq!((code, approvals().len()), (0, 1));
    // The answer names what was refused; the rest was approved.
    let details = json!([{"target": two, "code": "NotFound", "message": "no such event"}]);
    control.with(|world| {
        world.refusals.push((
            207,
            "",
            json!({"error": {"code": "MultiStatusResponse", "details": details}}),
        ));
    });
    let (code, text, problem) = approve(&["--yes", &set, &one, &two]);
    assert_eq!((code, text), (1, format!("approved: {one}\n")));
    assert!(
        problem.contains(&format!("{two}: NotFound, no such event")),
        "{problem}"
    );
    // Other errors have details as well, which name no event.
    let details = json!([{"target": "scope", "code": "Inner", "message": "no rights"}]);
    control.with(|world| {
        world.refusals.push((
            403,
            "",
            json!({"error": {"code": "No", "details": details}}),
        ));
    });
    let (code, text, problem) = approve(&["--yes", &set, &one]);
    assert_eq!((code, text.as_str()), (1, ""));
    assert!(
        problem.contains("not approved, unless the request arrived")
            && problem.contains("status 403, No")
    );
    // Nothing else can get into the path.
    for wrong in [
        &[set.as_str(), "../x"][..],
        &["/subscriptions/x", &one],
        &[&one],
        &["--vm", "db", &one],
    ] {
        let (code, _, problem) = approve(wrong);
        assert!(code == 2 && !problem.is_empty(), "{wrong:?}");
    }
    assert!(approvals().is_empty());
}

#[test]
fn an_approval_for_machines_that_are_not_known_takes_a_yes() {
    let control = Control::start();
    let set = resource("virtualMachineScaleSets", "front");
    let (one, two) = (event_id(1), event_id(2));
    let configured = Hub::new(&control.url(), None, "");
    let first = row(&set, &one, "Scheduled", &["front_0"]);
    for (rows, ids) in [
        // A name that no machine can have, an event without machines, an event that is not found,
        // and a resource that cannot be read.
        (
            vec![row(&set, &one, "Scheduled", &["no name", "front_0"])],
            &[&one][..],
        ),
        (
            vec![first.clone(), row(&set, &two, "Scheduled", &[])],
            &[&one, &two],
        ),
        (vec![first.clone()], &[&one, &two]),
        (
            vec![
                first.clone(),
                row("/subscriptions/x", &two, "Scheduled", &["front_0"]),
            ],
            &[&one, &two],
        ),
    ] {
        control.with(|world| world.rows = rows);
        let (code, _, problem) = run(configured.command().args(["approve", &set]).args(ids));
        assert!(code == 2 && problem.contains("--yes"), "{ids:?}: {problem}");
        assert!(control.with(|world| world.approvals.is_empty()));
    }
    // The same id twice is one event.
    control.with(|world| world.rows = vec![first]);
    let (code, _, problem) = run(configured.command().args(["approve", &set, &one, &one]));
    assert_eq!((code, problem.as_str()), (0, ""));
}

#[test]
fn an_approval_is_sent_to_the_subscription_that_is_meant() {
    let control = Control::start();
    let (machine, id) = (resource("virtualMachines", "db-1"), event_id(1));
    let other = "11111111-0000-0000-0000-000000000000";
    let configured = Hub::new(&control.url(), None, "");
    let approve = |more: &[&str]| {
        run(configured
            .command()
            .args(["approve", "--dry-run"])
            .args(more))
    };
    // The configuration has one.
    let named = ["--vm", "db-1", "-g", "web", &id];
    let (code, text, problem) = approve(&named);
    assert_eq!((code, problem.as_str()), (0, ""));
    assert!(text.contains(SUBSCRIPTION), "{text}");
    let (_, text, _) = approve(&[&["--subscription", other], &named[..]].concat());
    assert!(text.contains(other), "{text}");
    // The two contradict each other.
    let (code, text, problem) = approve(&["--subscription", other, &machine, &id]);
    assert_eq!((code, text.as_str()), (2, ""));
    assert!(
        problem.contains(&format!("the resource is not of --subscription {other}")),
        "{problem}"
    );
    assert_eq!(
        approve(&["--subscription", SUBSCRIPTION, &machine, &id]).0,
        0
    );
    // The configuration has several.
    let config = configured.read("hub.toml").replace(
        &format!("[\"{SUBSCRIPTION}\""),
        &format!("[\"{SUBSCRIPTION}\", \"{other}\""),
    );
    fs::write(configured.path("hub.toml"), config).expect("written");
    let (code, _, problem) = approve(&named);
    assert!(
        code == 2 && problem.contains("expected one --subscription ID"),
        "{problem}"
    );
}

#[test]
fn what_azure_must_be_told_is_printed_for_each_tool() {
    let enable = [
        "events-policy",
        "--scale-set",
        "web",
        "-g",
        "shop",
        "--subscription",
        SUBSCRIPTION,
        "--storage-account",
        "shopevents",
    ];
    let disable = ["events-policy", "--vm", "db", "-g", "shop(eu)", "--disable"];
    for tool in ["az", "powershell", "rest", "bicep", "terraform"] {
        for (name, arguments) in [
            ("events-policy", &enable[..]),
            ("events-policy-disable", &disable),
        ] {
            let (code, printed, problem) = hub(&[arguments, &["--as", tool]].concat());
            assert_eq!((code, problem.as_str()), (0, ""));
            let path = format!("{GOLDEN}/{name}-{tool}.txt");
            if std::env::var_os(WRITE).is_some() {
                fs::write(path, printed).expect("the file can be written");
                continue;
            }
            let golden =
                fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
            assert_eq!(printed, golden, "{path}: set {WRITE} to write it");
        }
    }
}

/// A shell runs the text with a command `az` that prints its arguments; the policy is JSON with
/// every switch.
#[test]
fn a_shell_passes_the_policy_on_as_it_is() {
    let switches = ["--approve-user-events", "--announce-all-instances-down"];
    let arguments = [
        "events-policy",
        "--availability-set",
        "-x",
        "-g",
        "größe(1)",
        "--as",
        "az",
    ];
    let (_, script, _) = hub(&[&arguments[..], &switches].concat());
    let script = format!("az() {{ for word; do printf '%s|' \"$word\"; done; echo; }}\n{script}");
    let (code, text, problem) = run(Command::new("sh").args(["-euc", &script]));
    assert_eq!((code, problem.as_str()), (0, ""));
    assert_eq!(
        text.lines()
            .filter(|line| line.contains("|größe(1)|"))
            .count(),
        3,
        "{text}"
    );
    let policy = text
        .split("scheduledEventsPolicy=")
        .nth(1)
        .and_then(|rest| rest.split('|').next())
        .expect("a policy");
    let policy: Value = serde_json::from_str(policy).expect("JSON");
    assert_eq!(policy["allInstancesDown"]["automaticallyApprove"], false);
    assert_eq!(policy["userInitiatedReboot"]["automaticallyApprove"], true);
    let targets =
        &policy["scheduledEventsAdditionalPublishingTargets"]["eventGridAndResourceGraph"];
    assert_eq!(
        targets,
        &json!({"enable": true, "scheduledEventsApiVersion": "2020-07-01"})
    );
    for name in ["a'b", "$(reboot)", "a b", "a\nb"] {
        let (code, text, _) = hub(&["events-policy", "--vm", name, "-g", "x", "--as", "az"]);
        assert_eq!((code, text.as_str()), (2, ""), "{name:?}");
    }
}

/// The Azure CLI, as far as a command uses it.
#[test]
fn the_login_of_the_azure_cli_is_used() {
    let control = Control::start();
    let configured = Hub::new(&control.url(), None, "");
    let config = configured
        .read("hub.toml")
        .replace("kind = \"emulator\"", "kind = \"az\"");
    fs::write(configured.path("hub.toml"), config).expect("written");
    let path = format!(
        "{}:{}",
        configured.folder.path().display(),
        std::env::var("PATH").expect("a path")
    );
    let with_az = |script: &str, command: &str| {
        fs::write(
            configured.path("az"),
            format!("#!/bin/sh\necho \"$@\" >>\"$(dirname \"$0\")/calls\"\n{script}\n"),
        )
        .expect("written");
        fs::set_permissions(configured.path("az"), fs::Permissions::from_mode(0o755))
            .expect("executable");
        run(configured.command().arg(command).env("PATH", &path))
    };
    let token = r#"echo '{"accessToken": "emulator", "expiresOn": "2039-01-01 00:00:00.000000", "expires_on": 2177452800,
        "subscription": "x", "tenant": "x", "tokenType": "Bearer"}'"#;
    assert_eq!(
        with_az(token, "events"),
        (0, "no events\n".into(), String::new())
    );
    assert!(
        configured
            .read("calls")
            .contains("account get-access-token"),
        "{}",
        configured.read("calls")
    );
    assert!(
        configured.read("calls").contains(&control.url()),
        "{}",
        configured.read("calls")
    );
    // No user is logged in.
    let failure = "echo \"ERROR: Please run 'az login' to setup account.\" >&2; exit 1";
    let (code, text, problem) = with_az(failure, "events");
    assert_eq!((code, text.as_str()), (1, ""));
    assert!(problem.contains("az login"), "{problem}");
    let (code, text, _) = with_az(failure, "check");
    assert!(
        code == 1 && text.contains("FAIL  token ") && text.contains("-> az login\n"),
        "{text}"
    );
}

/// The lines of a table without its alignment.
fn one_spaced(text: &str) -> String {
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ") + "\n";
    text.lines().map(words).collect()
}

#[test]
fn a_missing_right_is_named_with_the_command_that_gives_it() {
    let control = Control::start();
    let configured = Hub::new(&control.url(), None, "");
    let check = || run(configured.command().arg("check"));
    let (code, text, problem) = check();
    assert_eq!((code, problem.as_str()), (0, ""), "{text}");
    assert!(
        one_spaced(&text).contains("ok token given\n")
            && text.contains("  no event yet: nothing was announced"),
        "{text}"
    );
    assert!(
        text.ends_with(" checks, 0 failures, 0 warnings\n"),
        "{text}"
    );
    let refuse = || {
        control.with(|world| {
            world.refusals.push((
                403,
                "",
                json!({"error": {"code": "AuthorizationFailed", "message": "no rights"}}),
            ));
        });
    };
    refuse();
    let (code, text, problem) = check();
    let remedy = format!("--role ScheduledEventContributor --scope /subscriptions/{SUBSCRIPTION}");
    assert!(
        text.contains("status 403, AuthorizationFailed, no rights\n") && text.contains(&remedy),
        "{text}"
    );
    assert_eq!((code, problem.as_str()), (1, ""));
    assert!(text.ends_with(" checks, 1 failure, 0 warnings\n"), "{text}");
    refuse();
    // The members are those of `scheduled-events doctor --json`.
    let (code, text, problem) = run(configured.command().args(["check", "--json"]));
    assert_eq!((code, problem.as_str()), (1, ""));
    let findings: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let failed: Vec<_> = findings
        .iter()
        .filter(|finding| finding["outcome"] == "fail")
        .collect();
    let what = format!("subscription {SUBSCRIPTION}");
    assert!(
        failed.len() == 1
            && failed[0]["check"] == what.as_str()
            && failed[0]["do"]
                .as_str()
                .is_some_and(|todo| todo.ends_with(&remedy)),
        "{text}"
    );
    assert!(findings[0]["check"] == "policy" && findings[0]["do"].is_null());
    // A queue that no server answers for, and a program that does not exist.
    let config = configured
        .read("hub.toml")
        .replace("prepare = \"sh", "prepare = \"/no/such/program");
    let config = config.replace("source = \"graph\"", "source = \"queue\"");
    let queue =
        "\n[queue]\nurl = \"http://127.0.0.1:1/devstoreaccount1/events\"\nemulator = true\n";
    fs::write(configured.path("hub.toml"), config + queue).expect("written");
    let (code, text, _) = check();
    assert!(
        one_spaced(&text).contains("FAIL hooks.prepare there is no program \"/no/such/program\"")
            && text
                .contains("az storage queue create --name events --account-name devstoreaccount1"),
        "{text}"
    );
    assert_eq!(code, 1);
    assert!(control.with(|world| world.approvals.is_empty()));
}

#[test]
fn files_stores_and_queues_are_checked_and_nothing_is_changed() {
    let (control, queue, poison) = (Control::start(), TestQueue::start(), TestQueue::start());
    let configured = Hub::new(&control.url(), Some(&queue), "");
    let path = |name: &str| configured.path(name).display().to_string();
    let name = poison.url.rsplit('/').next().expect("a name");
    fs::create_dir(configured.path("registers")).expect("a folder");
    for (file, registers) in [("answers", "registers"), ("fails", "hub.toml")] {
        let text = format!(
            "engine = \"folder\"\nfolder = {{ path = \"{}\" }}\naudit = \"/unused\"\n",
            path(registers)
        );
        fs::write(configured.path(file), text).expect("written");
    }
    let own = configured.read("hub.toml") + &format!("poison = \"{name}\"\n");
    let check = |top: &str, config: &str| {
        fs::write(configured.path("hub.toml"), format!("{top}\n{config}")).expect("written");
        let before = fs::read_dir(configured.folder.path())
            .expect("a folder")
            .count();
        let (code, text, _) = run(configured.command().arg("check"));
        assert_eq!(
            fs::read_dir(configured.folder.path())
                .expect("a folder")
                .count(),
            before,
            "{text}"
        );
        (code, one_spaced(&text))
    };
    let (code, text) = check(
        &format!("gate = \"{0}\"\nstore = \"{0}\"", path("answers")),
        &own,
    );
    assert_eq!(code, 0, "{text}");
    for line in [
        format!("ok audit {}, which does not exist yet\n", path("audit")),
        format!("ok metrics {}\n", path("hub.prom")),
        "ok gate its engine answers\nok store its engine answers\n".into(),
        format!("ok queue.poison {}, about 0 messages\n", poison.url),
    ] {
        assert!(text.contains(&line), "{line} in {text}");
    }
    let (audit, folder) = (path("missing/audit"), path("missing"));
    let missing = own.replace(&path("audit"), &audit);
    // As in the package, before the unit's first start.
    let packaged = missing.replace(&path("state"), &path("missing/state"));
    for (config, expected, line) in [
        (
            missing,
            1,
            format!("FAIL audit {audit}: the folder {folder} does not exist; create it\n"),
        ),
        (
            packaged,
            0,
            format!(
                "ok audit {audit}, which does not exist yet: the unit makes the folder {folder}\n"
            ),
        ),
    ] {
        let (code, text) = check("", &config);
        assert!(code == expected && text.contains(&line), "{text}");
    }
    let (code, text) = check("", &own.replace(&path("audit"), &path("state/audit")));
    let (code_of_run, _, why) = run(configured.command().arg("run"));
    assert_eq!((code, code_of_run), (2, 2), "{text}{why}");
    assert!(why.contains("`audit` is inside `state`"), "{why}");
    fs::create_dir(configured.path("state")).expect("a folder");
    fs::set_permissions(configured.path("state"), fs::Permissions::from_mode(0o775)).expect("set");
    let (code, text) = check("", &own);
    let (_, _, why) = run(configured.command().arg("run"));
    for text in [&text, &why] {
        assert!(
            code == 1 && text.contains("others may write there"),
            "{text}"
        );
    }
    fs::remove_dir(configured.path("state")).expect("removed");
    poison.delete();
    let no_folder = own.replace(&path("audit"), &format!("{}/audit", path("policy.toml")));
    let (code, text) = check(&format!("store = \"{}\"", path("fails")), &no_folder);
    assert_eq!(code, 1, "{text}");
    for line in ["FAIL audit ", "FAIL store ", "FAIL queue.poison "] {
        assert!(text.contains(line), "{line} in {text}");
    }
    assert!(
        text.contains(&format!(
            "az storage queue create --name {name} --account-name devstoreaccount1"
        )),
        "{text}"
    );
    // Paths that exist, but are of another kind.
    fs::write(configured.path("drain"), "#!/bin/sh\n").expect("written");
    fs::write(
        configured.path("policy.toml"),
        "[[rule]]\naction = \"aprove\"\n",
    )
    .expect("written");
    let other = own
        .replace(
            &format!("audit = \"{}\"", path("audit")),
            &format!("audit = \"{}\"", path("registers")),
        )
        .replace(
            &format!("state = \"{}\"", path("state")),
            &format!("state = \"{}\"", path("hub.toml")),
        )
        .replace(&format!("sh {} prepare", path("hook")), &path("drain"))
        .replace(
            "emulator = true",
            &format!("sas_file = \"{}\"", path("sas")),
        );
    let (code, text) = check("", &other);
    assert_eq!(code, 1, "{text}");
    for line in [
        "FAIL policy ",
        "FAIL audit ",
        "FAIL state ",
        "FAIL hooks.prepare ",
        "`queue.sas_file` that is valid",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
}

/// Azure starts the event then, and the gate is no longer asked.
#[test]
fn the_state_shows_that_an_approval_is_too_late() {
    let control = Control::start();
    let mut configured = Hub::new(&control.url(), None, "");
    let set = resource("virtualMachineScaleSets", "front");
    configured.prepare_with("test $SCHEDULED_EVENTS_MACHINE = front_0\n");
    let mut event = row(&set, &event_id(1), "Scheduled", &["front_0", "front_1"]);
    let start = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(5);
    event["properties"]["NotBefore"] =
        json!(start.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string());
    control.with(|world| world.rows = vec![event]);
    configured.start();
    wait::until("what the machine that is ready waits for", || {
        let (_, text, _) = run(configured.command().arg("status"));
        text.lines()
            .any(|line| line.contains("front_0") && line.ends_with(" start-unapproved"))
            .then_some(())
    });
    assert!(control.with(|world| world.approvals.is_empty()));
}

#[test]
fn the_state_shows_which_machine_waits_for_what() {
    let control = Control::start();
    let (machine, id) = (resource("virtualMachines", "db"), event_id(1));
    control.with(|world| world.rows = vec![row(&machine, &id, "Scheduled", &["db"])]);
    let mut configured = Hub::new(&control.url(), None, "reconcile = \"1s\"");
    let status = |hub: &Hub, more: &[&str]| {
        let (code, text, problem) = run(hub.command().arg("status").args(more));
        assert_eq!((code, problem.as_str()), (0, ""), "{text}");
        text
    };
    fs::create_dir(configured.path("state")).expect("a folder");
    assert_eq!(
        status(&configured, &[]),
        "no open events, all machines are in service\n"
    );
    fs::write(
        configured.path("hook"),
        "until test -e $(dirname $0)/go; do sleep 0.05; done\n",
    )
    .expect("written");
    configured.start();
    configured.await_record("the preparation", |record| {
        record["record"] == "prepare" && record["outcome"] == "begun"
    });
    let line = wait::until("the preparation", || {
        status(&configured, &[])
            .lines()
            .find(|line| line.ends_with("preparation"))
            .map(str::to_owned)
    });
    let cells: Vec<_> = line.split_whitespace().collect();
    assert_eq!(cells, ["db", "web", "out", &id, "Reboot", "preparation"]);
    let record: Value =
        serde_json::from_str(&status(&configured, &["--json"])).expect("one record");
    assert_eq!(
        (
            &record["in_service"],
            &record["zone"],
            &record["events"][0]["event_id"]
        ),
        (&json!(false), &json!("2"), &json!(id))
    );
    fs::write(configured.path("go"), "").expect("written");
    configured.await_record("the approval", |record| record["record"] == "approval");
    // The id of the next event sorts before the first one's.
    let next = event_id(0);
    control.with(|world| {
        world.rows = vec![
            row(&machine, &id, "Started", &["db"]),
            row(&machine, &next, "Scheduled", &["db"]),
        ];
    });
    wait::until("what both wait for", || {
        let text = status(&configured, &[]);
        let waits = |id: &str, what: &str| {
            text.lines()
                .any(|line| line.contains(id) && line.ends_with(what))
        };
        (waits(&id, " end") && waits(&next, " start")).then_some(())
    });
}

/// Azure allows parentheses in the name of a resource group.
#[test]
fn a_group_with_parentheses_leaves_the_printed_commands_valid() {
    let hub = Hub::new("http://127.0.0.1:1", None, "");
    for group in ["a(b", "a)b", "(dev)"] {
        let mut command = hub.command();
        command.args(["events-policy", "--vm", "db", "--as", "az", "-g", group]);
        let printed = wait::output(&mut command);
        fs::write(hub.path("printed"), &printed.stdout).expect("written");
        let mut shell = Command::new("sh");
        shell.arg("-n").arg(hub.path("printed"));
        let parsed = wait::output(&mut shell);
        assert!(
            printed.status.success() && parsed.status.success(),
            "{parsed:?}"
        );
    }
}

/// The unit is restarted after every exit code but this one.
#[test]
fn a_policy_that_is_missing_or_wrong_is_not_tried_again() {
    let hub = Hub::new("http://127.0.0.1:1", None, "");
    for policy in [None, Some("[[rule]]\naction = \"sleep\"\n")] {
        match policy {
            Some(text) => fs::write(hub.path("policy.toml"), text).expect("written"),
            None => fs::remove_file(hub.path("policy.toml")).expect("removed"),
        }
        let run = wait::output(hub.command().arg("run"));
        let why = String::from_utf8_lossy(&run.stderr).into_owned();
        assert!(
            run.status.code() == Some(2) && why.contains("policy.toml"),
            "{why}"
        );
    }
}

#[test]
fn metrics_do_not_replace_the_configuration() {
    let hub = Hub::new("http://127.0.0.1:1", None, "");
    let config = hub.read("hub.toml").replace("hub.prom", "hub.toml");
    fs::write(hub.path("hub.toml"), &config).expect("written");
    let run = wait::output(hub.command().arg("run"));
    let why = String::from_utf8_lossy(&run.stderr).into_owned();
    assert!(
        run.status.code() == Some(2) && why.contains("`metrics` is this configuration"),
        "{why}"
    );
    assert_eq!(hub.read("hub.toml"), config);
}
