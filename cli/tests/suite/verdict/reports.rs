//! The report's files.

use super::*;
use crate::support::{PROGRAM, quoted, run, wait};

/// Checks a `JUnit` file as Python's parser reads it, by the rules that the schemas of Jenkins and
/// of Ant have in common.
const CHECK_JUNIT: &str = r#"
import re, sys, xml.etree.ElementTree as ET
root = ET.parse(sys.argv[1]).getroot()
assert root.tag == "testsuites", root.tag
counts = lambda element, names: {name: int(element.get(name)) for name in names}
total = {"tests": 0, "failures": 0}
for number, suite in enumerate(root):
    assert suite.tag == "testsuite"
    order = [child.tag for child in suite]
    assert order[0] == "properties" and order[-2:] == ["system-out", "system-err"], order
    assert set(order[1:-2]) == {"testcase"}, order
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", suite.get("timestamp")), suite.attrib
    assert suite.get("name") and suite.get("hostname") and suite.get("package") and int(suite.get("id")) == number
    float(suite.get("time"))
    cases = suite.findall("testcase")
    stated = counts(suite, ["tests", "failures", "errors", "skipped"])
    found = {"tests": len(cases), "failures": len(suite.findall("testcase/failure")), "errors": 0,
             "skipped": len(suite.findall("testcase/skipped"))}
    assert stated == found, (stated, found)
    for name in total:
        total[name] += found[name]
    names = [case.get("name") for case in cases]
    assert len(set(names)) == len(names)
    for case in cases:
        assert set(case.attrib) == {"name", "classname", "time"}, case.attrib
        assert len(case) <= 1 and all(child.tag in ("failure", "skipped", "system-out") for child in case)
        for failure in case.findall("failure"):
            assert failure.get("message") and failure.get("type") == case.get("name")
            assert case.get("name") in ("tested", "exit-status") or "docs/inside/wire.md, section " in failure.text, failure.text
    for item in suite.find("properties"):
        assert item.tag == "property" and item.get("name") and item.get("value") is not None
assert counts(root, total) == total, (root.attrib, total)
print(total["tests"], total["failures"], sep="\n")
for failure in root.iter("failure"):
    print(failure.get("type"), failure.get("message"))
"#;

/// Runs a client that sends a few hostile requests, with a report in a format.
fn hostile(folder: &Folder, name: &str) -> (String, Finished) {
    let scenario = folder.file("two & three's <b>.toml", SHORT);
    let report = folder.path(name);
    let requests = r#"
import os, socket
host, port = os.environ["SCHEDULED_EVENTS_ENDPOINT"].removeprefix("http://").split(":")
for target in ["/<script>alert('1')</script>&amp;\"]]>", "/metadata/scheduledevents?api-version=<b>"]:
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(f"GET {target} HTTP/1.1\r\nHost: {host}\r\nMetadata: <b>&\r\nConnection: close\r\n\r\n".encode())
        connection.recv(1000)
"#;
    let finished = run(&[
        "replay", &scenario, "--report", &report, "--", "python3", "-c", requests,
    ]);
    (
        fs::read_to_string(&report).expect("a report"),
        finished.with_code(1),
    )
}

#[test]
fn a_junit_file_is_what_parsers_and_schemas_expect() {
    let folder = Folder::new();
    let (text, _) = hostile(&folder, "report.xml");
    let mut python = std::process::Command::new("python3");
    let output = wait::output(python.args(["-c", CHECK_JUNIT, &folder.path("report.xml")]));
    let (stdout, stderr) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{stderr}\n{text}");
    let lines: Vec<_> = stdout.lines().collect();
    // The rules, whether anything was tested, and the exit status.
    let cases = (scheduled_events_replay::verdict::Rule::ALL.len() + 2).to_string();
    assert_eq!(lines[..2], [cases.as_str(), "4"], "{stdout}");
    assert!(
        lines[2].starts_with("url found GET /<script>alert('1')</script>&amp;\"]]>"),
        "{stdout}"
    );
    assert!(
        text.contains("&lt;script&gt;") && !text.contains("<script>"),
        "{text}"
    );
    assert!(!text.contains("\\u{a}"), "{text}");
    assert!(
        text.contains("\ndocs/inside/wire.md, section 1, URL\n"),
        "{text}"
    );
}

#[test]
fn an_html_report_loads_and_runs_nothing() {
    let folder = Folder::new();
    let (text, _) = hostile(&folder, "report.html");
    assert!(
        text.contains("&lt;script&gt;alert(&#39;1&#39;)") && !text.contains("<script"),
        "{text}"
    );
    for needed in [
        "<html lang=\"en\">",
        "<title>",
        "default-src 'none'",
        "color-scheme:light dark",
        "scope=\"col\"",
        "</html>",
    ] {
        assert!(text.contains(needed), "{needed}: {text}");
    }
    assert!(
        !text.contains("http://") && !text.contains("https://"),
        "{text}"
    );
}

#[test]
fn what_is_wrong_with_the_arguments_is_found_before_the_client_starts() {
    let folder = Folder::new();
    let mark = folder.path("ran");
    let refused = |arguments: &[&str]| {
        let all = [&["replay", "preempt"], arguments, &["--", "touch", &mark]].concat();
        run(&all).with_code(2).stderr
    };
    assert!(
        refused(&["--report", "report.txt"])
            .contains("expected a name that ends in .xml (JUnit), .ndjson or .html")
    );
    assert!(
        refused(&["--report", &folder.path("missing/report.xml")])
            .contains("cannot write the report")
    );
    assert!(refused(&["--machines", "0"]).contains("from 1 to 1000"));
    assert!(fs::metadata(&mark).is_err());
    let missing = run(&["replay", "preempt", "--", "/no/such/program"]).with_code(2);
    assert!(
        missing
            .stderr
            .contains("error: cannot run /no/such/program: "),
        "{}",
        missing.stderr
    );
}

#[test]
fn a_client_that_tested_nothing_has_a_warning_and_fails() {
    let stderr = |options: &[&str], client: &[&str], code| {
        let all = [&["replay", "preempt", "--quiet"], options, &["--"], client].concat();
        run(&all).with_code(code).stderr
    };
    let never = "warning: WestNO_0 never polled, so nothing was tested";
    let unseen = "warning: WestNO_0 was shown no event, so nothing was tested";
    let error = |text: &str| format!("error: nothing was tested for {text}\n");
    let text = stderr(&[], &["true"], 1);
    assert!(
        text.contains(never) && text.ends_with(&error("1 of 1 client")),
        "{text}"
    );
    let text = stderr(&[], &[PROGRAM, "list"], 1);
    assert!(
        text.contains(unseen) && text.ends_with(&error("1 of 1 client")),
        "{text}"
    );
    let text = stderr(&["--machines", "2"], &["true"], 1);
    assert!(text.ends_with(&error("2 of 2 clients")), "{text}");
    // A client of the control plane asks no machine's service, but the control plane.
    let text = stderr(&["--control-plane"], &["true"], 1);
    assert!(text.ends_with(&error("1 of 1 client")), "{text}");
    assert!(stderr(&["--control-plane"], &["python3", "-c", ASK_GRAPH], 0).contains(never));
}

/// A client of the control plane.
const ASK_GRAPH: &str = r#"
import os, urllib.request
url = os.environ["SCHEDULED_EVENTS_CONTROL_PLANE"] + "/providers/Microsoft.ResourceGraph/resources?api-version=2024-04-01"
fields = {"Authorization": "Bearer x", "Content-Type": "application/json"}
urllib.request.urlopen(urllib.request.Request(url, b'{"query": "maintenanceresources"}', fields)).read()
"#;

#[test]
fn a_junit_file_has_a_failed_test_if_nothing_was_tested() {
    let folder = Folder::new();
    let report = folder.path("report.xml");
    let tested = |options: &[&str], client: &[&str], code| {
        let all = [&["replay", "preempt", "--report", &report], options, client].concat();
        run(&all).with_code(code);
        fs::read_to_string(&report).expect("a report")
    };
    let message = "message=\"it never polled, so nothing was tested\"";
    let text = tested(&[], &["--", "true"], 1);
    assert!(
        text.contains(" failures=\"1\" errors=\"0\"")
            && text.contains(&format!("<failure {message}")),
        "{text}"
    );
    // A client of the control plane alone asks no machine's service.
    let text = tested(&["--control-plane"], &["--", "python3", "-c", ASK_GRAPH], 0);
    assert!(
        text.contains(" failures=\"0\" errors=\"0\"")
            && text.contains(&format!("<skipped {message}")),
        "{text}"
    );
}

#[cfg(target_os = "linux")]
#[test]
fn a_report_that_does_not_fit_on_the_disk_is_named_after_the_verdict() {
    let folder = Folder::new();
    let report = folder.path("report.xml");
    std::os::unix::fs::symlink("/dev/full", &report).expect("a link");
    let failed = run(&["replay", "preempt", "--report", &report, "--", "true"]).with_code(1);
    assert!(
        failed
            .stderr
            .contains(&format!("error: cannot write the report {report}: ")),
        "{}",
        failed.stderr
    );
    assert!(
        failed.stdout.contains("WestNO_0: not tested; "),
        "{}",
        failed.stdout
    );
}

#[cfg(unix)]
#[test]
fn a_report_over_the_limit_on_file_sizes_ends_neither_replay_nor_doctor() {
    let folder = Folder::new();
    let report = folder.path("report.xml");
    let limited = |arguments: &[&str]| {
        let mut command = std::process::Command::new("sh");
        command
            .args(["-c", "ulimit -f 0; exec \"$@\"", "sh", PROGRAM])
            .args(arguments);
        let output = wait::output(&mut command);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            stderr.contains("error: cannot write the report "),
            "{output:?}"
        );
        output.status.code()
    };
    let replay = ["replay", "preempt", "--report", &report, "--", "true"];
    assert_eq!(limited(&replay), Some(1));
    let service = scheduled_events_replay::Scenario::builtin("preempt").expect("a name");
    let config = scheduled_events_replay::ServerConfig::new(service).without_verdict();
    let server = scheduled_events_replay::Server::start(config).expect("a port");
    let url = server.url();
    let other = folder.path("report.txt");
    let doctor = ["doctor", "--endpoint", &url, "--report", &other];
    assert_eq!(limited(&doctor), Some(2));
}

#[test]
fn a_report_replaces_neither_the_scenario_nor_an_earlier_one_of_a_client_that_cannot_run() {
    let folder = Folder::new();
    let scenario = folder.file("scenario.xml", SHORT);
    let refused = run(&["replay", &scenario, "--report", &scenario, "--", "true"]).with_code(2);
    assert!(
        refused
            .stderr
            .contains("is the scenario; write another path after --report"),
        "{}",
        refused.stderr
    );
    assert_eq!(fs::read_to_string(&scenario).expect("a file"), SHORT);

    let report = folder.file("report.xml", "earlier");
    run(&[
        "replay",
        "preempt",
        "--report",
        &report,
        "--",
        "/no/such/program",
    ])
    .with_code(2);
    assert_eq!(fs::read_to_string(&report).expect("a file"), "earlier");
    run(&["replay", "preempt", "--report", &report, "--", "true"]).with_code(1);
    let text = fs::read_to_string(&report).expect("a file");
    assert!(text.starts_with("<?xml"), "{text}");
}

#[cfg(unix)]
#[test]
fn a_report_to_a_pipe_is_refused_at_once() {
    let folder = Folder::new();
    let report = folder.path("report.xml");
    let made = std::process::Command::new("mkfifo").arg(&report).status();
    assert!(made.expect("mkfifo").success());
    let refused = run(&["replay", "preempt", "--report", &report, "--", "true"]).with_code(2);
    let reason = format!("cannot write the report {report}: it is a pipe");
    assert!(refused.stderr.contains(&reason), "{}", refused.stderr);
}

#[test]
fn a_client_that_crashed_has_failed_in_every_report() {
    let folder = Folder::new();
    let replay = |client: &str, format: &str| {
        let report = folder.path(&format!("report.{format}"));
        // `list` is shown no event.
        let code = if client.contains("exit 3") { 3 } else { 1 };
        let client = format!("{} list; {client}", quoted(PROGRAM));
        let all = [
            "replay", "preempt", "--report", &report, "--", "sh", "-c", &client,
        ];
        let stdout = run(&all).with_code(code).stdout;
        (stdout, fs::read_to_string(&report).expect("a report"))
    };
    let (stdout, xml) = replay("exit 3", "xml");
    let text = "the command ended with exit status: 3";
    assert!(stdout.contains("WestNO_0: not clean; "), "{stdout}");
    assert!(
        stdout.contains(&format!("  broken exit-status: {text}\n")),
        "{stdout}"
    );
    assert!(xml.contains("failures=\"2\" errors=\"0\""), "{xml}");
    let case = format!("<failure message=\"{text}\" type=\"exit-status\"/>");
    assert!(xml.contains(&case), "{xml}");
    let (_, lines) = replay("exit 3", "ndjson");
    assert!(lines.contains("\"clean\":false"), "{lines}");
    let line = format!(
        "{{\"report\":\"exit\",\"machine\":\"WestNO_0\",\"outcome\":\"broken\",\"code\":3,\"message\":\"{text}\"}}\n"
    );
    assert!(lines.contains(&line), "{lines}");
    let (_, html) = replay("exit 3", "html");
    assert!(
        html.contains("WestNO_0 ended with a failure") && html.contains(text),
        "{html}"
    );

    let (stdout, xml) = replay("exit 0", "xml");
    assert!(
        stdout.contains("  kept exit-status: the command ended with exit status: 0\n"),
        "{stdout}"
    );
    assert!(
        xml.contains("name=\"exit-status\"") && !xml.contains("type=\"exit-status\""),
        "{xml}"
    );
}

#[test]
fn a_command_s_exit_code_is_passed_on() {
    let replay = |client: &str, code| {
        let finished = run(&[
            "replay",
            "user-reboot",
            "--speed",
            "60",
            "--quiet",
            "--",
            "sh",
            "-c",
            client,
        ])
        .with_code(code);
        assert_eq!(finished.stdout.lines().count(), 1, "{}", finished.stdout);
    };
    let watch = format!(
        "{} watch --policy sample --until-idle --quiet",
        quoted(PROGRAM)
    );
    replay(&watch, 0);
    replay("exit 7", 7);
    let list = run(&["replay", "preempt", "--", PROGRAM, "list", "--json"]).with_code(1);
    assert!(
        list.stdout
            .contains("{\"record\":\"document\",\"incarnation\":1,"),
        "{}",
        list.stdout
    );
}

#[test]
fn without_a_command_the_report_is_written_at_a_signal() {
    let folder = Folder::new();
    let report = folder.path("report.ndjson");
    let replay = Run::start(command(&["replay", "preempt", "--report", &report]));
    let url = crate::support::eventually("the address", || {
        replay
            .stdout()
            .lines()
            .next()
            .and_then(|line| line.strip_prefix("listening on ").map(str::to_owned))
    });
    run(&["list", "--endpoint", &url]).with_code(0);
    replay.terminate();
    replay.finish().with_code(1);
    let text = fs::read_to_string(&report).expect("a report");
    // `list` was shown no event, so nothing was tested.
    assert!(
        text.starts_with("{\"report\":\"client\",\"machine\":\"WestNO_0\",\"scenario\":\"preempt\",\"clean\":false,"),
        "{text}"
    );
}
