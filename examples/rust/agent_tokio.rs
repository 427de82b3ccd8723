//! The same agent for a program with tokio: the watcher has a thread of its own, and what it asks for runs as tasks.
//!
//! `agent-tokio [--until-idle] [URL]`: without a URL it asks the service of every Azure machine.

use std::collections::HashMap;
use std::env;
use std::error::Error;
use std::time::Duration;

use scheduled_events::core::{Action, Policy, Rule};
use scheduled_events::record::{EventRecord, TimedRecord};
use scheduled_events::watch::{Host, Note, PrepareReply, RecoverReply, Watcher};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let (flags, urls): (Vec<_>, Vec<_>) = env::args()
        .skip(1)
        .partition(|argument| argument == "--until-idle");
    let mut builder = Watcher::builder()
        .policy(Policy::new(&[Rule::new(Action::Prepare)])?)
        .until_idle(!flags.is_empty());
    if let Some(url) = urls.first() {
        builder = builder.endpoint(url);
    }
    let mut watcher = builder.build()?;
    let stop = watcher.handle();
    let mut host = Tasks {
        runtime: Handle::current(),
        running: HashMap::new(),
    };
    let mut watching = tokio::task::spawn_blocking(move || watcher.run_with(&mut host));
    tokio::select! {
        reason = &mut watching => println!("{:?}", reason?),
        interrupted = tokio::signal::ctrl_c() => {
            interrupted?;
            stop.stop(); // it saves its state
            watching.await?;
        }
    }
    Ok(())
}

/// Starts a task for each question of the watcher.
struct Tasks {
    runtime: Handle,
    running: HashMap<u32, AbortHandle>,
}

impl Host for Tasks {
    fn record(&mut self, record: &TimedRecord<'_>) {
        println!("{record}");
    }

    fn note(&mut self, note: &Note) {
        eprintln!("{}: {note}", note.severity().word());
    }

    fn prepare(&mut self, event: &EventRecord, reply: PrepareReply) {
        println!(
            "draining for {}",
            event.event_type.as_deref().unwrap_or("an event")
        );
        let attempt = reply.attempt();
        let task = self.runtime.spawn(async move {
            tokio::time::sleep(Duration::from_millis(150)).await; // the requests in progress
            println!("drained");
            reply.ready();
        });
        self.running.retain(|_, task| !task.is_finished());
        self.running.insert(attempt, task.abort_handle());
    }

    fn recover(&mut self, _events: &[EventRecord], reply: RecoverReply) {
        self.runtime.spawn(async move {
            println!("back in service");
            reply.done();
        });
    }

    /// A task that is aborted drops its reply, which answers the watcher.
    fn cancel(&mut self, attempt: u32) {
        if let Some(task) = self.running.remove(&attempt) {
            task.abort();
        }
    }
}
