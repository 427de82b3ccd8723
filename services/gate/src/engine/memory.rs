//! Registers in the memory of one process, for tests and simulations.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::ready;

use super::clock::{Clock, StoreClock};
use super::{
    Engine, Reply, Revision, SplitRegister, SplitRegisters, SplitWrite, StoreTime, Swap, Versioned,
};

/// Registers in the memory of one process.
#[derive(Debug)]
pub struct MemoryEngine {
    registers: RefCell<BTreeMap<String, Versioned>>,
    changes: Cell<u64>,
    operations: Cell<u64>,
    clock: StoreClock,
}

/// The clock's first time.
const CLOCK_BEGINS: StoreTime = StoreTime(1_000_000_000_000);

impl Default for MemoryEngine {
    fn default() -> Self {
        let clock = StoreClock::default();
        clock.saw(CLOCK_BEGINS);
        Self {
            registers: RefCell::default(),
            changes: Cell::default(),
            operations: Cell::default(),
            clock,
        }
    }
}

impl MemoryEngine {
    /// How many calls were made.
    pub fn operations(&self) -> u64 {
        self.operations.get()
    }

    /// Sets the clock, which continues from there.
    pub fn set_clock(&self, time: StoreTime) {
        self.clock.saw(time);
    }

    /// A register with its parts.
    fn whole(&self, key: &str, prefix: &str, since: Option<&Revision>) -> SplitRegister {
        let registers = self.registers.borrow();
        let parts = registers
            .range(prefix.to_owned()..)
            .take_while(|(key, _)| key.starts_with(prefix));
        let parts = parts
            .filter(|(_, part)| since.is_none_or(|since| number(&part.revision) > number(since)));
        SplitRegister {
            register: registers.get(key).cloned(),
            parts: parts
                .map(|(key, part)| (key[prefix.len()..].to_owned(), part.value.clone()))
                .collect(),
            moment: Revision(self.changes.get().to_string()),
        }
    }

    fn put(&self, key: String, value: &str, revision: &Revision) {
        let register = Versioned {
            value: value.to_owned(),
            revision: revision.clone(),
        };
        self.registers.borrow_mut().insert(key, register);
    }

    fn has_revision(&self, key: &str, expected: Option<&Revision>) -> bool {
        self.registers
            .borrow()
            .get(key)
            .map(|register| &register.revision)
            == expected
    }

    fn next_revision(&self) -> Revision {
        self.changes.set(self.changes.get() + 1);
        Revision(self.changes.get().to_string())
    }

    fn count(&self) {
        self.operations.set(self.operations.get() + 1);
    }
}

impl Engine for MemoryEngine {
    fn read<'a>(&'a self, key: &'a str) -> Reply<'a, Option<Versioned>> {
        self.count();
        Box::pin(ready(Ok(self.registers.borrow().get(key).cloned())))
    }

    fn swap<'a>(
        &'a self,
        key: &'a str,
        expected: Option<&'a Revision>,
        value: &'a str,
    ) -> Reply<'a, Swap> {
        self.count();
        if !self.has_revision(key, expected) {
            return Box::pin(ready(Ok(Swap::Conflict)));
        }
        let revision = self.next_revision();
        self.put(key.to_owned(), value, &revision);
        Box::pin(ready(Ok(Swap::Done(revision))))
    }

    fn delete<'a>(&'a self, key: &'a str, expected: &'a Revision) -> Reply<'a, bool> {
        self.count();
        let mut registers = self.registers.borrow_mut();
        let matches = registers
            .get(key)
            .is_some_and(|register| register.revision == *expected);
        if matches {
            registers.remove(key);
        }
        Box::pin(ready(Ok(matches)))
    }

    fn list<'a>(&'a self, prefix: &'a str) -> Reply<'a, Vec<(String, Versioned)>> {
        self.count();
        let registers = self.registers.borrow();
        let found = registers
            .range(prefix.to_owned()..)
            .take_while(|(key, _)| key.starts_with(prefix));
        let found = found
            .map(|(key, register)| (key.clone(), register.clone()))
            .collect();
        Box::pin(ready(Ok(found)))
    }

    fn clock(&self) -> Option<Clock> {
        self.clock.now()
    }

    fn split_registers(&self) -> Option<&dyn SplitRegisters> {
        Some(self)
    }
}

impl SplitRegisters for MemoryEngine {
    fn read_parts<'a>(
        &'a self,
        key: &'a str,
        prefix: &'a str,
        since: Option<&'a Revision>,
    ) -> Reply<'a, SplitRegister> {
        self.count();
        Box::pin(ready(Ok(self.whole(key, prefix, since))))
    }

    fn change_part<'a>(&'a self, change: SplitWrite<'a>) -> Reply<'a, Option<SplitRegister>> {
        self.count();
        let SplitWrite {
            key, prefix, since, ..
        } = change;
        let is_changed =
            change.needs_unchanged_parts && !self.whole(key, prefix, since).parts.is_empty();
        if is_changed || !self.has_revision(key, change.expected) {
            return Box::pin(ready(Ok(None)));
        }
        let revision = self.next_revision();
        if let Some(value) = change.value {
            self.put(key.to_owned(), value, &revision);
        }
        self.put(
            format!("{prefix}{}", change.part.0),
            change.part.1,
            &revision,
        );
        Box::pin(ready(Ok(Some(self.whole(key, prefix, since)))))
    }

    fn delete_parts<'a>(
        &'a self,
        key: &'a str,
        expected: &'a Revision,
        prefix: &'a str,
    ) -> Reply<'a, bool> {
        self.count();
        let matches = self.has_revision(key, Some(expected));
        if matches {
            self.registers
                .borrow_mut()
                .retain(|name, _| name != key && !name.starts_with(prefix));
        }
        Box::pin(ready(Ok(matches)))
    }
}

/// In this engine, revisions are numbers.
fn number(revision: &Revision) -> u64 {
    revision.0.parse().unwrap_or(0)
}
