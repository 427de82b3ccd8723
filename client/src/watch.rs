//! The main job: poll, tell changes, decide, prepare, approve, recover. Core's session decides; this carries bytes,
//! runs commands beside the polling, and keeps the state file.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::panic::resume_unwind;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use scheduled_events_core::record::CauseWord;
use scheduled_events_core::{
    Cause, Change, Document, EventId, Policy, Preparation, Report, RequestOutcome, Response, Session, SessionConfig,
    Step, Text, UnixMillis, UnixSeconds, VmNames,
};

use crate::clock::Clock;
use crate::imds::{self, Answer, Failure, Imds, NAME_TIMEOUT, UNDERSCORED_API_VERSION};
use crate::record::{EventRecord, HookOutcome, Record, TimedRecord};
use crate::state::{Found, Owed, State, StateFile};

/// How many events are followed at a time. A placement group has up to a thousand machines.
pub const EVENTS_MAX: usize = 1024;

/// How often the machine's own name is asked for again, at first and in the long run: until it is known everything is
/// held, and a notice can be as short as 30 seconds.
const NAME_RETRY: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(8)];

/// How soon a state file that could not be written is tried again, and how often that is told for as long as it lasts.
const SAVE_RETRY: Duration = Duration::from_secs(1);
const TELL_AGAIN: Duration = Duration::from_secs(300);

/// How far the clocks come apart before the deadlines of preparations are set anew.
const CLOCKS_APART_MS: u64 = 1_000;

/// What a watch is to do.
#[derive(Clone, Debug)]
pub struct Options {
    /// The API version that is asked for.
    pub api_version: String,
    /// This machine's names; none means that the metadata service is asked.
    pub vm_names: Vec<String>,
    /// What to do about events.
    pub policy: Policy,
    /// The time between two polls, 200 ms at least.
    pub interval: Duration,
    /// Decide and report, but neither prepare nor approve.
    pub dry_run: bool,
    /// End once an event was seen and none is left.
    pub until_idle: bool,
    /// End after so many polls.
    pub max_polls: Option<u64>,
    /// The longest that a request may take, where that is less than a session gives it: two minutes for the first one,
    /// which may have to wake the service up.
    pub timeout: Option<Duration>,
}

impl Options {
    fn timeout_of(&self, timeout_ms: u32) -> Duration {
        let usual = Duration::from_millis(u64::from(timeout_ms));
        self.timeout.map_or(usual, |timeout| timeout.min(usual))
    }
}

/// Whoever does what the session says: runs commands, calls functions, prints.
pub trait Host {
    /// Something happened.
    fn record(&mut self, record: &TimedRecord<'_>, event: Option<&EventRecord>);

    /// Something a person should know, outside the records.
    fn note(&mut self, note: Note<'_>);

    /// Get ready for the event, and say so through `reply`, from any thread. `time_left` is what remains until the
    /// event may start.
    fn prepare(&mut self, event: &EventRecord, time_left: Option<Duration>, reply: Reply);

    /// The event moved, or the clock was set: so much time is left now, whether or not it is being prepared for.
    fn rescheduled(&mut self, event: &EventRecord, time_left: Option<Duration>);

    /// Take the machine back into service, and say so through `reply`, from any thread. So many other events of this
    /// machine are `still_open`, announced or under way: it may have to stay out of service for one of them.
    fn recover(&mut self, event: &EventRecord, still_open: usize, reply: Reply);

    /// The watch goes round its loop, several times for each poll. It comes round again within the time that is given,
    /// unless something hangs.
    fn pulse(&mut self, pulse: Pulse<'_>) -> Option<Duration> {
        let _ = pulse;
        None
    }

    /// An event changed, and was recorded. Run what is to be run for that, if anything is, and say so through `debt` when
    /// it has ended, from any thread; the answer is whether anything runs. The watch does not end by itself before that,
    /// and one that was stopped or killed before says it again when it starts anew.
    fn changed(&mut self, change: Change, event: &EventRecord, time_left: Option<Duration>, debt: Debt) -> bool {
        let _ = (change, event, time_left, debt);
        false
    }
}

/// How a watch is doing.
#[derive(Clone, Copy, Debug)]
pub struct Pulse<'a> {
    /// Whether a document was read since the start.
    pub answered: bool,
    /// How many events are followed.
    pub events: usize,
    /// Why the last poll failed, if it did.
    pub trouble: Option<&'a str>,
}

/// Something a person should know, outside the records.
#[derive(Clone, Debug)]
pub enum Note<'a> {
    /// The machine's own name is known now.
    Named(&'a str),
    /// The machine's own name could not be asked; until it is known, everything is held.
    NameUnknown(&'a str),
    /// The state file was damaged and is set aside; the watch begins anew.
    StateDamaged(&'a str),
    /// The state file could not be written; what is in memory goes on.
    StateNotSaved(&'a str),
    /// The last run's state was taken up.
    Restored {
        /// How many events it followed.
        events: usize,
    },
    /// A poll or an approval failed.
    Failed(&'a str),
    /// A stale document is not believed.
    Stale,
    /// The wall clock was moved too far to be believed; deadlines go by the time as it was before.
    ClockDoubtful,
}

/// A host's way back to the watch.
#[derive(Clone, Debug)]
pub struct Reply {
    event_id: String,
    sender: Sender<Message>,
}

impl Reply {
    /// The preparation has ended; the record shows `outcome`.
    pub fn prepared(&self, preparation: Preparation, outcome: HookOutcome) {
        let _ = self.sender.send(Message::Prepared(self.event_id.clone(), preparation, outcome));
    }

    /// The recovery has ended; the record shows `outcome`.
    pub fn recovered(&self, outcome: HookOutcome) {
        let _ = self.sender.send(Message::Recovered(self.event_id.clone(), outcome));
    }
}

/// A host's way to say that what it had to run for a change has ended.
#[derive(Clone, Debug)]
pub struct Debt {
    number: u64,
    sender: Sender<Message>,
}

impl Debt {
    /// It has ended, however it did.
    pub fn paid(&self) {
        let _ = self.sender.send(Message::Paid(self.number));
    }
}

/// Reaches a watch from another thread, or from a signal.
#[derive(Clone, Debug)]
pub struct Handle(Sender<Message>);

impl Handle {
    /// Ends the watch soon; its state is saved.
    pub fn stop(&self) {
        let _ = self.0.send(Message::Stop);
    }
}

/// Why a watch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// An event was seen, and none is left.
    Idle,
    /// The polls that were asked for are done; whether any of them succeeded.
    Polls {
        /// Whether at least one was answered with a document, or with "nothing new".
        answered: bool,
    },
    /// It was stopped.
    Stopped,
}

enum Message {
    Answer(Result<Answer, Failure>),
    Name(Result<String, String>),
    Prepared(String, Preparation, HookOutcome),
    Recovered(String, HookOutcome),
    Paid(u64),
    Stop,
}

/// A request for the thread that talks to the metadata service.
enum Job {
    Get(Duration),
    Post(Vec<u8>, Duration),
}

/// One watch: a session, and all that it needs around it.
pub struct Watch {
    session: Box<Session<EVENTS_MAX>>,
    options: Options,
    clock: Clock,
    /// How far the clocks were apart when the deadlines of preparations were set last.
    skew_ms: i64,
    /// Whether the wall clock is believed no longer, which was told.
    clock_is_doubtful: bool,
    imds: Imds,
    jobs: Sender<Job>,
    sender: Sender<Message>,
    receiver: Receiver<Message>,
    state_file: Option<StateFile>,
    /// The session's snapshot, and the one that the state file holds.
    snapshot: Vec<u8>,
    saved: Vec<u8>,
    /// The events that are followed, with all their members, by id in lower case.
    events: HashMap<String, EventRecord>,
    /// What was to be run for changes and has not ended, by numbers of this run.
    owed: BTreeMap<u64, Owed>,
    next_debt: u64,
    /// Whether the state file does not hold it yet.
    owed_is_new: bool,
    /// When the state file is tried again, where it could not be written.
    save_retry: Option<Instant>,
    /// Why it could not be written, and when that was told.
    save_trouble: Option<(String, Instant)>,
    /// The document that was read last, for the places of problems.
    body: Vec<u8>,
    /// The ids in the approval under way.
    posted: Vec<String>,
    /// Notes that arose before there was a host to tell.
    first_notes: Vec<String>,
    restored: Option<usize>,
    polls: u64,
    answered: bool,
    /// Why the last poll failed, if it did.
    trouble: Option<String>,
    name_retry: Option<(Instant, Duration)>,
    /// Why the name could not be asked the last time.
    name_trouble: String,
}

impl Watch {
    /// Makes a watch ready; with a state file it takes up where the last run left off.
    ///
    /// # Errors
    /// A sentence that says what is wrong and what to do: options out of range, or a state file that cannot be used.
    pub fn new(imds: Imds, options: Options, state_file: Option<(StateFile, Found)>) -> Result<Self, String> {
        let names: Vec<&str> = options.vm_names.iter().map(String::as_str).collect();
        let config = SessionConfig {
            names: names_for(&names, &options.api_version),
            policy: options.policy.clone(),
            interval_ms: u32::try_from(options.interval.as_millis()).unwrap_or(u32::MAX),
            dry_run: options.dry_run,
            seed: seed(),
        };
        let no_thread = |error: io::Error| format!("the system has no room for another thread: {error}");
        // The session is not small, and passes through a stack more than once: through one that is given back.
        let made = thread::scope(|scope| {
            let maker = thread::Builder::new().spawn_scoped(scope, || Session::new(&config).map(Box::new))?;
            Ok(maker.join().unwrap_or_else(|panic| resume_unwind(panic)))
        });
        let session = made.map_err(no_thread)?.map_err(|error| error.to_string())?;
        let (sender, receiver) = mpsc::channel();
        let jobs = start_transport(imds.clone(), sender.clone()).map_err(no_thread)?;
        let clock = Clock::at_speed(imds.speed());
        let mut watch = Self {
            session,
            options,
            clock,
            skew_ms: clock.skew_ms(),
            clock_is_doubtful: false,
            imds,
            jobs,
            sender,
            receiver,
            state_file: None,
            snapshot: Vec::new(),
            saved: Vec::new(),
            events: HashMap::new(),
            owed: BTreeMap::new(),
            next_debt: 0,
            owed_is_new: false,
            save_retry: None,
            save_trouble: None,
            body: Vec::new(),
            posted: Vec::new(),
            first_notes: Vec::new(),
            restored: None,
            polls: 0,
            answered: false,
            trouble: None,
            name_retry: None,
            name_trouble: String::new(),
        };
        if let Some((file, found)) = state_file {
            watch.take_up(&file, found)?;
            // A dry run does nothing that a later run should believe to be done.
            if !watch.options.dry_run {
                // Whether it can be written is better known now than at the first event.
                watch.take_snapshot();
                file.save(&watch.state())
                    .map_err(|error| format!("cannot write the state file {}: {error}", file.path().display()))?;
                watch.saved.clone_from(&watch.snapshot);
                watch.owed_is_new = false;
                watch.state_file = Some(file);
            }
        }
        Ok(watch)
    }

    fn take_up(&mut self, file: &StateFile, found: Found) -> Result<(), String> {
        let found = match found {
            Found::State(state) => match self.session.restore(&state.session) {
                Ok(()) => {
                    self.restored = Some(state.events.len());
                    self.events = state.events.into_iter().map(|event| (key(&event.event_id), event)).collect();
                    self.owed = (0..).zip(state.owed).collect();
                    return Ok(());
                }
                Err(error) => file.set_aside(&error.to_string())?,
            },
            other => other,
        };
        if let Found::Damaged { set_aside, why } = found {
            let note = format!("the state file was damaged ({why}); it is kept as {}", set_aside.display());
            self.first_notes.push(note);
        }
        Ok(())
    }

    /// A way to reach this watch from elsewhere.
    pub fn handle(&self) -> Handle {
        Handle(self.sender.clone())
    }

    /// Watches until there is a reason to end.
    pub fn run(&mut self, host: &mut dyn Host) -> Ended {
        for note in std::mem::take(&mut self.first_notes) {
            host.note(Note::StateDamaged(&note));
        }
        if let Some(events) = self.restored.take() {
            host.note(Note::Restored { events });
        }
        for owed in std::mem::take(&mut self.owed).into_values() {
            self.run_owed(owed, host);
        }
        if self.options.vm_names.is_empty() {
            // Asked once before the first poll, so that the first decision already knows whose events it sees.
            self.ask_name();
            while let Ok(message) = self.receiver.recv() {
                let answered = matches!(message, Message::Name(_));
                if let Some(ended) = self.on_message(message, host) {
                    return ended;
                }
                if answered {
                    break;
                }
            }
        }
        loop {
            if let Some(ended) = self.step(host) {
                self.save_retry = None;
                self.save(host);
                return ended;
            }
        }
    }

    /// Does what the session says next, or waits; why the watch ends, if it does.
    fn step(&mut self, host: &mut dyn Host) -> Option<Ended> {
        // All at once, so that what many commands that end together change is written to the state file once.
        while let Ok(message) = self.receiver.try_recv() {
            if let Some(ended) = self.on_message(message, host) {
                return Some(ended);
            }
        }
        let round = self.pulse(host);
        // Looked at before the next poll, which may be due already when the answer to the last one is slow.
        let idle = !self.session.awaits_answer() && self.session.is_idle() && self.session.has_seen_event();
        if self.options.until_idle && idle && self.owed.is_empty() {
            return Some(Ended::Idle);
        }
        self.keep_deadlines(host);
        let now = self.clock.now();
        let time_of_day = self.clock.time_of_day();
        let polls_done = self.polls_done();
        match self.session.next(now) {
            Step::Report(Report::Change { change, event }) => {
                let event = known(&self.events, event);
                self.on_change(change, &event, host);
            }
            Step::Report(report) => {
                let event = match report {
                    Report::Decision { event, .. } => self.events.get(&key(event.event_id().as_str())),
                    _ => None,
                };
                host.record(&Record::from_report(&report, Some(&self.body)).at(time_of_day.seconds()), event);
            }
            Step::Prepare { event } => {
                let event = known(&self.events, event);
                self.save(host);
                let reply = self.reply(&event);
                host.prepare(&event, time_left(event.not_before, time_of_day), reply);
            }
            Step::Recover { event } => {
                let event = known(&self.events, event);
                self.save(host);
                let still_open = self.session.events().filter(|event| event.mine() == Some(true) && !event.is_gone());
                let still_open = still_open.count();
                let reply = self.reply(&event);
                if self.options.dry_run {
                    reply.recovered(HookOutcome::DryRun);
                } else {
                    host.recover(&event, still_open, reply);
                }
            }
            // The last poll may be so long ago by now that the next one is due without a pause.
            Step::Get { .. } if polls_done => return Some(self.finish(host)),
            Step::Get { timeout_ms } => {
                let timeout = self.options.timeout_of(timeout_ms);
                let job = Job::Get(timeout);
                self.polls += 1;
                self.save(host);
                let _ = self.jobs.send(job);
            }
            Step::Post { body, timeout_ms } => {
                let job = Job::Post(body.to_vec(), self.options.timeout_of(timeout_ms));
                self.posted = self.session.posted().map(ToString::to_string).collect();
                self.save(host);
                let _ = self.jobs.send(job);
            }
            Step::Wait { until } => return self.wait(until, round, host),
        }
        None
    }

    /// Commands are timed by a clock that stands still with the machine. Once the time of day and that clock have come
    /// apart, less or more time is left than the preparations under way were given.
    fn keep_deadlines(&mut self, host: &mut dyn Host) {
        let doubtful = self.clock.is_doubtful();
        if doubtful && !self.clock_is_doubtful {
            host.note(Note::ClockDoubtful);
        }
        self.clock_is_doubtful = doubtful;
        let skew_ms = self.clock.skew_ms();
        if skew_ms.abs_diff(self.skew_ms) < CLOCKS_APART_MS {
            return;
        }
        self.skew_ms = skew_ms;
        let time_of_day = self.clock.time_of_day();
        for event in self.events.values().filter(|event| event.not_before.is_some()) {
            host.rescheduled(event, time_left(event.not_before, time_of_day));
        }
    }

    fn pulse(&self, host: &mut dyn Host) -> Option<Duration> {
        host.pulse(Pulse { answered: self.answered, events: self.events.len(), trouble: self.trouble.as_deref() })
    }

    fn on_change(&mut self, change: Change, event: &EventRecord, host: &mut dyn Host) {
        if change == Change::Rescheduled {
            host.rescheduled(event, time_left(event.not_before, self.clock.time_of_day()));
        }
        let names = event.resource_names();
        let record = Record::Change { change, event: event.members(names.as_deref()) };
        host.record(&record.at(self.clock.time_of_day().seconds()), Some(event));
        // It is kept together with the change having been told: a crash before that tells and runs both again.
        self.run_owed(Owed { change, event: event.clone() }, host);
    }

    fn run_owed(&mut self, owed: Owed, host: &mut dyn Host) {
        let number = self.next_debt;
        self.next_debt += 1;
        let debt = Debt { number, sender: self.sender.clone() };
        let left = time_left(owed.event.not_before, self.clock.time_of_day());
        if host.changed(owed.change, &owed.event, left, debt) {
            self.owed.insert(number, owed);
        }
        self.owed_is_new = true;
    }

    fn wait(&mut self, until: UnixMillis, round: Option<Duration>, host: &mut dyn Host) -> Option<Ended> {
        self.save(host);
        self.forget_the_gone();
        if !self.session.awaits_answer() && self.polls_done() {
            return Some(self.finish(host));
        }
        let mut wait = self.clock.real(Duration::from_millis(until.millis_since(self.clock.now())));
        if let Some((at, _)) = self.name_retry {
            let left = at.saturating_duration_since(Instant::now());
            if left.is_zero() {
                self.ask_name();
            } else {
                wait = wait.min(left);
            }
        }
        match self.receiver.recv_timeout(round.map_or(wait, |round| wait.min(round))) {
            Ok(message) => self.on_message(message, host),
            // This watch holds a sender itself, so the channel stays open.
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => None,
        }
    }

    fn polls_done(&self) -> bool {
        self.options.max_polls.is_some_and(|max| self.polls >= max)
    }

    /// The polls are done: waits, without another one, for what the watch should not end before.
    fn finish(&mut self, host: &mut dyn Host) -> Ended {
        while !self.owed.is_empty() {
            let round = self.pulse(host).unwrap_or(Duration::from_secs(3600));
            let Ok(message) = self.receiver.recv_timeout(round) else { continue };
            if let Some(ended) = self.on_message(message, host) {
                return ended;
            }
        }
        Ended::Polls { answered: self.answered }
    }

    fn on_message(&mut self, message: Message, host: &mut dyn Host) -> Option<Ended> {
        match message {
            Message::Answer(answer) => self.on_answer(answer, host),
            Message::Name(name) => self.on_name(name, host),
            Message::Prepared(event_id, preparation, outcome) => {
                if self.session.prepared(&event_id, preparation) {
                    self.save(host);
                    let event = self.events.get(&key(&event_id));
                    let record = Record::Prepare { event_id: Text::plain(&event_id), outcome: Some(outcome) };
                    host.record(&record.at(self.clock.time_of_day().seconds()), event);
                }
            }
            Message::Recovered(event_id, outcome) => {
                if self.session.recovered(&event_id) {
                    // Told once it is kept, so that what was told is never done again.
                    self.save(host);
                    let event = self.events.get(&key(&event_id));
                    let record = Record::Recover {
                        event_id: Text::plain(&event_id),
                        event_ids: &[event_id.as_str()],
                        outcome: Some(outcome),
                    };
                    host.record(&record.at(self.clock.time_of_day().seconds()), event);
                }
            }
            Message::Paid(number) => {
                self.owed.remove(&number);
                // Written with what comes next, since a crash before that only runs it again.
                self.owed_is_new = true;
            }
            Message::Stop => return Some(Ended::Stopped),
        }
        None
    }

    fn on_answer(&mut self, answer: Result<Answer, Failure>, host: &mut dyn Host) {
        let now = self.clock.now();
        self.session.set_time_of_day_ahead(self.clock.time_of_day().0.saturating_sub(now.0));
        let (outcome, status, detail) = match answer {
            Ok(answer) => {
                let response = Response { status: answer.status, retry_after: answer.retry_after, body: &answer.body };
                let outcome = self.session.on_response_with(&response, now, |document| {
                    remember(&mut self.events, document, &self.options);
                });
                let status = answer.status;
                // What is refused for good is told with what the service says about it.
                let remark = matches!(status, 400..=499) && !matches!(status, 404 | 408 | 410 | 429);
                let remark = remark.then(|| imds::remark(&answer)).filter(|remark| !remark.is_empty());
                if outcome == RequestOutcome::Document {
                    self.body = answer.body;
                    // Before anything is told of it: what was told stays known, even if the event is gone when a crash
                    // is over.
                    self.save(host);
                }
                (outcome, Some(status), remark)
            }
            Err(failure) => (self.session.on_failure(failure.cause, now), None, Some(failure.detail)),
        };
        match outcome {
            RequestOutcome::Document | RequestOutcome::Unchanged => {
                self.answered = true;
                self.trouble = None;
            }
            RequestOutcome::Stale => host.note(Note::Stale),
            RequestOutcome::PollFailed { cause, retry_in_ms } => {
                let trouble = described(cause, detail);
                host.note(Note::Failed(&trouble));
                self.trouble = Some(trouble);
                let record = Record::PollFailed { cause: CauseWord(cause), retry_in_ms };
                host.record(&record.at(self.clock.time_of_day().seconds()), None);
            }
            RequestOutcome::Approved | RequestOutcome::ApprovalFailed { .. } => {
                if let RequestOutcome::ApprovalFailed { cause } = outcome {
                    host.note(Note::Failed(&format!("approval: {}", described(cause, detail))));
                }
                self.save(host);
                let posted = std::mem::take(&mut self.posted);
                let event_ids: Vec<_> = posted.iter().map(String::as_str).collect();
                let event = event_ids.first().and_then(|id| self.events.get(&key(id)));
                let record = Record::Approval { event_ids: &event_ids, status };
                host.record(&record.at(self.clock.time_of_day().seconds()), event);
            }
            _ => {}
        }
    }

    /// Forgets events that the session follows no longer.
    fn forget_the_gone(&mut self) {
        if self.events.len() > self.session.events().count() {
            let followed: HashSet<_> = self.session.events().map(|event| key(event.event_id().as_str())).collect();
            self.events.retain(|id, _| followed.contains(id));
        }
    }

    fn on_name(&mut self, name: Result<String, String>, host: &mut dyn Host) {
        match name {
            Ok(name) => {
                if self.session.set_names(names_for(&[&name], &self.options.api_version)).is_ok() {
                    host.note(Note::Named(&name));
                    self.options.vm_names = vec![name];
                    self.name_retry = None;
                    self.name_trouble.clear();
                }
            }
            Err(why) => {
                let pause = self.name_retry.map_or(NAME_RETRY[0], |(_, pause)| (pause * 2).min(NAME_RETRY[1]));
                self.name_retry = Some((Instant::now() + pause, pause));
                // Told once, not every few seconds for months.
                if self.name_trouble != why {
                    host.note(Note::NameUnknown(&why));
                    self.name_trouble = why;
                }
            }
        }
    }

    /// Asks for the name beside everything else; the answer comes as a message.
    fn ask_name(&mut self) {
        let (imds, sender, answer) = (self.imds.clone(), self.sender.clone(), self.sender.clone());
        if let Some((at, pause)) = &mut self.name_retry {
            // Not again before this question is answered.
            *at = Instant::now() + *pause + NAME_TIMEOUT * 2;
        }
        let asked = thread::Builder::new().spawn(move || {
            let _ = answer.send(Message::Name(imds.vm_name(NAME_TIMEOUT)));
        });
        if let Err(error) = asked {
            let _ = sender.send(Message::Name(Err(error.to_string())));
        }
    }

    fn reply(&self, event: &EventRecord) -> Reply {
        Reply { event_id: event.event_id.clone(), sender: self.sender.clone() }
    }

    fn take_snapshot(&mut self) {
        self.snapshot.resize(self.snapshot.capacity(), 0);
        let length = match self.session.snapshot(&mut self.snapshot) {
            Ok(length) => length,
            Err(small) => {
                self.snapshot.resize(small.needed, 0);
                self.session.snapshot(&mut self.snapshot).unwrap_or(0)
            }
        };
        self.snapshot.truncate(length);
    }

    fn state(&self) -> State {
        let mut events: Vec<_> = self.events.values().cloned().collect();
        events.sort_by(|one, other| one.event_id.cmp(&other.event_id));
        State { session: self.snapshot.clone(), events, owed: self.owed.values().cloned().collect() }
    }

    /// Writes the state file if there is anything new to remember. A file that cannot be written stops nothing: what is
    /// in memory is right, and it is tried again.
    fn save(&mut self, host: &mut dyn Host) {
        if self.state_file.is_none() || self.save_retry.is_some_and(|at| Instant::now() < at) {
            return;
        }
        self.take_snapshot();
        if self.snapshot == self.saved && !self.owed_is_new {
            return;
        }
        let state = self.state();
        let Some(file) = &self.state_file else { return };
        match file.save(&state) {
            Ok(()) => {
                self.saved = state.session;
                self.owed_is_new = false;
                self.save_retry = None;
                self.save_trouble = None;
            }
            Err(error) => {
                let why = format!("{}: {error}", file.path().display());
                let told = self.save_trouble.as_ref().filter(|(known, at)| *known == why && at.elapsed() < TELL_AGAIN);
                if told.is_none() {
                    host.note(Note::StateNotSaved(&why));
                    self.save_trouble = Some((why, Instant::now()));
                }
                self.save_retry = Some(Instant::now() + SAVE_RETRY);
            }
        }
    }
}

/// The thread that talks to the metadata service, one request at a time, so that a slow answer holds up nothing else.
fn start_transport(imds: Imds, sender: Sender<Message>) -> io::Result<Sender<Job>> {
    let (jobs, queue) = mpsc::channel();
    thread::Builder::new().spawn(move || {
        for job in queue {
            let answer = match job {
                Job::Get(timeout) => imds.events(None, timeout),
                Job::Post(body, timeout) => imds.approve(&body, timeout),
            };
            if sender.send(Message::Answer(answer)).is_err() {
                return;
            }
        }
    })?;
    Ok(jobs)
}

/// All that is known of an event: from its document, or at least what the session keeps.
fn known(events: &HashMap<String, EventRecord>, event: &scheduled_events_core::TrackedEvent) -> EventRecord {
    let Some(record) = events.get(&key(event.event_id().as_str())) else { return EventRecord::of_tracked(event) };
    let mut record = record.clone();
    record.update(event);
    record
}

/// Keeps what the newest document says of its events, the last known `NotBefore` among it.
fn remember(events: &mut HashMap<String, EventRecord>, document: &Document<'_>, options: &Options) {
    let names: Vec<&str> = options.vm_names.iter().map(String::as_str).collect();
    let names = names_for(&names, &options.api_version);
    for event in document.events() {
        let mut record = EventRecord::new(&event, names);
        let known = events.get(&key(&record.event_id));
        record.not_before = record.not_before.or_else(|| known.and_then(|known| known.not_before));
        events.insert(key(&record.event_id), record);
    }
}

/// Ids are compared without ASCII case, and long ones as the session shortens them.
pub(crate) fn key(event_id: &str) -> String {
    EventId::new(&Text::plain(event_id)).as_str().to_ascii_lowercase()
}

/// The names, as this API version's documents spell them.
pub fn names_for<'a>(names: &'a [&'a str], api_version: &str) -> VmNames<'a> {
    let names = VmNames::new(names);
    if api_version == UNDERSCORED_API_VERSION { names.underscored() } else { names }
}

fn time_left(not_before: Option<UnixSeconds>, now: UnixMillis) -> Option<Duration> {
    not_before.map(|start| Duration::from_millis(UnixMillis::from(start).millis_since(now)))
}

fn described(cause: Cause, detail: Option<String>) -> String {
    match detail {
        Some(detail) => format!("{cause} ({detail})"),
        None => cause.to_string(),
    }
}

/// Differs between machines and runs; it only spreads retries.
fn seed() -> u64 {
    let now = Clock::start().now().0.unsigned_abs();
    now.rotate_left(20) ^ u64::from(std::process::id())
}
