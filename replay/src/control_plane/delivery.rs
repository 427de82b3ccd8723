//! The order and the time in which Event Grid's messages reach the queue, with their faults. Pure: time is an argument.
//!
//! Without faults, messages are delivered at once, in the order of the changes. That is more than Event Grid promises.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::fault::plan::MessagePlan;

/// The pause after the first failure to deliver. It doubles, up to a minute.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// A message about a change of an event.
#[derive(Clone, Debug)]
pub(crate) struct Letter {
    pub(crate) event_id: String,
    /// `EventStatus`.
    pub(crate) status: &'static str,
    pub(crate) content: Value,
    /// The faults that apply to it, as they are written.
    pub(crate) faults: Vec<String>,
    failures: u32,
}

/// What the server passes on to the thread that delivers.
pub(crate) enum Mail {
    /// A message.
    Letter {
        letter: Box<Letter>,
        delay: Duration,
        faults: MessagePlan,
        /// The outer id of a second delivery, if a fault wants one.
        second_id: String,
    },
    /// The scenario is over: nothing more is held back.
    Finished,
}

/// The messages that wait.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    /// When each one is due. Those of the same time keep their order.
    waiting: Vec<(Instant, Letter)>,
    /// Those that are to be reversed.
    held: Vec<(Duration, Letter)>,
}

impl Letter {
    pub(crate) fn new(event_id: String, status: &'static str, content: Value, faults: Vec<String>) -> Self {
        Self { event_id, status, content, faults, failures: 0 }
    }
}

impl Schedule {
    pub(crate) fn accept(&mut self, mail: Mail, now: Instant) {
        match mail {
            Mail::Finished => self.release(now),
            Mail::Letter { letter, delay, faults, second_id } => {
                let mut copies = vec![*letter];
                if faults.is_repeated {
                    copies.push(copies[0].clone());
                }
                if faults.has_new_id {
                    let mut copy = copies[0].clone();
                    copy.content["id"] = Value::String(second_id);
                    copies.push(copy);
                }
                match faults.reversed {
                    None => copies.into_iter().for_each(|copy| self.add(now + delay, copy)),
                    Some(count) => {
                        self.held.extend(copies.into_iter().map(|copy| (delay, copy)));
                        if self.held.len() >= count {
                            self.release(now);
                        }
                    }
                }
            }
        }
    }

    /// When the next message is due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.waiting.first().map(|(due, _)| *due)
    }

    /// Removes the next message, if it is due.
    pub(crate) fn take_due(&mut self, now: Instant) -> Option<Letter> {
        let is_due = self.next_due().is_some_and(|due| due <= now);
        is_due.then(|| self.waiting.remove(0).1)
    }

    /// Lets a message wait that could not be delivered.
    pub(crate) fn retry(&mut self, mut letter: Letter, now: Instant) {
        let pause = PAUSE.saturating_mul(1 << letter.failures.min(6)).min(PAUSE_MAX);
        letter.failures += 1;
        self.add(now + pause, letter);
    }

    fn release(&mut self, now: Instant) {
        for (delay, letter) in std::mem::take(&mut self.held).into_iter().rev() {
            self.add(now + delay, letter);
        }
    }

    fn add(&mut self, due: Instant, letter: Letter) {
        let place = self.waiting.partition_point(|(other, _)| *other <= due);
        self.waiting.insert(place, (due, letter));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::plan::{FaultPlanner, RequestKind};
    use serde_json::json;

    /// The outer ids in the order of their delivery, of as many messages as `count`, with the second of each.
    fn delivered(faults: &[&str], count: u64, is_finished: bool) -> Vec<(u64, String)> {
        let mut planner = FaultPlanner::new(faults.iter().map(|text| text.parse().expect(text)).collect());
        let (mut schedule, start) = (Schedule::default(), Instant::now());
        let mut sent = Vec::new();
        for second in 0..count + 100 {
            let now = start + Duration::from_secs(second);
            if second < count {
                let plan = planner.plan(RequestKind::Message, Duration::from_secs(second));
                let letter = Letter::new(String::new(), "Started", json!({"id": second.to_string()}), Vec::new());
                if !plan.message.is_lost {
                    let (letter, second_id) = (Box::new(letter), format!("{second}'"));
                    let (delay, faults) = (plan.delay, plan.message);
                    schedule.accept(Mail::Letter { letter, delay, faults, second_id }, now);
                }
            } else if second == count && is_finished {
                schedule.accept(Mail::Finished, now);
            }
            while let Some(letter) = schedule.take_due(now) {
                sent.push((second, letter.content["id"].as_str().expect("an id").to_owned()));
            }
        }
        sent
    }

    fn ids(faults: &[&str], count: u64) -> String {
        let ids: Vec<_> = delivered(faults, count, true).into_iter().map(|(_, id)| id).collect();
        ids.join(" ")
    }

    #[test]
    fn fact_messages_may_be_repeated_lost_late_and_out_of_order() {
        assert_eq!(ids(&[], 3), "0 1 2");
        assert_eq!(ids(&["message.lost@2"], 3), "0 2");
        assert_eq!(ids(&["message.repeated@1", "message.new-id@2"], 3), "0 0 1 1' 2");
        assert_eq!(ids(&["message.late:5@1"], 3), "1 2 0");
        assert_eq!(delivered(&["message.late:5@1"], 1, true), [(5, "0".to_owned())]);
        assert_eq!(ids(&["message.reversed:3"], 4), "2 1 0 3");
        assert_eq!(ids(&["message.reversed:9"], 3), "2 1 0");
        assert_eq!(delivered(&["message.reversed:9"], 3, false), []);
        assert_eq!(ids(&["message.lost@1s-2s"], 3), "0 2");
    }

    #[test]
    fn what_cannot_be_delivered_is_tried_again_later_each_time() {
        let (mut schedule, start) = (Schedule::default(), Instant::now());
        let letter = Letter::new(String::new(), "Started", json!({"id": "x"}), Vec::new());
        let (delay, faults) = (Duration::ZERO, MessagePlan::default());
        schedule.accept(Mail::Letter { letter: Box::new(letter), delay, faults, second_id: String::new() }, start);
        let mut now = start;
        let mut pauses = Vec::new();
        for _ in 0..8 {
            let letter = schedule.take_due(now).expect("it is due");
            schedule.retry(letter, now);
            let due = schedule.next_due().expect("it waits");
            pauses.push((due - now).as_secs());
            now = due;
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
    }
}
