//! Writes a scenario as the text of a file.

use std::fmt::Write as _;
use std::time::Duration;

use crate::scenario::recording::quoted;
use crate::scenario::{EventScript, Scenario};

impl Scenario {
    /// The text of a scenario file, which [`parse`](Self::parse) reads.
    ///
    /// ```
    /// use scheduled_events_replay::Scenario;
    ///
    /// let scenario = Scenario::builtin("rescheduled").expect("a built-in name");
    /// assert_eq!(Scenario::parse(&scenario.to_toml())?, scenario);
    /// # Ok::<(), scheduled_events_replay::ScenarioError>(())
    /// ```
    pub fn to_toml(&self) -> String {
        let mut text = String::new();
        member(&mut text, "about", quoted(&self.about));
        if self.first_incarnation != 1 {
            member(&mut text, "first_incarnation", self.first_incarnation);
        }
        if let Some(reset) = self.incarnation_reset {
            member(
                &mut text,
                "incarnation_reset",
                format_args!("{{ after = {}, to = {} }}", time(reset.after), reset.to),
            );
        }
        for event in &self.events {
            text.push_str("\n[[event]]\n");
            write_event(&mut text, event);
        }
        text
    }
}

fn write_event(text: &mut String, event: &EventScript) {
    let names: Vec<_> = event.resources.iter().map(|name| quoted(name)).collect();
    member(text, "event_type", quoted(&event.event_type));
    if event.is_advice() {
        let status = if event.is_advisory {
            "Advisory"
        } else {
            "Scheduled"
        };
        member(text, "event_status", quoted(status));
    }
    member(text, "event_source", quoted(&event.event_source));
    member(text, "description", quoted(&event.description));
    member(text, "duration_in_seconds", event.duration_in_seconds);
    member(text, "resources", format_args!("[{}]", names.join(", ")));
    if event.count != 1 {
        member(text, "count", event.count);
    }
    member(text, "appears", time(event.appears));
    if event.is_advice() {
        let after = event.cancelled_after.unwrap_or_default();
        return member(text, "cancelled_after", time(after));
    }
    if event.without_notice {
        member(text, "without_notice", true);
    } else {
        member(text, "notice", time(event.notice));
        member(
            text,
            "starts_after_approval",
            time(event.starts_after_approval),
        );
    }
    for (name, after) in [
        ("starts_after", event.starts_after),
        ("cancelled_after", event.cancelled_after),
    ] {
        if let Some(after) = after {
            member(text, name, time(after));
        }
    }
    member(text, "started_for", time(event.started_for));
    if let Some(reschedule) = event.reschedule {
        let (after, notice) = (time(reschedule.after), time(reschedule.notice));
        member(
            text,
            "reschedule",
            format_args!("{{ after = {after}, notice = {notice} }}"),
        );
    }
    if let Some(group) = &event.approval_group {
        member(text, "approval_group", quoted(group));
    }
}

fn member(text: &mut String, name: &str, value: impl std::fmt::Display) {
    // Writing to a string does not fail.
    let _ = writeln!(text, "{name} = {value}");
}

/// A time in whole milliseconds, as a string of TOML.
fn time(time: Duration) -> String {
    let whole = Duration::from_millis(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
    format!("\"{}\"", humantime::format_duration(whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_is_written_as_it_is_read() {
        for (name, _) in Scenario::builtins() {
            let scenario = Scenario::builtin(name).expect(name);
            let text = scenario.to_toml();
            assert_eq!(
                Scenario::parse(&text).as_ref(),
                Ok(&scenario),
                "{name}: {text}"
            );
        }
        let text = "about = \"A \\\"quoted\\\" \\u202E text.\"\nfirst_incarnation = 7\n[[event]]\nevent_type = \"é\"\n\
                    appears = \"1s 500ms\"\nstarts_after = \"2s\"\n";
        let scenario = Scenario::parse(text).expect("a scenario");
        assert_eq!(Scenario::parse(&scenario.to_toml()), Ok(scenario));
    }
}
