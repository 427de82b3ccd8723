//! An agent: it drains this machine before maintenance that stops it, approves, and takes it back into service.
//!
//! `agent [--until-idle] [URL]`: without a URL it asks the service of every Azure machine.

use std::env;
use std::error::Error;
use std::thread::sleep;
use std::time::Duration;

use scheduled_events::core::{Action, EventKind, EventTypes, Policy, Rule};
use scheduled_events::watch::{Task, Watcher};

fn main() -> Result<(), Box<dyn Error>> {
    // Freezes of a few seconds are not worth a drain, and are left to Azure.
    let stops = [
        EventKind::Reboot,
        EventKind::Redeploy,
        EventKind::Preempt,
        EventKind::Terminate,
    ];
    let rule = Rule {
        event_types: EventTypes::of(&stops),
        ..Rule::new(Action::Prepare)
    };
    let (flags, urls): (Vec<_>, Vec<_>) = env::args()
        .skip(1)
        .partition(|argument| argument == "--until-idle");
    let mut builder = Watcher::builder()
        .policy(Policy::new(&[rule])?)
        .prepare(drain)
        .recover(|_| {
            println!("back in service");
            Ok(())
        })
        .on_record(|record| println!("{record}"))
        .on_note(|note| eprintln!("{}: {note}", note.severity().word()))
        .until_idle(!flags.is_empty());
    if let Some(url) = urls.first() {
        builder = builder.endpoint(url);
    }
    builder.build()?.run();
    Ok(())
}

/// Waits until the requests in progress have ended, unless the event is over before.
fn drain(task: &Task) -> Result<(), Box<dyn Error + Send + Sync>> {
    println!("draining");
    for _requests in (0..3).rev() {
        if task.is_cancelled() {
            return Err("the event is over".into());
        }
        sleep(Duration::from_millis(50));
    }
    println!("drained");
    Ok(())
}
