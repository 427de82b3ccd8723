//! The true state: which machine is ready for which event, which are out of service, and which
//! invariants broke.
//!
//! The machines do not see this. The invariants are those of the model (`tests/model`).

use std::collections::BTreeSet;
use std::time::Duration;

use scheduled_events_common::names::Name;
use scheduled_events_gate::register::EventRegister;
use tokio::time::Instant;

/// How an event started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Announced,
    /// A POST was accepted.
    Approved,
    /// Its time came without one.
    Forced,
    Over {
        approved: bool,
    },
}

#[derive(Debug)]
pub(crate) struct EventTruth {
    /// Its id, in lower case.
    pub(crate) id: String,
    /// Its machines, in rising order.
    pub(crate) machines: Vec<usize>,
    pub(crate) status: Status,
    pub(crate) announced_at: Option<Instant>,
    /// When all of its machines became ready.
    pub(crate) all_ready_at: Option<Instant>,
    pub(crate) decided_at: Option<Instant>,
    pub(crate) approved_at: Option<Instant>,
    pub(crate) not_before: Option<Instant>,
}

/// A machine and an event that it was prepared for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Prepared {
    is_preparing: bool,
    is_ready: bool,
    has_recovered: bool,
}

pub(crate) struct World {
    pub(crate) events: Vec<EventTruth>,
    names: Vec<Name>,
    /// By machine and event.
    prepared: Vec<Vec<Prepared>>,
    is_alive: Vec<bool>,
    limit: usize,
    /// The machines that are out of service because of the gate.
    out: BTreeSet<usize>,
    pub(crate) violations: Vec<String>,
    begin: Instant,
}

impl World {
    /// All machines are in one group, of which `limit` may be out of service together.
    pub(crate) fn new(names: Vec<Name>, limit: usize, events: Vec<(String, Vec<usize>)>) -> Self {
        let machines = names.len();
        let truth = |(id, machines)| EventTruth {
            id,
            machines,
            status: Status::Announced,
            announced_at: None,
            all_ready_at: None,
            decided_at: None,
            approved_at: None,
            not_before: None,
        };
        Self {
            prepared: vec![vec![Prepared::default(); events.len()]; machines],
            events: events.into_iter().map(truth).collect(),
            names,
            is_alive: vec![true; machines],
            limit,
            out: BTreeSet::new(),
            violations: Vec::new(),
            begin: Instant::now(),
        }
    }

    pub(crate) fn violated(&mut self, what: &str) {
        self.violations.push(format!(
            "{:.1} s: {what}",
            self.begin.elapsed().as_secs_f64()
        ));
    }

    pub(crate) fn event_index(&self, id: &str) -> usize {
        self.events
            .iter()
            .position(|event| event.id.eq_ignore_ascii_case(id))
            .expect("an event of the scenario")
    }

    /// Records that the engine has stored the decision about an event.
    pub(crate) fn decided(&mut self, key: &str, register: &EventRegister) {
        let id = key.split('/').nth(1).expect("an id");
        let index = self.event_index(id);
        let machines = self.events[index].machines.clone();
        let marked = machines
            .iter()
            .all(|&machine| register.is_ready(&self.names[machine]));
        if !marked || register.resources.len() != machines.len() {
            self.violated(&format!("S1: {id} was decided without the marks of all"));
        }
        let not_ready: Vec<_> = machines
            .iter()
            .filter(|&&machine| !self.prepared[machine][index].is_ready)
            .collect();
        if !not_ready.is_empty() {
            self.violated(&format!(
                "S2: {id} was decided, and these machines were not ready: {not_ready:?}"
            ));
        }
        self.events[index]
            .decided_at
            .get_or_insert_with(Instant::now);
    }

    /// Records that the metadata service has accepted a POST.
    pub(crate) fn approved(&mut self, index: usize) {
        let event = &mut self.events[index];
        if event.status != Status::Announced {
            return;
        }
        event.status = Status::Approved;
        event.approved_at = Some(Instant::now());
        let (id, machines, decided) = (event.id.clone(), event.machines.clone(), event.decided_at);
        if decided.is_none() {
            self.violated(&format!("S1: {id} was approved without a decision"));
        }
        let not_ready: Vec<_> = machines
            .iter()
            .filter(|&&machine| !self.prepared[machine][index].is_ready)
            .collect();
        if !not_ready.is_empty() {
            self.violated(&format!(
                "S3: {id} was approved, and these machines were not ready: {not_ready:?}"
            ));
        }
        for machine in machines {
            self.look_at(machine);
        }
    }

    pub(crate) fn set_status(&mut self, index: usize, status: Status) {
        self.events[index].status = status;
        for machine in self.events[index].machines.clone() {
            self.look_at(machine);
        }
    }

    /// Records that the machine goes out of service.
    pub(crate) fn prepares(&mut self, machine: usize, index: usize) {
        self.prepared[machine][index] = Prepared {
            is_preparing: true,
            is_ready: false,
            has_recovered: false,
        };
        self.look_at(machine);
    }

    pub(crate) fn is_ready(&mut self, machine: usize, index: usize) {
        self.prepared[machine][index] = Prepared {
            is_preparing: false,
            is_ready: true,
            has_recovered: false,
        };
        let event = &mut self.events[index];
        if event
            .machines
            .iter()
            .all(|&machine| self.prepared[machine][index].is_ready)
        {
            event.all_ready_at.get_or_insert_with(Instant::now);
        }
    }

    /// Records that the preparation ended before it was complete. The machine is out of service
    /// until it recovers.
    pub(crate) fn stops_preparing(&mut self, machine: usize) {
        self.prepared[machine]
            .iter_mut()
            .for_each(|prepared| prepared.is_preparing = false);
        self.look_at(machine);
    }

    /// Records that the machine begins to go back into service.
    pub(crate) fn recovers(&mut self, machine: usize) {
        for index in 0..self.events.len() {
            self.prepared[machine][index].is_ready = false;
        }
    }

    pub(crate) fn has_recovered(&mut self, machine: usize) {
        for index in 0..self.events.len() {
            self.prepared[machine][index] = Prepared {
                has_recovered: true,
                ..Prepared::default()
            };
        }
        self.look_at(machine);
    }

    pub(crate) fn dies(&mut self, machine: usize) {
        self.is_alive[machine] = false;
        self.look_at(machine);
    }

    pub(crate) fn is_alive(&self, machine: usize) -> bool {
        self.is_alive[machine]
    }

    /// Whether a machine is out of service because of the gate: being prepared or prepared, or
    /// affected by an approved event, until it has recovered. A machine that has ended for good is
    /// out until the event is over.
    fn is_out(&self, machine: usize) -> bool {
        let concerned = self
            .events
            .iter()
            .enumerate()
            .filter(|(_, event)| event.machines.contains(&machine));
        concerned.into_iter().any(|(index, event)| {
            let prepared = self.prepared[machine][index];
            let is_drained = prepared.is_preparing || prepared.is_ready;
            match event.status {
                Status::Announced | Status::Forced => is_drained,
                Status::Approved => true,
                Status::Over { approved } => {
                    self.is_alive[machine] && (is_drained || approved && !prepared.has_recovered)
                }
            }
        })
    }

    /// Updates which machines are out of service, and checks the limit.
    fn look_at(&mut self, machine: usize) {
        if !self.is_out(machine) {
            self.out.remove(&machine);
            return;
        }
        if !self.out.insert(machine) {
            return;
        }
        let is_one_event = |event: &EventTruth| {
            self.out
                .iter()
                .all(|machine| event.machines.binary_search(machine).is_ok())
        };
        if self.out.len() > self.limit && !self.events.iter().any(is_one_event) {
            let out = format!(
                "S4: {} machines are out of service: {:?}",
                self.out.len(),
                self.out
            );
            self.violated(&out);
        }
    }

    /// How long it was from the moment when all were ready to the event's `NotBefore`, if the event
    /// was not approved although it should have been.
    pub(crate) fn missed(&self, index: usize, margin: Duration) -> Option<Duration> {
        let event = &self.events[index];
        let (ready, not_before) = (event.all_ready_at?, event.not_before?);
        let time = not_before.saturating_duration_since(ready);
        (event.approved_at.is_none() && time >= margin).then_some(time)
    }
}
