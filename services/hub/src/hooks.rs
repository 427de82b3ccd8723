//! The user's commands of all machines: a limited number runs concurrently, and commands for events
//! that start first go first.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use scheduled_events_core::UnixSeconds;
use tokio::sync::oneshot;

/// Limits the number of concurrent commands.
#[derive(Debug)]
pub struct Pool {
    free: Cell<u32>,
    /// The waiting commands, by the time at which their event starts, and then in the order of
    /// their requests.
    waiting: RefCell<BTreeMap<(i64, u64), oneshot::Sender<Permit>>>,
    next: Cell<u64>,
}

/// The permission to run a command until it is dropped.
#[derive(Debug)]
pub struct Permit(Option<Rc<Pool>>);

impl Pool {
    /// A pool for this many concurrent commands.
    pub fn new(at_once: u32) -> Rc<Self> {
        Rc::new(Self {
            free: Cell::new(at_once),
            waiting: RefCell::default(),
            next: Cell::new(0),
        })
    }

    /// Waits for the permission to run a command. `due` is when its event starts.
    pub async fn enter(self: &Rc<Self>, due: UnixSeconds) -> Permit {
        let free = self.free.get();
        if free > 0 {
            self.free.set(free - 1);
            return Permit(Some(self.clone()));
        }
        let (sender, permit) = oneshot::channel();
        let number = self.next.replace(self.next.get() + 1);
        self.waiting.borrow_mut().insert((due.0, number), sender);
        // Only the pool holds the sender, and this call holds the pool.
        permit.await.unwrap_or_else(|_| Permit(Some(self.clone())))
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        self.waiting.borrow().len()
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let Some(pool) = self.0.take() else { return };
        loop {
            let first = pool.waiting.borrow_mut().pop_first();
            let Some((_, sender)) = first else {
                pool.free.set(pool.free.get() + 1);
                return;
            };
            match sender.send(Permit(Some(pool.clone()))) {
                Ok(()) => return,
                // It no longer waits: the next one gets the permission.
                Err(mut permit) => permit.0 = None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_event_goes_first_and_who_gave_up_is_passed_over() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .expect("a runtime");
        tokio::task::LocalSet::new().block_on(&runtime, async {
            let pool = Pool::new(1);
            let first = pool.enter(UnixSeconds(0)).await;
            let order = Rc::new(RefCell::new(Vec::new()));
            let wait = |due: i64| {
                let (pool, order) = (pool.clone(), order.clone());
                tokio::task::spawn_local(async move {
                    let _permit = pool.enter(UnixSeconds(due)).await;
                    order.borrow_mut().push(due);
                })
            };
            let waits = [wait(900), wait(300), wait(30), wait(20)];
            tokio::task::yield_now().await;
            assert_eq!(pool.waiting(), 4);
            waits[3].abort();
            tokio::task::yield_now().await;
            drop(first);
            for wait in waits {
                let _ = wait.await;
            }
            assert_eq!(*order.borrow(), [30, 300, 900]);
            assert_eq!((pool.free.get(), pool.waiting()), (1, 0));
        });
    }
}
