//! `terminate-profile` and `simulate-eviction`: their text for each tool, compared with the files
//! in `cli/tests/golden`.

use std::fs;

use crate::support::run;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden");

/// With this environment variable, the test writes the files instead of comparing them.
const WRITE: &str = "SCHEDULED_EVENTS_WRITE_GOLDEN";

const ENABLE: [&str; 7] = [
    "terminate-profile",
    "--scale-set",
    "web",
    "--resource-group",
    "shop",
    "--timeout",
    "10m",
];
const DISABLE: [&str; 6] = [
    "terminate-profile",
    "--scale-set",
    "web",
    "--resource-group",
    "shop(eu)",
    "--disable",
];
const VM: [&str; 5] = [
    "simulate-eviction",
    "--resource-group",
    "shop",
    "--vm",
    "worker",
];
const INSTANCE: [&str; 7] = [
    "simulate-eviction",
    "--resource-group",
    "shop(eu)",
    "--scale-set",
    "workers",
    "--instance",
    "3",
];

#[track_caller]
fn compare(name: &str, arguments: &[&str], tool: &str) {
    let printed = run(&[arguments, &["--as", tool]].concat()).with_code(0);
    assert_eq!(printed.stderr, "");
    let path = format!("{FOLDER}/{name}-{tool}.txt");
    if std::env::var_os(WRITE).is_some() {
        fs::write(path, printed.stdout).expect("the file can be written");
        return;
    }
    let golden = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    assert_eq!(printed.stdout, golden, "{path}: set {WRITE} to write it");
}

#[test]
fn a_profile_is_printed_for_each_tool() {
    for tool in ["az", "powershell", "rest", "portal", "bicep", "terraform"] {
        compare("terminate-profile", &ENABLE, tool);
        compare("terminate-profile-disable", &DISABLE, tool);
    }
}

#[test]
fn a_new_scale_set_has_the_profile_from_the_start() {
    for tool in ["az", "powershell", "portal"] {
        compare(
            "terminate-profile-create",
            &[&ENABLE[..], &["--create"]].concat(),
            tool,
        );
    }
    for tool in ["rest", "bicep", "terraform"] {
        let refused = run(&[&ENABLE[..], &["--create", "--as", tool]].concat()).with_code(2);
        assert!(
            refused.stdout.is_empty() && refused.stderr.contains("--create is for az"),
            "{}",
            refused.stderr
        );
    }
    let refused = run(&[&DISABLE[..], &["--create", "--as", "az"]].concat()).with_code(2);
    assert!(
        refused.stderr.contains("cannot be used with"),
        "{}",
        refused.stderr
    );
}

#[test]
fn the_body_of_the_request_is_the_profile_of_the_core() {
    use scheduled_events_core::terminate::{
        NotBeforeTimeout, ScheduledEventsProfile, TerminateNotificationProfile,
    };

    let on =
        ScheduledEventsProfile::terminate(NotBeforeTimeout::from_minutes(10).expect("a time-out"));
    let disabled = Some(TerminateNotificationProfile::disabled());
    let off = ScheduledEventsProfile {
        terminate_notification_profile: disabled,
        ..on
    };
    for (arguments, profile) in [(&ENABLE[..], on), (&DISABLE, off)] {
        let text = run(&[arguments, &["--as", "rest"]].concat())
            .with_code(0)
            .stdout;
        let body = text
            .split("\n\n")
            .find(|part| part.starts_with('{'))
            .expect("a body");
        let body: serde_json::Value = serde_json::from_str(body).expect("JSON");
        let found = &body["properties"]["virtualMachineProfile"]["scheduledEventsProfile"];
        assert_eq!(found, &serde_json::to_value(profile).expect("JSON"));
    }
}

#[test]
fn an_eviction_is_printed_for_each_tool() {
    for tool in ["az", "powershell", "rest"] {
        compare("simulate-eviction-vm", &VM, tool);
        compare("simulate-eviction-instance", &INSTANCE, tool);
    }
}

#[test]
fn what_azure_refuses_is_a_usage_error_that_names_the_rule() {
    let refused = |arguments: &[&str], expected: &str| {
        let finished = run(arguments).with_code(2);
        assert!(
            finished.stdout.is_empty() && finished.stderr.contains(expected),
            "{arguments:?}: {}",
            finished.stderr
        );
    };
    let timed = |timeout: &str, tool: &str, expected: &str| {
        refused(&[&ENABLE[..6], &[timeout, "--as", tool]].concat(), expected);
    };
    timed("4m59s", "rest", "(at-least-5-minutes)");
    timed("16min", "rest", "(at-most-15-minutes)");
    timed("PT1H", "rest", "(at-most-15-minutes)");
    timed("PT5M30", "rest", "(iso-8601-duration)");
    timed("ten", "rest", "such as 10m or PT10M");
    timed("300500ms", "rest", "whole seconds");
    for tool in ["az", "powershell", "portal"] {
        timed("PT7M30S", tool, "PT7M30S is not a whole number of minutes");
    }
    refused(
        &[
            "terminate-profile",
            "--scale-set",
            "web",
            "--resource-group",
            "shop",
            "--as",
            "az",
        ],
        "--timeout",
    );
    refused(
        &[&ENABLE[..], &["--disable", "--as", "az"]].concat(),
        "cannot be used with",
    );
    refused(&[&ENABLE[..], &["--as", "cdk"]].concat(), "powershell");
    refused(&[&VM[..3], &["--as", "az"]].concat(), "--vm");
    refused(
        &[
            &VM[..],
            &["--scale-set", "a", "--instance", "1", "--as", "az"],
        ]
        .concat(),
        "cannot be used with",
    );
    refused(
        &[&VM[..3], &["--scale-set", "a", "--as", "az"]].concat(),
        "--instance",
    );
}

#[test]
fn a_name_that_could_break_a_shell_is_refused() {
    for name in [
        "a'b",
        "a b",
        "$(reboot)",
        "`reboot`",
        "a;b",
        "a\nb",
        "\u{2019}",
        "a\"b",
        "a&b",
        "%PATH%",
        "${x}",
        "",
    ] {
        for (option, other) in [
            ("--scale-set", "--resource-group"),
            ("--resource-group", "--scale-set"),
        ] {
            let arguments = [
                "terminate-profile",
                option,
                name,
                other,
                "x",
                "--timeout",
                "5m",
                "--as",
                "az",
            ];
            let finished = run(&arguments).with_code(2);
            assert_eq!(finished.stdout, "", "{name:?}");
        }
    }
    let arguments = [
        "terminate-profile",
        "--scale-set",
        "-x",
        "--resource-group",
        "größe(1)",
        "--disable",
        "--as",
        "az",
    ];
    let printed = run(&arguments).with_code(0).stdout;
    assert!(
        printed.contains("az vmss update --resource-group 'größe(1)' --name=-x --enable"),
        "{printed}"
    );
}

/// A shell runs the text with a command `az` that prints its arguments.
#[test]
#[cfg(unix)]
fn a_shell_passes_the_arguments_on_as_they_were_given() {
    use std::process::Command;

    use crate::support::wait;

    for arguments in [&ENABLE[..], &DISABLE, &VM, &INSTANCE] {
        let script = run(&[arguments, &["--as", "az"]].concat())
            .with_code(0)
            .stdout;
        let script =
            format!("az() {{ for word; do printf '%s|' \"$word\"; done; echo; }}\n{script}");
        let output = wait::output(Command::new("sh").args(["-euc", &script]));
        assert!(
            output.status.success() && output.stderr.is_empty(),
            "{output:?}"
        );
        let output = String::from_utf8(output.stdout).expect("text");
        let group = arguments[arguments
            .iter()
            .position(|word| *word == "--resource-group")
            .expect("the option")
            + 1];
        assert!(!output.is_empty());
        for line in output.lines() {
            assert!(
                line.contains(&format!("|--resource-group|{group}|")),
                "{line}"
            );
        }
    }
}
