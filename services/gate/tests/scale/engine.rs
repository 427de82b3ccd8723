//! The engine of the simulation: registers in memory, reached through a network and a server with delays,
//! and that fail.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use scheduled_events_gate::driver::marks_prefix;
use scheduled_events_gate::engine::memory::MemoryEngine;
use scheduled_events_gate::engine::{
    Clock, Engine, EngineError, Reply, Revision, SplitRegister, SplitRegisters, SplitWrite, Swap,
    Versioned,
};
use scheduled_events_gate::register::{EventRegister, MarkRegister};
use tokio::time::{Instant, sleep, sleep_until};

use crate::random::Random;
use crate::world::World;

/// The server's time for an operation, one at a time: about what etcd needs on one processor.
const SERVICE_TIME: Duration = Duration::from_micros(100);
/// Its time for each byte: 50 MB a second, through JSON and base64.
const TIME_PER_BYTE: Duration = Duration::from_nanos(20);
/// How long the engine waits for a lost request, as the engine for etcd does.
const REQUEST_TIME: Duration = Duration::from_secs(3);

/// How many of a thousand operations fail, by kind of failure.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EngineFaults {
    /// The request is lost: nothing changes.
    pub(crate) request_lost: u64,
    /// The reply is lost: the change was made, but the machine does not know.
    pub(crate) reply_lost: u64,
    /// A read returns the value before the last one.
    pub(crate) stale: u64,
    /// The network takes up to three seconds.
    pub(crate) slow: u64,
}

/// The operations of the engine.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Count {
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    pub(crate) conflicts: u64,
    pub(crate) lists: u64,
    /// The bytes of keys and values, in both directions.
    pub(crate) bytes: u64,
    /// The bytes of values that were written: stores that keep old revisions grow by them.
    pub(crate) stored: u64,
    /// The bytes of the largest value, or of the largest answer.
    pub(crate) largest: usize,
}

impl Count {
    pub(crate) fn operations(self) -> u64 {
        self.reads + self.writes + self.lists
    }
}

/// The registers, shared by all machines' connections.
pub(crate) struct Server {
    registers: MemoryEngine,
    /// The previous value of each register.
    previous: RefCell<BTreeMap<String, Option<Versioned>>>,
    /// When the server has completed all requests.
    busy_until: Cell<Instant>,
    /// How long it has worked.
    pub(crate) busy: Cell<Duration>,
    pub(crate) faults: Cell<EngineFaults>,
    /// A defect: a write replaces the register whatever its revision is.
    pub(crate) has_plain_writes: Cell<bool>,
    random: RefCell<Random>,
    world: Rc<RefCell<World>>,
    /// The bytes of the last list.
    listed: Cell<usize>,
    /// By the first part of the key.
    counts: RefCell<BTreeMap<&'static str, Count>>,
}

impl Server {
    pub(crate) fn new(seed: u64, world: Rc<RefCell<World>>) -> Rc<Self> {
        Rc::new(Self {
            registers: MemoryEngine::default(),
            previous: RefCell::default(),
            busy_until: Cell::new(Instant::now()),
            busy: Cell::default(),
            faults: Cell::default(),
            has_plain_writes: Cell::default(),
            random: RefCell::new(Random::new(seed)),
            world,
            listed: Cell::default(),
            counts: RefCell::default(),
        })
    }

    pub(crate) fn count(&self, kind: &str) -> Count {
        self.counts.borrow().get(kind).copied().unwrap_or_default()
    }

    /// The registers without network and faults, for the checks at the end.
    pub(crate) async fn look(&self, prefix: &str) -> Vec<(String, Versioned)> {
        self.registers.list(prefix).await.expect("memory answers")
    }

    fn chance(&self, of_thousand: u64) -> bool {
        self.random.borrow_mut().below(1000) < of_thousand
    }

    fn counted(&self, key: &str, bytes: usize, change: impl FnOnce(&mut Count)) {
        let kind = ["events", "groups", "machines"]
            .into_iter()
            .find(|kind| key.starts_with(kind))
            .expect("a known kind");
        let mut counts = self.counts.borrow_mut();
        let count = counts.entry(kind).or_default();
        count.bytes += (key.len() + bytes) as u64;
        count.largest = count.largest.max(bytes);
        change(count);
    }

    /// One direction through the network.
    async fn network(&self) {
        let slow = self.chance(self.faults.get().slow);
        let micros = self
            .random
            .borrow_mut()
            .between(500, if slow { 3_000_000 } else { 2_500 });
        sleep(Duration::from_micros(micros)).await;
    }

    /// The request's way to the server, and its turn there.
    async fn request(&self, bytes: usize) -> Result<(), EngineError> {
        self.network().await;
        if self.chance(self.faults.get().request_lost) {
            sleep(REQUEST_TIME).await;
            return Err(EngineError("the request was lost".into()));
        }
        let bytes = u32::try_from(bytes).expect("a short value");
        let time = SERVICE_TIME + TIME_PER_BYTE * bytes;
        self.busy.set(self.busy.get() + time);
        let done = self.busy_until.get().max(Instant::now()) + time;
        self.busy_until.set(done);
        sleep_until(done).await;
        Ok(())
    }

    /// The reply's way back.
    async fn reply<T>(&self, value: T) -> Result<T, EngineError> {
        if self.chance(self.faults.get().reply_lost) {
            sleep(REQUEST_TIME).await;
            return Err(EngineError("the reply was lost".into()));
        }
        self.network().await;
        Ok(value)
    }

    /// Stores the value before a change, and checks whether the change is the decision about an
    /// event.
    async fn before_change(&self, key: &str) -> Option<Versioned> {
        self.registers.read(key).await.expect("memory answers")
    }

    async fn changed(&self, key: &str, before: Option<Versioned>, value: &str) {
        if key.starts_with("events/") {
            let register = |text: &str| {
                serde_json::from_str::<EventRegister>(text).expect("an event's register")
            };
            let was_decided = before
                .as_ref()
                .is_some_and(|before| register(&before.value).go.is_some());
            let new = register(value);
            if was_decided && new.go.is_none() && !new.was_decided {
                self.world
                    .borrow_mut()
                    .violated(&format!("S1: the decision in {key} was taken back"));
            }
            if new.go.is_some() && !was_decided {
                // Marks in registers of their own were written with it.
                let mut new = new;
                let prefix = marks_prefix(key);
                let marks = self.registers.list(&prefix).await.expect("memory answers");
                for (_, register) in marks {
                    let part: MarkRegister = serde_json::from_str(&register.value).expect("a mark");
                    new.marks.insert(part.machine.clone(), part.marked());
                }
                self.world.borrow_mut().decided(key, &new);
            }
        }
        self.previous.borrow_mut().insert(key.to_owned(), before);
    }
}

/// One machine's connection to the server.
pub(crate) struct Connection {
    pub(crate) server: Rc<Server>,
    /// Whether the engine has registers in parts.
    pub(crate) has_parts: bool,
}

impl Engine for Connection {
    fn read<'a>(&'a self, key: &'a str) -> Reply<'a, Option<Versioned>> {
        Box::pin(async move {
            let server = &*self.server;
            let size = server
                .registers
                .read(key)
                .await?
                .map_or(0, |found| found.value.len());
            server.request(size).await?;
            let mut found = server.registers.read(key).await?;
            if server.chance(server.faults.get().stale)
                && let Some(previous) = server.previous.borrow().get(key)
            {
                found.clone_from(previous);
            }
            let bytes = found.as_ref().map_or(0, |found| found.value.len());
            server.counted(key, bytes, |count| count.reads += 1);
            server.reply(found).await
        })
    }

    fn swap<'a>(
        &'a self,
        key: &'a str,
        expected: Option<&'a Revision>,
        value: &'a str,
    ) -> Reply<'a, Swap> {
        Box::pin(async move {
            let server = &*self.server;
            server.request(value.len()).await?;
            let before = server.before_change(key).await;
            let current = before.as_ref().map(|before| &before.revision);
            let expected = if server.has_plain_writes.get() {
                current
            } else {
                expected
            };
            let swap = server.registers.swap(key, expected, value).await?;
            let is_done = matches!(swap, Swap::Done(_));
            server.counted(key, value.len(), |count| {
                count.writes += 1;
                count.conflicts += u64::from(!is_done);
                count.stored += if is_done { value.len() as u64 } else { 0 };
            });
            if is_done {
                server.changed(key, before, value).await;
            }
            server.reply(swap).await
        })
    }

    fn delete<'a>(&'a self, key: &'a str, expected: &'a Revision) -> Reply<'a, bool> {
        Box::pin(async move {
            let server = &*self.server;
            server.request(0).await?;
            let before = server.before_change(key).await;
            let is_done = server.registers.delete(key, expected).await?;
            server.counted(key, 0, |count| count.writes += 1);
            if is_done {
                server.previous.borrow_mut().insert(key.to_owned(), before);
            }
            server.reply(is_done).await
        })
    }

    fn list<'a>(&'a self, prefix: &'a str) -> Reply<'a, Vec<(String, Versioned)>> {
        Box::pin(async move {
            let server = &*self.server;
            let size = |found: &[(String, Versioned)]| {
                found
                    .iter()
                    .map(|(key, register)| key.len() + register.value.len())
                    .sum::<usize>()
            };
            // Its time depends on the length of the last list.
            server.request(server.listed.get()).await?;
            let found = server.registers.list(prefix).await?;
            server.listed.set(size(&found));
            server.counted(prefix, size(&found), |count| count.lists += 1);
            server.reply(found).await
        })
    }

    fn clock(&self) -> Option<Clock> {
        self.server.registers.clock()
    }

    fn split_registers(&self) -> Option<&dyn SplitRegisters> {
        if self.has_parts { Some(self) } else { None }
    }
}

fn size(whole: &SplitRegister) -> usize {
    let register = whole
        .register
        .as_ref()
        .map_or(0, |register| register.value.len());
    register
        + whole
            .parts
            .iter()
            .map(|(key, value)| key.len() + value.len())
            .sum::<usize>()
}

impl SplitRegisters for Connection {
    fn read_parts<'a>(
        &'a self,
        key: &'a str,
        prefix: &'a str,
        since: Option<&'a Revision>,
    ) -> Reply<'a, SplitRegister> {
        Box::pin(async move {
            let server = &*self.server;
            let split = server
                .registers
                .split_registers()
                .expect("memory has parts");
            server
                .request(size(&split.read_parts(key, prefix, since).await?))
                .await?;
            let whole = split.read_parts(key, prefix, since).await?;
            server.counted(key, size(&whole), |count| count.reads += 1);
            server.reply(whole).await
        })
    }

    fn change_part<'a>(&'a self, change: SplitWrite<'a>) -> Reply<'a, Option<SplitRegister>> {
        Box::pin(async move {
            let server = &*self.server;
            let split = server
                .registers
                .split_registers()
                .expect("memory has parts");
            let written = change.value.map_or(0, str::len) + change.part.1.len();
            let read = split
                .read_parts(change.key, change.prefix, change.since)
                .await?;
            server.request(written + size(&read)).await?;
            let before = server.before_change(change.key).await;
            let whole = split.change_part(change).await?;
            server.counted(
                change.key,
                written + whole.as_ref().map_or(0, size),
                |count| {
                    count.writes += 1;
                    count.conflicts += u64::from(whole.is_none());
                    count.stored += if whole.is_some() { written as u64 } else { 0 };
                },
            );
            if let (Some(_), Some(value)) = (&whole, change.value) {
                server.changed(change.key, before, value).await;
            }
            server.reply(whole).await
        })
    }

    fn delete_parts<'a>(
        &'a self,
        key: &'a str,
        expected: &'a Revision,
        prefix: &'a str,
    ) -> Reply<'a, bool> {
        Box::pin(async move {
            let server = &*self.server;
            server.request(0).await?;
            let split = server
                .registers
                .split_registers()
                .expect("memory has parts");
            let is_done = split.delete_parts(key, expected, prefix).await?;
            server.counted(key, 0, |count| count.writes += 1);
            server.reply(is_done).await
        })
    }
}
