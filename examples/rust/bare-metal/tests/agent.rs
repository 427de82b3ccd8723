//! Runs the agent on a board that plays a service.

use scheduled_events_core::{Cause, TrackedEvent, UnixMillis};
use scheduled_events_example_bare_metal::{Board, run};
use serde_json::Value;

/// A board whose counter is about to wrap, and a service that starts an event once it is approved.
struct Fake {
    ticks: u32,
    polls: u32,
    /// When the second poll, which took five seconds, failed.
    timed_out_at: u32,
    /// The poll at which the event was approved.
    approved: Option<u32>,
    done: Vec<String>,
}

impl Board for Fake {
    fn ticks(&self) -> u32 {
        self.ticks
    }

    fn sleep(&mut self, ms: u64) {
        self.ticks = self.ticks.wrapping_add(u32::try_from(ms).unwrap());
    }

    fn get(&mut self, api_version: &str, buffer: &mut [u8]) -> Result<(u16, usize), Cause> {
        assert_eq!(api_version, "2020-07-01");
        self.polls += 1;
        if self.polls == 2 {
            self.sleep(5_000);
            self.timed_out_at = self.ticks;
            return Err(Cause::Timeout);
        }
        let is_after_pause = self.ticks.wrapping_sub(self.timed_out_at) >= 500;
        assert!(self.polls != 3 || is_after_pause, "it polled again at once");
        let status = match self.approved {
            None => "Scheduled",
            Some(approved) if self.polls < approved + 3 => "Started",
            Some(_) => "",
        };
        let event = format!(
            r#"{{"EventId":"a\u001b","EventType":"Reboot","EventStatus":"{status}","Resources":["vm"]}}"#
        );
        let events = if status.is_empty() { "" } else { &event };
        let body = format!(
            r#"{{"DocumentIncarnation":{},"Events":[{events}]}}"#,
            self.polls
        );
        buffer[..body.len()].copy_from_slice(body.as_bytes());
        Ok((200, body.len()))
    }

    fn post(&mut self, _api_version: &str, body: &[u8]) -> Result<u16, Cause> {
        assert_eq!(body, br#"{"StartRequests":[{"EventId":"a\u001b"}]}"#);
        self.approved = Some(self.polls);
        self.done.push("approve".to_owned());
        Ok(200)
    }

    fn prepare(&mut self, event: &TrackedEvent) -> bool {
        assert_eq!(event.mine(), Some(true));
        self.done.push("prepare".to_owned());
        true
    }

    fn recover(&mut self) -> bool {
        self.done.push("recover".to_owned());
        true
    }

    fn log(&mut self, line: &str) {
        assert!(!line.contains('\u{1b}'), "{line:?}");
        let record: Value = serde_json::from_str(line).unwrap();
        if record["record"] == "change" {
            self.done
                .push(record["change"].as_str().unwrap().to_owned());
            assert_eq!(record["event_id"], "a\u{1b}");
            assert!(
                record["time"]
                    .as_str()
                    .unwrap()
                    .starts_with("2020-09-13T12:")
            );
        }
    }
}

#[test]
fn the_agent_prepares_approves_and_recovers_while_the_counter_wraps() {
    let mut board = Fake {
        ticks: u32::MAX - 500,
        polls: 0,
        timed_out_at: 0,
        approved: None,
        done: Vec::new(),
    };
    run(&mut board, "vm", UnixMillis(1_600_000_000_000)).unwrap();
    assert_eq!(
        board.done,
        [
            "scheduled",
            "prepare",
            "approve",
            "started",
            "completed",
            "recover"
        ]
    );
    assert!(board.ticks < u32::MAX / 2, "the counter has wrapped");
}
