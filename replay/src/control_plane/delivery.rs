//! The order and the time in which Event Grid's messages reach the queue, with their faults. Pure:
//! time is an argument.
//!
//! Without faults, messages are delivered at once, in the order of the changes. That is more than
//! Event Grid promises.

use std::time::{Duration, Instant};

/// The pause after the first failure to deliver. It doubles, up to a minute.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// A message about a change of an event.
#[derive(Clone, Debug)]
pub(crate) struct Letter {
    pub(crate) event_id: String,
    /// `EventStatus`.
    pub(crate) status: &'static str,
    pub(crate) content: String,
    /// The faults that apply to it, as written.
    pub(crate) faults: Vec<String>,
    pub(crate) failures: u32,
}

/// Mail from the server to the thread that delivers.
pub(crate) enum Mail {
    /// The message about one change, or the several messages that a fault makes of it.
    Letters {
        letters: Vec<Letter>,
        delay: Duration,
        /// How many messages to collect, which are then delivered in reverse order.
        reversed: Option<usize>,
    },
    /// The scenario is over: no message is held back any longer.
    Finished,
}

/// The messages that wait.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    /// The messages with the time at which each is due. Messages of the same time keep their order.
    waiting: Vec<(Instant, Letter)>,
    /// Messages that are to be reversed.
    held: Vec<(Duration, Letter)>,
}

impl Schedule {
    pub(crate) fn accept(&mut self, mail: Mail, now: Instant) {
        let (letters, delay, reversed) = match mail {
            Mail::Letters {
                letters,
                delay,
                reversed,
            } => (letters, delay, reversed),
            Mail::Finished => (Vec::new(), Duration::ZERO, Some(0)),
        };
        for letter in letters {
            match reversed {
                None => self.add(now + delay, letter),
                Some(_) => self.held.push((delay, letter)),
            }
        }
        if reversed.is_some_and(|count| self.held.len() >= count) {
            while let Some((delay, letter)) = self.held.pop() {
                self.add(now + delay, letter);
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

    /// Puts a message back that could not be delivered.
    pub(crate) fn retry(&mut self, mut letter: Letter, now: Instant) {
        let pause = PAUSE
            .saturating_mul(1 << letter.failures.min(6))
            .min(PAUSE_MAX);
        letter.failures += 1;
        self.add(now + pause, letter);
    }

    fn add(&mut self, due: Instant, letter: Letter) {
        let place = self.waiting.partition_point(|(other, _)| *other <= due);
        self.waiting.insert(place, (due, letter));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letter(content: &str) -> Letter {
        Letter {
            event_id: String::new(),
            status: "Started",
            content: content.into(),
            faults: Vec::new(),
            failures: 0,
        }
    }

    fn mail(content: &str, delay: u64, reversed: Option<usize>) -> Mail {
        Mail::Letters {
            letters: vec![letter(content)],
            delay: Duration::from_secs(delay),
            reversed,
        }
    }

    /// The delivered messages, each with its second, for mail that arrives a second apart.
    fn delivered(mails: Vec<Mail>) -> String {
        let (mut schedule, start, mut sent) = (Schedule::default(), Instant::now(), Vec::new());
        let mut mails = mails.into_iter();
        for second in 0..100 {
            let now = start + Duration::from_secs(second);
            mails
                .next()
                .into_iter()
                .for_each(|mail| schedule.accept(mail, now));
            while let Some(letter) = schedule.take_due(now) {
                sent.push(format!("{}@{second}", letter.content));
            }
        }
        sent.join(" ")
    }

    #[test]
    fn messages_keep_their_order_unless_they_are_late_or_reversed() {
        let three = |delay, reversed| ["a", "b", "c"].map(|name| mail(name, delay, reversed));
        assert_eq!(delivered(three(0, None).into()), "a@0 b@1 c@2");
        assert_eq!(
            delivered(vec![mail("a", 5, None), mail("b", 0, None)]),
            "b@1 a@5"
        );
        assert_eq!(delivered(three(0, Some(3)).into()), "c@2 b@2 a@2");
        assert_eq!(delivered(three(4, Some(2)).into()), "b@5 a@5");
        // Held messages are delivered when the scenario is over.
        let mails = three(0, Some(9)).into_iter().chain([Mail::Finished]);
        assert_eq!(delivered(mails.collect()), "c@3 b@3 a@3");
    }

    #[test]
    fn what_cannot_be_delivered_is_tried_again_later_each_time() {
        let (mut schedule, start) = (Schedule::default(), Instant::now());
        schedule.accept(mail("a", 0, None), start);
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
