//! The store of a fleet, as all machines share it for which the hub takes part.
//!
//! Each of them lists the events when it joins and when it asks for the first time. A hub that starts
//! with a thousand machines would list the same events a thousand times, so those that wait
//! for a list at the same time share one.

use std::cell::Cell;
use std::rc::Rc;

use scheduled_events_gate::engine::{
    Aged, Clock, Engine, EngineError, Reply, Revision, SplitRegisters, Swap, Versioned,
};
use tokio::sync::Mutex;

/// The registers that are listed together.
const EVENTS: &str = "events/";

/// The store of a fleet.
pub(super) struct SharedEngine {
    engine: Rc<dyn Engine>,
    /// The last list of the events.
    last: Mutex<Listed>,
    /// How many lists of the events have begun.
    begun: Cell<u64>,
    /// How many callers wait for one.
    waiting: Cell<usize>,
}

/// A list, and the how many-th it is.
struct Listed {
    number: u64,
    result: Result<Vec<(String, Versioned)>, EngineError>,
}

/// A caller that waits for a list, also if it gives up.
struct Waiting<'a>(&'a Cell<usize>);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl SharedEngine {
    pub(super) fn new(engine: Rc<dyn Engine>) -> Self {
        let nothing = Listed {
            number: 0,
            result: Ok(Vec::new()),
        };
        Self {
            engine,
            last: Mutex::new(nothing),
            begun: Cell::default(),
            waiting: Cell::default(),
        }
    }

    /// The events, by a list that began after this call: what was written before is in it.
    async fn list_events(&self) -> Result<Vec<(String, Versioned)>, EngineError> {
        let before = self.begun.get();
        self.waiting.set(self.waiting.get() + 1);
        let waiting = Waiting(&self.waiting);
        let mut last = self.last.lock().await;
        if last.number <= before {
            let number = self.begun.get() + 1;
            self.begun.set(number);
            let result = self.engine.list(EVENTS).await;
            *last = Listed { number, result };
        }
        drop(waiting);
        if self.waiting.get() > 0 {
            return last.result.clone();
        }
        // Nobody else needs it.
        std::mem::replace(&mut last.result, Ok(Vec::new()))
    }
}

impl Engine for SharedEngine {
    fn read<'a>(&'a self, key: &'a str) -> Reply<'a, Option<Versioned>> {
        self.engine.read(key)
    }

    fn swap<'a>(
        &'a self,
        key: &'a str,
        expected: Option<&'a Revision>,
        value: &'a str,
    ) -> Reply<'a, Swap> {
        self.engine.swap(key, expected, value)
    }

    fn delete<'a>(&'a self, key: &'a str, expected: &'a Revision) -> Reply<'a, bool> {
        self.engine.delete(key, expected)
    }

    fn list<'a>(&'a self, prefix: &'a str) -> Reply<'a, Vec<(String, Versioned)>> {
        if prefix == EVENTS {
            Box::pin(self.list_events())
        } else {
            self.engine.list(prefix)
        }
    }

    fn clock(&self) -> Option<Clock> {
        self.engine.clock()
    }

    fn list_aged<'a>(&'a self, prefix: &'a str) -> Reply<'a, Vec<Aged>> {
        self.engine.list_aged(prefix)
    }

    fn split_registers(&self) -> Option<&dyn SplitRegisters> {
        self.engine.split_registers()
    }
}

#[cfg(test)]
mod tests {
    use scheduled_events_gate::engine::memory::MemoryEngine;
    use tokio::sync::Semaphore;
    use tokio::task::yield_now;

    use super::*;

    /// A list does not end before the test allows it.
    #[derive(Clone)]
    struct Held {
        registers: Rc<MemoryEngine>,
        ends: Rc<Semaphore>,
    }

    impl Engine for Held {
        fn read<'a>(&'a self, key: &'a str) -> Reply<'a, Option<Versioned>> {
            self.registers.read(key)
        }

        fn swap<'a>(
            &'a self,
            key: &'a str,
            expected: Option<&'a Revision>,
            value: &'a str,
        ) -> Reply<'a, Swap> {
            self.registers.swap(key, expected, value)
        }

        fn delete<'a>(&'a self, key: &'a str, expected: &'a Revision) -> Reply<'a, bool> {
            self.registers.delete(key, expected)
        }

        fn list<'a>(&'a self, prefix: &'a str) -> Reply<'a, Vec<(String, Versioned)>> {
            Box::pin(async move {
                let listed = self.registers.list(prefix).await;
                self.ends.acquire().await.expect("open").forget();
                listed
            })
        }

        fn clock(&self) -> Option<Clock> {
            self.registers.clock()
        }
    }

    #[tokio::test]
    async fn a_shared_list_has_what_was_written_before_it_was_asked_for() {
        let held = Held {
            registers: Rc::default(),
            ends: Rc::new(Semaphore::new(0)),
        };
        let engine = SharedEngine::new(Rc::new(held.clone()));
        let count = async || engine.list(EVENTS).await.expect("a list").len();
        let operations = async |number: u64| {
            while held.registers.operations() < number {
                yield_now().await;
            }
        };
        let later = async {
            operations(1).await;
            let written = held.registers.swap("events/a", None, "{}").await;
            assert!(matches!(written, Ok(Swap::Done(_))));
            tokio::join!(count(), count())
        };
        let gives_up = async {
            operations(1).await;
            tokio::select! {
                biased;
                _ = count() => panic!("a list has not ended"),
                () = yield_now() => {}
            }
        };
        let ends = async {
            for number in 2..=3 {
                operations(number).await;
                held.ends.add_permits(1);
            }
        };
        let (first, others, (), ()) = tokio::join!(count(), later, gives_up, ends);
        assert_eq!((first, others), (0, (1, 1)));
        assert_eq!(held.registers.operations(), 3, "a write and two lists");
        assert_eq!(
            engine.last.lock().await.result,
            Ok(Vec::new()),
            "nobody waits"
        );
    }
}
