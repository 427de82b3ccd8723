//! `run`: keeps an interruptible workload, such as a worker on a Spot machine.
//!
//! A [`Supervisor`](supervisor::Supervisor) starts the worker after its warm-up, and moves it
//! through the life cycle that core's [`Phase`](scheduled_events_core::spot::Phase) defines. A
//! watcher on another thread notifies it through a [`RunHandle`](message::RunHandle) when an event
//! is announced or over; the watcher's waits never delay the worker.
//!
//! * `options`: the configuration of a supervisor.
//! * `command`: the subcommand, with its watcher. `policy`: its rules. `lines`: what it says about events.
//! * `state`: what a supervisor does at the moment, and which state leads to which. `eviction`: the
//!   state in which the worker is stopped in time. `timer`: what repeats in them.
//! * `supervisor`: the loop that acts on messages and times. `stop_worker` is its part that carries
//!   out an eviction, and `signals` the part that passes signals on.
//! * `worker`: the worker's processes. `hooks`: the user's commands beside it.
//! * `phase_file`: the state for the next run. `other_runs`: the runs that share the folder of the
//!   state file.
//! * `held_lock`: whether this process still has the lock of `--lock`.

mod command;
mod eviction;
mod held_lock;
mod hooks;
mod lines;
mod message;
mod options;
mod other_runs;
mod phase_file;
mod policy;
mod signals;
mod state;
mod stop_worker;
mod supervisor;
#[cfg(all(test, unix))]
mod tests;
mod timer;
mod worker;

pub(crate) use command::{in_first_process, run};
