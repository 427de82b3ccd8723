//! One thread for what must not fail because the system refuses another one.
//!
//! It starts the commands whose own thread was refused, once there is one, and reads the pipes that ended commands left open.

use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use super::process::{OpenPipes, Task};
use crate::limits::OPEN_PIPES_MAX;

/// How often refused starts are repeated, and open pipes read.
const TICK: Duration = Duration::from_millis(250);

static KEEPER: Mutex<Option<Sender<Work>>> = Mutex::new(None);

enum Work {
    Start(Box<Task>),
    Read(OpenPipes),
}

/// Starts the thread that repeats refused starts of commands, unless it runs.
///
/// Commands are started with or without it. But if the system refuses a command's own thread, only this thread can try again, so
/// a program that must not lose a command calls this early.
///
/// # Errors
/// The system refuses the thread.
///
/// ```
/// scheduled_events::hooks::reserve_thread()?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn reserve_thread() -> io::Result<()> {
    let mut keeper = KEEPER.lock().unwrap_or_else(PoisonError::into_inner);
    if keeper.is_none() {
        let (sender, work) = mpsc::channel();
        thread::Builder::new().spawn(move || keep(&work))?;
        *keeper = Some(sender);
    }
    Ok(())
}

/// Runs the command on a thread of its own, now or as soon as there is one.
pub(super) fn start(task: Task) {
    if let Err((task, error)) = start_thread(task) {
        match reserve_thread() {
            Ok(()) => {
                task.refused(&error);
                pass_on(Work::Start(task));
            }
            Err(_) => task.give_up(&error),
        }
    }
}

/// Reads the pipes until they are closed, so that what a command leaves running can write to them.
fn read(pipes: OpenPipes) {
    if reserve_thread().is_ok() {
        pass_on(Work::Read(pipes));
    }
}

fn pass_on(work: Work) {
    let keeper = KEEPER.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(keeper) = &*keeper {
        // The thread never ends.
        let _ = keeper.send(work);
    }
}

fn keep(work: &Receiver<Work>) {
    let mut waiting: Vec<Box<Task>> = Vec::new();
    let mut open: VecDeque<OpenPipes> = VecDeque::new();
    loop {
        let next = if waiting.is_empty() && open.is_empty() {
            work.recv().map_err(|_| RecvTimeoutError::Disconnected)
        } else {
            work.recv_timeout(TICK)
        };
        match next {
            Ok(Work::Start(task)) => {
                waiting.push(task);
                continue;
            }
            Ok(Work::Read(pipes)) => {
                open.push_back(pipes);
                if open.len() > OPEN_PIPES_MAX {
                    open.pop_front();
                }
                continue;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        for task in std::mem::take(&mut waiting) {
            if let Err((task, error)) = start_thread(*task) {
                if task.must_end() {
                    task.give_up(&error);
                } else {
                    task.refused(&error);
                    waiting.push(task);
                }
            }
        }
        open.retain_mut(OpenPipes::read);
    }
}

/// Runs the command on a thread of its own. Returns it with the error if the system refuses the thread.
fn start_thread(task: Task) -> Result<(), (Box<Task>, io::Error)> {
    // A refused thread drops what it was given.
    let shared = Arc::new(Mutex::new(Some(Box::new(task))));
    let take = |task: &Mutex<Option<Box<Task>>>| {
        task.lock().unwrap_or_else(PoisonError::into_inner).take()
    };
    let given = Arc::clone(&shared);
    let started = thread::Builder::new().spawn(move || {
        if let Some(pipes) = take(&given).and_then(|task| task.run()) {
            read(pipes);
        }
    });
    match started {
        Err(error) => take(&shared).map_or(Ok(()), |task| Err((task, error))),
        Ok(_) => Ok(()),
    }
}
