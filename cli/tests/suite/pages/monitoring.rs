//! `docs/run/monitoring.md`: its tables have each metric of `watch`, and each alert with its severity.

use std::collections::BTreeSet;

use crate::pages::documentation::{code_spans, lines, read};

const PAGE: &str = "docs/run/monitoring.md";

/// The rows of the page's tables whose first cell is a name, with the second cell.
fn rows() -> Vec<(String, String)> {
    let is_row = |text: &&str| text.starts_with("| `") || text.starts_with("| <a id=");
    let page = lines(PAGE);
    let cells = |text: &str| {
        text.split('|')
            .skip(1)
            .take(2)
            .map(|cell| cell.trim().to_owned())
            .collect::<Vec<_>>()
    };
    let rows = page
        .iter()
        .map(|line| line.text.as_str())
        .filter(is_row)
        .map(cells);
    rows.map(|cells| {
        (
            code_spans(&cells[0]).next().expect("a name").to_owned(),
            cells[1].clone(),
        )
    })
    .collect()
}

#[test]
fn each_metric_of_watch_is_in_the_table() {
    let source = read("client/src/metrics/mod.rs");
    let (_, families) = source
        .split_once("families! {\n    ")
        .expect("the families");
    let families = families
        .lines()
        .take_while(|line| *line != "}")
        .filter_map(|line| line.split_once("\" FamilyKind::"));
    let defined: BTreeSet<_> = families
        .map(|(start, _)| start.rsplit('"').next().expect("a name").to_owned())
        .collect();
    let is_metric = |name: &String| name.starts_with(|first: char| first.is_ascii_lowercase());
    let documented: BTreeSet<_> = rows()
        .into_iter()
        .map(|(name, _)| name)
        .filter(is_metric)
        .collect();
    assert!(defined.len() > 10, "{defined:?}");
    assert_eq!(
        documented, defined,
        "{PAGE} (left) and the code (right) differ"
    );
}

#[test]
fn each_alert_is_in_the_table_with_its_severity() {
    let rules = read("packaging/prometheus/rules.yml");
    let value = |rule: &str, name: &str| {
        let (_, rest) = rule
            .split_once(name)
            .unwrap_or_else(|| panic!("{name} is missing in {rule}"));
        rest.lines().next().expect("a value").trim().to_owned()
    };
    let rules = rules.split("- alert:").skip(1);
    let defined: BTreeSet<_> = rules
        .map(|rule| (value(rule, ""), value(rule, "severity:")))
        .collect();
    let documented: BTreeSet<_> = rows()
        .into_iter()
        .filter(|(name, _)| name.starts_with("ScheduledEvents"))
        .collect();
    assert!(defined.len() > 20, "{defined:?}");
    assert_eq!(
        documented, defined,
        "{PAGE} (left) and the rules (right) differ"
    );
}

/// Fault 43 of `tests/field-faults.md`.
#[test]
fn each_alert_leads_to_its_row_and_none_needs_the_beginning_of_a_counter() {
    let (rules, page) = (read("packaging/prometheus/rules.yml"), read(PAGE));
    for rule in rules.split("- alert:").skip(1) {
        let name = rule.lines().next().expect("a name").trim();
        let url = format!("runbook_url: \"https://GUIDE/run/monitoring.html#{name}\"");
        assert!(rule.contains(&url), "{name} has no {url}");
        let anchor = format!("<a id=\"{name}\"></a>`{name}`");
        assert!(page.contains(&anchor), "{PAGE} has no {anchor}");
        // These fail again and again, so that the counter goes on growing.
        let repeats = [
            "ScheduledEventsHubQueueNotRead",
            "ScheduledEventsHubGraphNotReached",
        ];
        assert!(
            !rule.contains("increase(") || repeats.contains(&name),
            "{name}"
        );
    }
}
