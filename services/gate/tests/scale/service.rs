//! Imitates Azure's metadata service: one document for all machines, approvals, and lost answers.

use std::cell::{Cell, RefCell};
use std::fmt::Write as _;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use scheduled_events_core::{Cause, UnixMillis};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};

use crate::random::Random;
use crate::world::{Status, World};

/// The time of day at which a simulation begins.
const EPOCH: i64 = 1_700_000_000_000;

/// An event of the scenario.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    pub(crate) id: String,
    pub(crate) resources: Vec<String>,
    /// After the beginning.
    pub(crate) appears: Duration,
    pub(crate) notice: Duration,
    pub(crate) started_for: Duration,
}

/// How many of a thousand requests fail, by kind of failure.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ServiceFaults {
    pub(crate) unavailable: u64,
    pub(crate) request_lost: u64,
    pub(crate) reply_lost: u64,
    /// The service returns the document before the newest one, for at most three seconds after a
    /// change.
    pub(crate) stale: u64,
}

struct Documents {
    incarnation: u64,
    current: Rc<[u8]>,
    previous: Rc<[u8]>,
    changed_at: Instant,
}

pub(crate) struct Service {
    scripts: Vec<Script>,
    world: Rc<RefCell<World>>,
    is_announced: RefCell<Vec<bool>>,
    is_started: RefCell<Vec<bool>>,
    documents: RefCell<Documents>,
    approved: Notify,
    pub(crate) faults: Cell<ServiceFaults>,
    random: RefCell<Random>,
    begin: Instant,
}

impl Service {
    pub(crate) fn new(scripts: Vec<Script>, world: Rc<RefCell<World>>, seed: u64) -> Rc<Self> {
        let flags = RefCell::new(vec![false; scripts.len()]);
        let empty: Rc<[u8]> = Rc::default();
        let documents = Documents {
            incarnation: 0,
            current: empty.clone(),
            previous: empty,
            changed_at: Instant::now(),
        };
        let service = Self {
            is_announced: flags.clone(),
            is_started: flags,
            scripts,
            world,
            documents: RefCell::new(documents),
            approved: Notify::new(),
            faults: Cell::default(),
            random: RefCell::new(Random::new(seed)),
            begin: Instant::now(),
        };
        service.write_document();
        Rc::new(service)
    }

    /// The time of day, which is also the clock of the sessions.
    pub(crate) fn now(&self) -> UnixMillis {
        UnixMillis(EPOCH + i64::try_from(self.begin.elapsed().as_millis()).expect("a short time"))
    }

    pub(crate) fn instant(&self, time: UnixMillis) -> Instant {
        // A wait without an end becomes a day.
        let millis = time.0.saturating_sub(EPOCH).clamp(0, 86_400_000);
        self.begin + Duration::from_millis(u64::try_from(millis).expect("not negative"))
    }

    pub(crate) fn script(&self, id: &str) -> &Script {
        self.scripts
            .iter()
            .find(|script| script.id.eq_ignore_ascii_case(id))
            .expect("an event of the scenario")
    }

    /// Plays an event from its announcement to its end.
    pub(crate) async fn play(&self, index: usize) {
        let script = &self.scripts[index];
        sleep_until(self.begin + script.appears).await;
        let not_before = Instant::now() + script.notice;
        {
            let mut world = self.world.borrow_mut();
            let event = &mut world.events[index];
            (event.announced_at, event.not_before) = (Some(Instant::now()), Some(not_before));
        }
        self.is_announced.borrow_mut()[index] = true;
        self.write_document();
        let is_approved = || self.world.borrow().events[index].status == Status::Approved;
        tokio::select! {
            () = sleep_until(not_before) => {}
            () = async { while !is_approved() { self.approved.notified().await } } => {
                sleep_until(not_before.min(Instant::now() + Duration::from_secs(5))).await;
            }
        }
        let approved = is_approved();
        if !approved {
            self.world.borrow_mut().set_status(index, Status::Forced);
        }
        self.is_started.borrow_mut()[index] = true;
        self.write_document();
        sleep(script.started_for).await;
        self.is_announced.borrow_mut()[index] = false;
        self.world
            .borrow_mut()
            .set_status(index, Status::Over { approved });
        self.write_document();
    }

    pub(crate) async fn get(&self) -> Result<(u16, Rc<[u8]>), Cause> {
        self.network().await;
        let faults = self.faults.get();
        if self.chance(faults.request_lost + faults.reply_lost) {
            sleep(Duration::from_secs(5)).await;
            return Err(Cause::Timeout);
        }
        if self.chance(faults.unavailable) {
            return Ok((503, Rc::default()));
        }
        let documents = self.documents.borrow();
        let is_new = documents.changed_at.elapsed() < Duration::from_secs(3);
        let is_stale = is_new && self.chance(faults.stale);
        Ok((
            200,
            if is_stale {
                documents.previous.clone()
            } else {
                documents.current.clone()
            },
        ))
    }

    pub(crate) async fn post(&self, body: &[u8]) -> Result<u16, Cause> {
        self.network().await;
        let faults = self.faults.get();
        if self.chance(faults.request_lost) {
            sleep(Duration::from_secs(5)).await;
            return Err(Cause::Timeout);
        }
        if self.chance(faults.unavailable) {
            return Ok(503);
        }
        let body: serde_json::Value = serde_json::from_slice(body).expect("a POST has JSON");
        for request in body["StartRequests"].as_array().expect("a list") {
            let id = request["EventId"].as_str().expect("an id");
            let mut world = self.world.borrow_mut();
            let index = world.event_index(id);
            world.approved(index);
        }
        self.approved.notify_waiters();
        if self.chance(faults.reply_lost) {
            sleep(Duration::from_secs(5)).await;
            return Err(Cause::Timeout);
        }
        self.network().await;
        Ok(200)
    }

    fn chance(&self, of_thousand: u64) -> bool {
        self.random.borrow_mut().below(1000) < of_thousand
    }

    async fn network(&self) {
        let micros = self.random.borrow_mut().between(500, 2_500);
        sleep(Duration::from_micros(micros)).await;
    }

    /// Compact JSON with the members of API version 2020-07-01, as the service writes it.
    fn write_document(&self) {
        let mut documents = self.documents.borrow_mut();
        documents.incarnation += 1;
        let mut text = format!(
            "{{\"DocumentIncarnation\":{},\"Events\":[",
            documents.incarnation
        );
        let mut separator = "";
        for (index, script) in self.scripts.iter().enumerate() {
            if !self.is_announced.borrow()[index] {
                continue;
            }
            let is_started = self.is_started.borrow()[index];
            let millis = u64::try_from(EPOCH).expect("after 1970");
            let world = self.world.borrow();
            let start = world.events[index].not_before.expect("it was announced") - self.begin;
            let start = SystemTime::UNIX_EPOCH + Duration::from_millis(millis) + start;
            let (status, not_before) = if is_started {
                ("Started", String::new())
            } else {
                ("Scheduled", httpdate::fmt_http_date(start))
            };
            let resources = serde_json::to_string(&script.resources).expect("names are JSON");
            // Writing to a string does not fail.
            let _ = write!(
                text,
                "{separator}{{\"EventId\":\"{}\",\"EventStatus\":\"{status}\",\"EventType\":\"Reboot\",\
                 \"ResourceType\":\"VirtualMachine\",\"Resources\":{resources},\"NotBefore\":\"{not_before}\",\
                 \"Description\":\"Host server is undergoing maintenance.\",\"EventSource\":\"Platform\",\
                 \"DurationInSeconds\":-1}}",
                script.id
            );
            separator = ",";
        }
        text.push_str("]}");
        documents.previous = std::mem::replace(&mut documents.current, text.into_bytes().into());
        documents.changed_at = Instant::now();
    }
}
