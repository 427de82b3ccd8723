//! The daemon of one machine: it answers the watcher's questions, and keeps the common registers up to date.
//!
//! `audit` is what it learns from the watcher, `server` the Unix socket, `message` what is said over it, `problems` what does not
//! work, `supervision` what systemd and Prometheus see. Five tasks run side by side, all on one thread: the server, the heartbeat, the reader of the audit
//! file, the upkeep, which frees slots, and the supervision.

mod audit;
pub mod message;
mod problems;
mod server;
mod supervision;
#[cfg(test)]
mod tests;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::config::{Config, GroupConfig};
use crate::engine::{Engine, EngineError, Revision, Swap};
use crate::gate::driver::{self, Involvement, Question};
use crate::gate::{Answer, Event, EventRegister, GroupRegister, MachineRegister, Mark, Part, Silence};
use crate::gate::{closed_windows, events_prefix, shares, store};
use crate::log;
use crate::names::Name;
use audit::Audit;
use message::Reply;
use problems::Problems;
pub use supervision::notify_stopping;
use supervision::{Metrics, Supervisor};

/// How long an answer may take. The watcher waits for ten seconds.
const ANSWER_TIME: Duration = Duration::from_secs(8);

/// How often the audit file is looked at.
const AUDIT_INTERVAL: Duration = Duration::from_millis(250);

/// A watcher asks again after five seconds. One that did not ask for so long does not wait for an approval any more.
const ASKED_AGAIN_WITHIN: Duration = Duration::from_secs(20);

/// How long the register of an event stays after its end, for people to look at.
const EVENT_KEPT: Duration = Duration::from_secs(15 * 60);

/// How often all registers of events are looked through for those that nobody has deleted, or whose machines are all forgotten.
const CLEAN_UP_INTERVAL: Duration = Duration::from_secs(15 * 60);

/// So many ids of events that started without a decision are kept.
const FORCED_KEPT: usize = 32;

/// The daemon of one machine.
pub struct Daemon {
    config: Config,
    machine: Name,
    zone: Option<String>,
    engine: Box<dyn Engine>,
    /// The events that were asked about, by the key of their register.
    events: RefCell<HashMap<String, Rc<Asked>>>,
    audit: RefCell<Audit>,
    silence: RefCell<Silence>,
    /// The machines that have a register.
    known: RefCell<Vec<MachineRegister>>,
    /// All of them could be read the last time.
    knows_all: Cell<bool>,
    started_at: Instant,
    /// The marks that an earlier process of this machine made were looked for.
    has_adopted: Cell<bool>,
    /// The registers of events none of whose machines had a register at the last look, by key.
    abandoned: RefCell<HashMap<String, Revision>>,
    beat: Cell<u64>,
    /// The last heartbeat of this process is `beat`, for certain: the reply to it was not lost.
    knows_beat: Cell<bool>,
    /// Events of this machine that started without a decision of the gate; `None`: its register was not read yet.
    forced: RefCell<Option<Forced>>,
    /// When the reader of the audit file and the upkeep came round last.
    rounds: [Cell<Instant>; 2],
    problems: Problems,
}

/// Events that started without a decision of the gate: how many, and the last ones.
#[derive(Clone, Default)]
struct Forced {
    count: u64,
    events: Vec<String>,
}

/// An event that the watcher asked about.
struct Asked {
    event_id: String,
    involvement: Mutex<Involvement>,
    questioned_at: Cell<Instant>,
    /// The last answer, for people.
    answer: RefCell<String>,
    /// The event was over for this machine at the last look.
    was_over: Cell<bool>,
}

impl Daemon {
    /// A daemon for this machine.
    pub fn new(config: Config, machine: Name, zone: Option<String>, engine: Box<dyn Engine>) -> Rc<Self> {
        let audit = RefCell::new(Audit::new(&config.audit));
        let silence = RefCell::new(Silence::new(config.heartbeat));
        Rc::new(Self {
            config,
            machine,
            zone,
            engine,
            events: RefCell::default(),
            audit,
            silence,
            known: RefCell::default(),
            knows_all: Cell::new(false),
            started_at: Instant::now(),
            has_adopted: Cell::new(false),
            abandoned: RefCell::default(),
            beat: Cell::new(0),
            knows_beat: Cell::new(false),
            forced: RefCell::default(),
            rounds: [Cell::new(Instant::now()), Cell::new(Instant::now())],
            problems: Problems::default(),
        })
    }

    /// Where the daemon is asked.
    pub fn socket(&self) -> &Path {
        &self.config.socket
    }

    /// Runs until the socket cannot be served any more.
    ///
    /// # Errors
    /// A sentence: the socket cannot be made.
    pub async fn run(self: Rc<Self>, ready: impl FnOnce()) -> Result<(), String> {
        let listener = server::listen(&self.config.socket)?;
        // An answer may depend on how many machines there are. That to a `Preempt` does not, so a store that hangs must not hold
        // it up.
        let looked = timeout(ANSWER_TIME, self.look_at_machines()).await;
        self.problems.report("the machines", looked.unwrap_or_else(|_| Err(EngineError("it does not answer".into()))));
        ready();
        tokio::select! {
            result = server::serve(self.clone(), listener) => result,
            () = self.maintain() => Ok(()),
            () = self.supervise_for_ever() => Ok(()),
        }
    }

    /// Raises the heartbeat, reads the audit file and keeps the common registers up to date, for ever: all that [`Self::run`]
    /// does besides serving the socket.
    pub async fn maintain(&self) {
        tokio::select! {
            () = self.beat_for_ever() => {}
            () = self.read_audit_for_ever() => {}
            () = self.keep_up_for_ever() => {}
        }
    }

    /// Answers a question, within eight seconds.
    ///
    /// # Errors
    /// Why there is no answer: the event does not affect this machine, or the engine does not answer.
    pub async fn answer(&self, question: Question, event: Event) -> Result<Answer, String> {
        if !event.resources.contains(&self.machine) {
            return Err(format!("the event does not affect {}", self.machine));
        }
        let end = Instant::now() + ANSWER_TIME;
        let no_answer = || format!("the engine did not answer within {} s", ANSWER_TIME.as_secs());
        if self.known.borrow().is_empty() && !event.is_urgent {
            // The engine did not answer until now. The answer depends on how many machines there are, and on their zones; that to
            // a `Preempt` does not.
            let looked = timeout_at(end, self.look_at_machines()).await.map_err(|_| no_answer())?;
            if self.known.borrow().is_empty() {
                return Err(looked.map_or_else(|error| error.to_string(), |()| no_answer()));
            }
        }
        let part = {
            let (silence, now) = (self.silence.borrow(), Instant::now());
            let is_alive = |name: &Name| silence.is_beating(name, self.config.silent_after, now);
            let shares = shares(&self.config.groups, &event, &self.known.borrow(), is_alive);
            let closed = closed_windows(&self.config.groups, &event, Timestamp::now());
            Part { closed, ..Part::new(self.machine.clone(), event, shares, self.config.take_over_after) }
        };
        let key = part.event.key();
        // The watcher records before it asks. A file that cannot be read is reported by the task that reads it.
        let _ = self.audit.borrow_mut().read_new(Instant::now());
        if self.audit.borrow().has_returned(&part.event.id) {
            let forgotten = timeout_at(end, self.forget_decision(&part.event.id, &key)).await;
            forgotten.map_err(|_| no_answer())?.map_err(|error| error.to_string())?;
        }
        let asked = self.events.borrow_mut().entry(key).or_insert_with(|| Asked::new(part.clone())).clone();
        asked.questioned_at.set(Instant::now());
        let answer = timeout_at(end, async {
            let mut involvement = asked.involvement.lock().await;
            involvement.set_shares(&part);
            let answer = involvement.ask(&*self.engine, question).await?;
            if (question, &answer) == (Question::Prepare, &Answer::Open) {
                self.audit.borrow_mut().expect_preparation(&asked.event_id);
            }
            Ok::<_, EngineError>(answer)
        });
        let answer = match answer.await {
            Ok(answer) => answer.map_err(|error| error.to_string()),
            Err(_) => Err(no_answer()),
        };
        *asked.answer.borrow_mut() = Reply::of(&answer).to_string();
        answer
    }

    /// An event that was over came back under its id. What was decided does not count: machines have recovered since.
    async fn forget_decision(&self, id: &str, key: &str) -> Result<(), EngineError> {
        let (register, revision) = store::read::<EventRegister>(&*self.engine, key).await?;
        if let Some(revision) = revision.filter(|_| register.go.is_some()) {
            self.delete_event(key, &revision).await?;
        }
        self.events.borrow_mut().retain(|_, asked| asked.event_id != id);
        self.audit.borrow_mut().forget_return(id);
        Ok(())
    }

    async fn beat_for_ever(&self) {
        loop {
            self.problems.report("the heartbeat", self.beat_once().await);
            sleep(self.config.heartbeat).await;
        }
    }

    async fn beat_once(&self) -> Result<(), EngineError> {
        let key = machine_key(&self.machine);
        let (found, revision) = store::read::<MachineRegister>(&*self.engine, &key).await?;
        self.forced.borrow_mut().get_or_insert_with(|| Forced::of(&found));
        let beat = found.beat.max(self.beat.get()) + 1;
        let register = MachineRegister { beat, ..self.register() };
        let is_raised = self.knows_beat.replace(false) && found.beat > self.beat.get();
        let swap = store::swap(&*self.engine, &key, revision.as_ref(), &register).await?;
        let alone = if is_raised || swap == Swap::Conflict {
            Err(EngineError(format!("another process raises the heartbeat of {} too", self.machine)))
        } else {
            Ok(())
        };
        self.problems.report("the machine's name", alone);
        if swap != Swap::Conflict {
            self.beat.set(beat);
            self.knows_beat.set(true);
        }
        Ok(())
    }

    /// What this machine's register says, but for the beat.
    fn register(&self) -> MachineRegister {
        let forced = self.forced.borrow().clone().unwrap_or_default();
        MachineRegister {
            machine: Some(self.machine.clone()),
            beat: 0,
            zone: self.zone.clone(),
            forced: forced.count,
            forced_events: forced.events,
            at: driver::now(),
        }
    }

    async fn read_audit_for_ever(&self) {
        loop {
            let result = self.audit.borrow_mut().read_new(Instant::now());
            let result = match result {
                Ok(()) if !self.audit.borrow().exists() => Err("it does not exist yet: no slot is freed".to_owned()),
                result => result.map_err(|error| error.to_string()),
            };
            let name = self.config.audit.display();
            self.problems.report("the audit file", result.map_err(|why| EngineError(format!("{name}: {why}"))));
            self.problems.report("forced events", self.count_forced().await);
            self.rounds[0].set(Instant::now());
            sleep(AUDIT_INTERVAL).await;
        }
    }

    /// Counts the events of this machine that Azure started although the gate had not decided: one in each round, since the store
    /// may be slow and the audit file long.
    async fn count_forced(&self) -> Result<(), EngineError> {
        let Some(id) = self.audit.borrow().started.front().cloned() else { return Ok(()) };
        if self.forced.borrow().is_none() {
            let (found, _) = store::read::<MachineRegister>(&*self.engine, &machine_key(&self.machine)).await?;
            self.forced.borrow_mut().get_or_insert_with(|| Forced::of(&found));
        }
        let mut registers = Vec::new();
        for (key, found) in self.engine.list(&events_prefix(&id)).await? {
            registers.push(store::decode::<EventRegister>(&key, &found.value)?);
        }
        // A decision precedes the start. Registers of events that are over are deleted: nothing is known of those.
        let is_decided = registers.iter().any(|register| register.go.is_some());
        let is_unknown = registers.is_empty() && self.audit.borrow().over_since(&id).is_some();
        let is_new = !is_decided && !is_unknown;
        if is_new && self.forced.borrow_mut().as_mut().is_some_and(|forced| forced.add(&id)) {
            let id = id.escape_debug();
            log::line(&format!(
                "warning: {id} was started without a decision of the gate; `status` counts it as forced"
            ));
        }
        self.audit.borrow_mut().started.pop_front();
        Ok(())
    }

    /// Reports to systemd and writes the metrics file.
    async fn supervise_for_ever(&self) {
        let mut supervisor = Supervisor::new();
        let mut written: Option<(Metrics, Instant)> = None;
        loop {
            supervisor.show(&self.summary());
            let oldest = self.rounds.iter().map(|round| round.get().elapsed()).max();
            supervisor.keep_alive(oldest.unwrap_or_default());
            let metrics = self.metrics();
            // Written again when nothing has changed, its time shows that the daemon runs.
            let is_due =
                |(before, at): &(Metrics, Instant)| *before != metrics || at.elapsed() >= self.config.heartbeat;
            if let Some(path) = &self.config.metrics_file
                && written.as_ref().is_none_or(is_due)
            {
                written = Some((metrics, Instant::now()));
                let result = metrics.write(path);
                self.problems.report(
                    "the metrics file",
                    result.map_err(|why| EngineError(format!("{}: {why}", path.display()))),
                );
            }
            sleep(supervisor.interval()).await;
        }
    }

    /// The events that were asked about and are not over, and the last answer about each.
    fn open_events(&self) -> Vec<(String, String)> {
        let events = self.events.borrow();
        let open = events.values().filter(|asked| self.audit.borrow().over_since(&asked.event_id).is_none());
        open.map(|asked| (asked.event_id.clone(), asked.answer.borrow().clone())).collect()
    }

    /// What the daemon does, in one line.
    fn summary(&self) -> String {
        let open = self.open_events();
        let events = match open.len() {
            0 => "no events".to_owned(),
            1 => "1 event".to_owned(),
            count => format!("{count} events"),
        };
        let answers = open.iter().map(|(id, answer)| format!("; {}: {answer}", id.escape_debug()));
        std::iter::once(events).chain(self.problems.texts()).chain(answers).collect()
    }

    fn metrics(&self) -> Metrics {
        Metrics {
            forced: self.forced.borrow().as_ref().map_or(0, |forced| forced.count),
            events: self.open_events().len(),
            engine_up: !self.problems.has(&["the heartbeat", "the machines", "the groups"]),
        }
    }

    /// Frees slots as soon as they may be freed.
    async fn keep_up_for_ever(&self) {
        let (mut last_look, mut last_clean_up) = (None, Instant::now());
        loop {
            // What other machines do is looked at with every heartbeat, and what this one did at once.
            let is_due = last_look.is_none_or(|at: Instant| at.elapsed() >= self.config.heartbeat);
            if is_due {
                last_look = Some(Instant::now());
                self.problems.report("the machines", self.look_at_machines().await);
            }
            if self.has_own_to_free() || is_due {
                self.problems.report("the groups", self.look_at_groups().await);
            }
            self.problems.report("the marks", self.withdraw_marks().await);
            self.problems.report("the events", self.forget_events().await);
            if last_clean_up.elapsed() >= CLEAN_UP_INTERVAL {
                last_clean_up = Instant::now();
                self.problems.report("past events", self.delete_past_events().await);
            }
            self.rounds[1].set(Instant::now());
            sleep(AUDIT_INTERVAL).await;
        }
    }

    async fn look_at_machines(&self) -> Result<(), EngineError> {
        let now = Instant::now();
        let (mut known, mut result) = (Vec::new(), Ok(()));
        self.knows_all.set(false);
        for (key, found) in self.engine.list_changes("machines/").await? {
            match store::decode::<MachineRegister>(&key, &found.value) {
                Ok(register) => {
                    let Some(machine) = &register.machine else { continue };
                    self.silence.borrow_mut().observe(machine, Some(&found.revision), now);
                    known.push(register);
                }
                // One that cannot be read must not hold up the others.
                Err(problem) => result = result.and(Err(problem)),
            }
        }
        // This machine's own register may not be written yet, and its zone counts from the first question on.
        known.retain(|register| register.machine.as_ref() != Some(&self.machine));
        known.push(self.register());
        *self.known.borrow_mut() = known;
        self.knows_all.set(result.is_ok());
        result
    }

    /// The machines that have a register.
    fn known_names(&self) -> BTreeSet<Name> {
        self.known.borrow().iter().filter_map(|known| known.machine.clone()).collect()
    }

    /// Whether an event that was asked about is over for this machine since the last call, so that its slots can be freed. What a
    /// pause or the engine prevents then is done with a heartbeat.
    fn has_own_to_free(&self) -> bool {
        let events: Vec<_> = self.events.borrow().values().cloned().collect();
        let ended = events.iter().filter(|asked| {
            let is_over = self.is_over(&asked.event_id, &self.machine, Duration::ZERO);
            !asked.was_over.replace(is_over) && is_over
        });
        ended.count() > 0
    }

    async fn look_at_groups(&self) -> Result<(), EngineError> {
        let (registers, problems) = store::list::<GroupRegister>(&*self.engine, "groups/").await?;
        let known = self.known_names();
        for (key, register) in registers {
            let group = key.strip_prefix("groups/").unwrap_or(&key).to_owned();
            let pause = self.group(&group).map_or(Duration::ZERO, |group| group.pause);
            for machine in register.held() {
                // A machine without a register has no daemon: it is as silent as one whose daemon has ended.
                if self.knows_all.get() && !known.contains(machine) {
                    self.silence.borrow_mut().observe(machine, None, Instant::now());
                }
            }
            let releases = register.releases(|id, machine| self.is_over(id, machine, pause));
            driver::change_group(&*self.engine, &group, &releases, register.held().len()).await?;
            for change in releases {
                log::line(&format!("{change} in the group {group}"));
            }
            let events: Vec<_> = self.events.borrow().values().cloned().collect();
            for asked in events {
                // Busy means that it is being asked, and will see for itself.
                if let Ok(mut involvement) = asked.involvement.try_lock() {
                    involvement.saw_group(&group, &register);
                }
            }
        }
        problems.into_iter().next().map_or(Ok(()), Err)
    }

    /// The configuration of a group's register.
    fn group(&self, register: &str) -> Option<&GroupConfig> {
        let name = register.split('/').next().unwrap_or_default();
        self.config.groups.iter().find(|group| group.is_named(name))
    }

    /// Whether an event is over and a machine does not need its slot any more: this one because it is back in service, another one
    /// because it is silent. Never because of the time alone.
    fn is_over(&self, id: &str, machine: &Name, pause: Duration) -> bool {
        let (now, audit) = (Instant::now(), self.audit.borrow());
        if *machine == self.machine {
            return audit.in_service_since(id, now).is_some_and(|since| now - since >= pause);
        }
        let silent_for = self.silence.borrow().silent_for(machine);
        audit.over_since(id).is_some() && silent_for.is_some_and(|silent| silent >= self.config.silent_after)
    }

    /// Looks for marks that an earlier process of this machine made. Nobody else withdraws them, should the watcher not ask again.
    async fn adopt_marks(&self) -> Result<(), EngineError> {
        if self.has_adopted.get() || self.started_at.elapsed() < ASKED_AGAIN_WITHIN {
            return Ok(());
        }
        let (registers, problems) = store::list::<EventRegister>(&*self.engine, "events/").await?;
        for (key, register) in registers {
            let is_open = register.go.is_none() && register.resources.contains(&self.machine);
            if !is_open || self.events.borrow().contains_key(&key) {
                continue;
            }
            let id = key.split('/').nth(1).unwrap_or_default();
            let duration = register.duration;
            let event = Event { duration, ..Event::new(id, &register.event_type, register.resources) };
            if event.key() == key {
                let part = Part::new(self.machine.clone(), event, Vec::new(), self.config.take_over_after);
                let mut involvement = Involvement::new(part);
                let answer = timeout(ANSWER_TIME, involvement.ask(&*self.engine, Question::Withdraw)).await;
                answer.map_err(|_| EngineError("it does not answer".into()))??;
            }
        }
        self.has_adopted.set(true);
        problems.into_iter().next().map_or(Ok(()), Err)
    }

    /// Withdraws this machine's mark where the watcher does not wait for an approval any more.
    async fn withdraw_marks(&self) -> Result<(), EngineError> {
        self.adopt_marks().await?;
        let events: Vec<_> = self.events.borrow().values().cloned().collect();
        for asked in events {
            let Ok(mut involvement) = asked.involvement.try_lock() else { continue };
            let is_back_early = self.audit.borrow().is_back_early(&asked.event_id);
            let is_over = self.audit.borrow().over_since(&asked.event_id).is_some();
            let is_waiting = !is_over && asked.questioned_at.get().elapsed() < ASKED_AGAIN_WITHIN;
            let is_ready = involvement.mark() == Some(Mark::Ready) && !involvement.is_decided();
            let question = match (is_back_early, is_waiting) {
                (true, _) if is_ready || involvement.has_slots() && !involvement.is_decided() => Question::StandDown,
                (false, false) if is_ready => Question::Withdraw,
                _ => continue,
            };
            let answer = timeout(ANSWER_TIME, involvement.ask(&*self.engine, question)).await;
            answer.map_err(|_| EngineError("it does not answer".into()))??;
        }
        Ok(())
    }

    /// Forgets events that are over, and deletes their registers some time later.
    async fn forget_events(&self) -> Result<(), EngineError> {
        let is_old = |id: &str| self.audit.borrow().over_since(id).is_some_and(|since| since.elapsed() >= EVENT_KEPT);
        let old = {
            let events = self.events.borrow();
            let old = events.iter().filter(|(_, asked)| is_old(&asked.event_id));
            old.map(|(key, _)| key.clone()).collect::<Vec<_>>()
        };
        for key in old {
            let (_, revision) = store::read::<EventRegister>(&*self.engine, &key).await?;
            if let Some(revision) = revision {
                self.delete_event(&key, &revision).await?;
            }
            self.events.borrow_mut().remove(&key);
        }
        Ok(())
    }

    /// Deletes the registers of events that are over although this process was never asked about them: their machines are gone, or
    /// their daemons were started again since. The audit file says that an event is over, or else all of its machines were
    /// forgotten by hand: then nobody changes its register, and it is not deleted before a second look. Never its age alone.
    async fn delete_past_events(&self) -> Result<(), EngineError> {
        let past: HashSet<_> = self.audit.borrow().over_for(EVENT_KEPT).map(events_prefix).collect();
        let known = self.known_names();
        let before = self.abandoned.take();
        for (key, found) in self.engine.list("events/").await? {
            // One that cannot be read is left as it is.
            let Ok(event) = store::decode::<EventRegister>(&key, &found.value) else { continue };
            let is_past = key.rfind('/').is_some_and(|end| past.contains(&key[..=end]));
            let is_abandoned = self.knows_all.get() && event.resources.is_disjoint(&known);
            if is_past || is_abandoned && before.get(&key) == Some(&found.revision) {
                self.delete_event(&key, &found.revision).await?;
            } else if is_abandoned {
                self.abandoned.borrow_mut().insert(key, found.revision);
            }
        }
        Ok(())
    }

    /// Deletes the register of an event and its marks, unless somebody has changed it meanwhile.
    async fn delete_event(&self, key: &str, revision: &Revision) -> Result<(), EngineError> {
        match self.engine.parts() {
            Some(parts) => parts.delete_parts(key, revision, &driver::marks_prefix(key)).await?,
            None => self.engine.delete(key, revision).await?,
        };
        Ok(())
    }
}

impl Forced {
    /// As a machine's register has them.
    fn of(register: &MachineRegister) -> Self {
        Self { count: register.forced, events: register.forced_events.clone() }
    }

    /// Counts an event, unless it was counted before.
    fn add(&mut self, id: &str) -> bool {
        if self.events.iter().any(|counted| counted == id) {
            return false;
        }
        self.count += 1;
        self.events.push(id.to_owned());
        let surplus = self.events.len().saturating_sub(FORCED_KEPT);
        self.events.drain(..surplus);
        true
    }
}

impl Asked {
    fn new(part: Part) -> Rc<Self> {
        Rc::new(Self {
            event_id: part.event.id.clone(),
            involvement: Mutex::new(Involvement::new(part)),
            questioned_at: Cell::new(Instant::now()),
            answer: RefCell::default(),
            was_over: Cell::new(false),
        })
    }
}

/// The key of a machine's register.
pub fn machine_key(machine: &Name) -> String {
    format!("machines/{}", machine.key())
}
