//! The configurations of `docs/run/notifications.md`.

use std::fs;
use std::path::Path;

use scheduled_events_test_support::wait;

use crate::support::{Fixture, wait_until};

/// The blocks of this language in the page.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let opening = format!("```{language}\n");
    page.split(&opening)
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap().to_owned())
        .collect()
}

#[test]
fn each_configuration_of_the_documentation_is_accepted() {
    let page = fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/run/notifications.md"),
    )
    .unwrap();
    let configurations = blocks(&page, "toml");
    let kinds = [
        "slack",
        "teams",
        "pagerduty",
        "alertmanager",
        "otlp",
        "event-hubs",
        "webhook",
    ];
    for kind in kinds {
        let text = format!("kind = {kind:?}");
        assert!(
            configurations.iter().any(|block| block.contains(&text)),
            "there is no example of {kind}"
        );
    }
    for configuration in configurations {
        let fixture = Fixture::new();
        for url in ["slack-url", "teams-url", "chat-url"] {
            fixture.write(url, "https://example.com/secret");
        }
        fixture.write("pagerduty-key", "0123456789abcdef0123456789abcdef");
        fixture.write("inventory-key", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
        fixture.write("otlp-authorization", "Bearer secret");
        fixture.write("audit", "");
        fixture.write("chat.json", &blocks(&page, "jinja")[0]);
        let folder = fixture.path("").display().to_string();
        fixture.configure(&configuration.replace("/etc/scheduled-events/", &folder));
        // There are no records, so nothing is sent.
        let mut child = fixture
            .command()
            .env("CREDENTIALS_DIRECTORY", &folder)
            .stderr(fs::File::create(fixture.path("log")).unwrap())
            .spawn()
            .unwrap();
        let name = configuration
            .lines()
            .find_map(|line| line.strip_prefix("name = "))
            .unwrap()
            .trim_matches('"')
            .to_owned();
        let saved = fixture.path("state").join(format!("{name}.json"));
        wait_until(
            &format!("the start with {configuration}{}", fixture.log()),
            || saved.exists() || !fixture.log().is_empty(),
        );
        child.kill().unwrap();
        wait::ended(&mut child);
        assert_eq!(fixture.log(), "", "{configuration}");
    }
}
