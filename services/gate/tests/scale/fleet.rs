//! All machines of a simulation, from the first poll to the last freed slot.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use rustix::process::{Resource, getrlimit, setrlimit};
use scheduled_events_common::names::Name;
use scheduled_events_gate::register::GroupRegister;
use tokio::task::{JoinSet, LocalSet};
use tokio::time::{Instant, sleep};

use crate::engine::{Count, EngineFaults, Server};
use crate::machine::{Machine, Victim};
use crate::random::Random;
use crate::service::{Script, Service, ServiceFaults};
use crate::world::{Status, World};

/// The faults.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    pub(crate) engine: EngineFaults,
    pub(crate) service: ServiceFaults,
    /// How many processes are killed and restarted.
    pub(crate) crashes: u64,
    /// How many machines end for good.
    pub(crate) deaths: u64,
    /// How long after the beginning the faults end.
    pub(crate) until: Duration,
}

/// A fleet and its events and faults.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) seed: u64,
    pub(crate) machines: usize,
    /// How many machines may be out of service together.
    pub(crate) limit: usize,
    /// The machines of each event, and when it appears.
    pub(crate) events: Vec<(Vec<usize>, Duration)>,
    pub(crate) notice: Duration,
    /// How long a preparation takes, in milliseconds.
    pub(crate) drain: (u64, u64),
    /// Whether the engine has registers in parts, as etcd.
    pub(crate) has_parts: bool,
    /// A defect: the engine's writes replace a register whatever its revision is.
    pub(crate) has_plain_writes: bool,
    pub(crate) faults: Faults,
}

impl Setup {
    /// One event that affects all machines, and no faults.
    pub(crate) fn one_event(machines: usize, seed: u64) -> Self {
        Self {
            seed,
            machines,
            limit: 1,
            events: vec![((0..machines).collect(), Duration::from_secs(30))],
            notice: Duration::from_secs(15 * 60),
            drain: (10_000, 60_000),
            has_parts: true,
            has_plain_writes: false,
            faults: Faults::default(),
        }
    }

    /// Some machines, some events and some faults.
    pub(crate) fn random(seed: u64) -> Self {
        let mut random = Random::new(seed);
        // One in twenty has events that are large enough for marks of their own.
        let is_large = seed % 20 == 19;
        let (fewest, most) = if is_large { (70, 80) } else { (2, 12) };
        let machines = usize::try_from(random.between(fewest, most)).expect("a small number");
        let mut event = || {
            let largest = if is_large && random.below(2) == 0 {
                most
            } else {
                6
            };
            let size = usize::try_from(random.between(1.max(largest.saturating_sub(10)), largest));
            let size = size.expect("a small number").min(machines);
            (
                random.choose(size, machines),
                Duration::from_secs(random.between(20, 200)),
            )
        };
        let events = (0..4).map(|_| event()).collect();
        let limit = usize::try_from(random.between(1, 4)).expect("a small number");
        let faults = Faults {
            engine: EngineFaults {
                request_lost: random.below(40),
                reply_lost: random.below(40),
                stale: random.below(100),
                slow: random.below(60),
            },
            service: ServiceFaults {
                unavailable: random.below(50),
                request_lost: random.below(30),
                reply_lost: random.below(300),
                stale: random.below(300),
            },
            crashes: random.below(8),
            deaths: u64::from(random.below(3) == 0),
            until: Duration::from_secs(300),
        };
        let notice = Duration::from_secs(15 * 60);
        Self {
            seed,
            machines,
            limit,
            events,
            notice,
            drain: (1_000, 40_000),
            has_parts: true,
            has_plain_writes: false,
            faults,
        }
    }
}

/// The result of a simulation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) violations: Vec<String>,
    pub(crate) events: usize,
    pub(crate) approved: usize,
    /// For the first event.
    pub(crate) announced_to_approved: Option<Duration>,
    pub(crate) ready_to_approved: Option<Duration>,
    pub(crate) on_events: Count,
    pub(crate) on_groups: Count,
    pub(crate) on_machines: Count,
}

#[derive(Default)]
pub(crate) struct Totals {
    fleets: usize,
    events: usize,
    approved: usize,
    operations: u64,
}

impl Totals {
    pub(crate) fn add(&mut self, outcome: &Outcome) {
        self.fleets += 1;
        self.events += outcome.events;
        self.approved += outcome.approved;
        let counts = [outcome.on_events, outcome.on_groups, outcome.on_machines];
        self.operations += counts.map(Count::operations).into_iter().sum::<u64>();
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            fleets,
            events,
            approved,
            operations,
        } = self;
        write!(
            f,
            "{fleets} fleets, {events} events, {approved} approved, {operations} operations of the engine"
        )
    }
}

pub(crate) struct Fleet;

impl Fleet {
    pub(crate) fn run(setup: &Setup) -> Outcome {
        // Each machine has its audit file open twice.
        let mut limit = getrlimit(Resource::Nofile);
        limit.current = limit.maximum;
        setrlimit(Resource::Nofile, limit).expect("the limit may be raised to its maximum");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build();
        LocalSet::new().block_on(&runtime.expect("a runtime"), simulate(setup))
    }
}

async fn simulate(setup: &Setup) -> Outcome {
    let folder = tempfile::tempdir().expect("a folder");
    let mut random = Random::new(setup.seed ^ 0x5ca1e);
    let names: Vec<String> = (0..setup.machines)
        .map(|number| format!("vm_{number:04}"))
        .collect();
    let id = |index: usize| format!("00000000-0000-4000-8000-{:012X}", index + 1);
    let events = setup
        .events
        .iter()
        .enumerate()
        .map(|(index, (machines, _))| (id(index), machines.clone()))
        .collect();
    let world = World::new(
        names.iter().map(|name| Name::from(name.as_str())).collect(),
        setup.limit,
        events,
    );
    let world = Rc::new(RefCell::new(world));
    let script = |(index, (machines, appears)): (usize, &(Vec<usize>, Duration))| Script {
        id: id(index),
        resources: machines
            .iter()
            .map(|&machine| names[machine].clone())
            .collect(),
        appears: *appears,
        notice: setup.notice,
        started_for: Duration::from_secs(20),
    };
    let scripts: Vec<_> = setup.events.iter().enumerate().map(script).collect();
    let service = Service::new(scripts, world.clone(), random.next());
    let server = Server::new(random.next(), world.clone());
    server.faults.set(setup.faults.engine);
    server.has_plain_writes.set(setup.has_plain_writes);
    service.faults.set(setup.faults.service);
    let groups = format!(
        "[[group]]\nname = \"all\"\nmachines = [\"*\"]\nmax_unavailable = {}\n",
        setup.limit
    );

    let mut kills = vec![Vec::new(); setup.machines];
    for number in 0..setup.faults.crashes + setup.faults.deaths {
        let machine = usize::try_from(random.below(setup.machines as u64)).expect("a small number");
        let at = Duration::from_millis(
            random.below(u64::try_from(setup.faults.until.as_millis()).expect("minutes")),
        );
        let is_death = number >= setup.faults.crashes;
        let victim = match random.below(3) {
            0 => Victim::Watcher,
            1 => Victim::Daemon,
            _ => Victim::Both,
        };
        let down = Duration::from_millis(random.between(200, 20_000));
        kills[machine].push(if is_death {
            (at, Victim::Both, None)
        } else {
            (at, victim, Some(down))
        });
    }
    let mut machines = JoinSet::new();
    for (number, (name, kills)) in names.iter().zip(kills).enumerate() {
        let connections = (service.clone(), server.clone(), world.clone());
        let machine = Machine::new(
            number,
            name,
            folder.path(),
            &groups,
            (setup.drain, setup.has_parts),
            connections,
            random.split(),
        );
        machines.spawn_local(machine.live(kills));
    }
    let mut playing = JoinSet::new();
    for index in 0..setup.events.len() {
        let service = service.clone();
        playing.spawn_local(async move { service.play(index).await });
    }
    {
        let (service, server, until) = (service.clone(), server.clone(), setup.faults.until);
        playing.spawn_local(async move {
            sleep(until).await;
            service.faults.set(ServiceFaults::default());
            server.faults.set(EngineFaults::default());
        });
    }
    while let Some(ended) = playing.join_next().await {
        ended.expect("an event is played");
    }
    let over = Instant::now();

    // Every slot is freed: at once if its machine recovers, and after its silence if its machine is
    // dead.
    let is_free = async || {
        let groups = server.look("groups/").await;
        let group = |text: &str| serde_json::from_str::<GroupRegister>(text).expect("a group");
        groups
            .iter()
            .all(|(_, register)| group(&register.value).claims.is_empty())
    };
    while !is_free().await && over.elapsed() < Duration::from_secs(20 * 60) {
        sleep(Duration::from_millis(100)).await;
    }
    let is_free = is_free().await;
    while let Some(ended) = machines.try_join_next() {
        ended.expect("a machine that ended was killed");
    }
    machines.abort_all();
    while machines.join_next().await.is_some() {}
    outcome(setup, &world, &server, is_free)
}

fn outcome(setup: &Setup, world: &Rc<RefCell<World>>, server: &Server, is_free: bool) -> Outcome {
    let mut world = world.borrow_mut();
    if !is_free {
        world.violated("slots were not freed twenty minutes after the last event");
    }
    let all_live = (0..setup.machines).all(|machine| world.is_alive(machine));
    for index in 0..setup.events.len() {
        let approved = matches!(world.events[index].status, Status::Over { approved: true });
        // A dead machine holds its slots, which delays other events, until its own events are over.
        if all_live && !approved {
            let missed = world.missed(index, Duration::ZERO);
            world.violated(&format!(
                "L1: event {index} was not approved; all were ready this long: {missed:?}"
            ));
        }
    }
    let first = &world.events[0];
    let since = |from: Option<Instant>| Some(first.approved_at?.saturating_duration_since(from?));
    Outcome {
        violations: world.violations.clone(),
        events: setup.events.len(),
        approved: world
            .events
            .iter()
            .filter(|event| event.approved_at.is_some())
            .count(),
        announced_to_approved: since(first.announced_at),
        ready_to_approved: since(first.all_ready_at),
        on_events: server.count("events"),
        on_groups: server.count("groups"),
        on_machines: server.count("machines"),
    }
}
