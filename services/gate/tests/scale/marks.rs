//! What the marks of one large event cost the store, in its register and in registers of their own.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use scheduled_events_common::names::Name;
use scheduled_events_gate::driver::{GateRun, Members, Question};
use scheduled_events_gate::engine::Reply;
use scheduled_events_gate::event::Event;
use scheduled_events_gate::protocol::{Answer, GroupHealth, Participant, Share};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::crowd::in_virtual_time;
use crate::engine::{Connection, Server};
use crate::random::Random;
use crate::world::World;

/// How long the daemon takes for an answer at most, and the watcher's pause before the next question.
const ANSWER_TIME: Duration = Duration::from_secs(8);
const ASKED_AGAIN_AFTER: Duration = Duration::from_secs(5);

/// When the machines stop asking: Azure starts the event.
const NOTICE: Duration = Duration::from_secs(15 * 60);

/// No machine is in a group, so that only the event's register and the marks are measured.
struct Nobody;

impl Members for Nobody {
    fn look<'a>(&'a self, _: &'a Event) -> Reply<'a, Vec<(Share, GroupHealth)>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    fn seems_silent<'a>(&'a self, _: &'a Name) -> Reply<'a, bool> {
        Box::pin(std::future::ready(Ok(false)))
    }

    fn silent_of<'a>(&'a self, _: &'a BTreeSet<Name>) -> Reply<'a, BTreeSet<Name>> {
        Box::pin(std::future::ready(Ok(BTreeSet::new())))
    }
}

/// What all machines report.
#[derive(Default)]
struct Tally {
    questions: u64,
    late: u64,
    decided_after: Option<Duration>,
}

/// All machines of an event ask within a second, are ready within a minute, and ask until one of
/// them decides. Returns a row of a table.
pub(crate) fn measure(machines: usize, has_parts: bool) -> String {
    in_virtual_time(async {
        let names: Vec<Name> = (0..machines)
            .map(|number| Name::from(format!("vm_{number:04}").as_str()))
            .collect();
        let id = "00000000-0000-4000-8000-000000000001";
        let event = Event::new(id, "Reboot", names.iter().cloned().collect());
        let all = vec![(id.to_owned(), (0..machines).collect())];
        let world = Rc::new(RefCell::new(World::new(names.clone(), machines, all)));
        let server = Server::new(1, world.clone());
        let (random, tally) = (
            RefCell::new(Random::new(2)),
            Rc::<RefCell<Tally>>::default(),
        );
        let within = |time| Duration::from_millis(random.borrow_mut().between(0, time));
        let (begin, mut running) = (Instant::now(), JoinSet::new());
        for (number, name) in names.into_iter().enumerate() {
            let (late, preparation) = (within(1000), within(60_000));
            let (world, tally, server) = (world.clone(), tally.clone(), server.clone());
            let event = event.clone();
            running.spawn_local(async move {
                let engine = Connection { server, has_parts };
                let mut run = GateRun::new(Participant::new(name, event, vec![], NOTICE));
                let mut ask = async |question| {
                    while begin.elapsed() < NOTICE {
                        let answer = timeout(ANSWER_TIME, run.ask(&engine, &Nobody, question));
                        let answer = answer.await.map(|answer| answer.expect("no failure"));
                        tally.borrow_mut().questions += 1;
                        match answer {
                            Ok(Answer::Open | Answer::AnotherApproves { .. }) => break,
                            Ok(Answer::Closed(_)) => {}
                            Err(_) => tally.borrow_mut().late += 1,
                        }
                        sleep(ASKED_AGAIN_AFTER).await;
                    }
                };
                sleep(late).await;
                ask(Question::Prepare).await;
                world.borrow_mut().prepares(number, 0);
                sleep(preparation).await;
                world.borrow_mut().is_ready(number, 0);
                ask(Question::Approve).await;
                let is_decided = world.borrow().events[0].decided_at.is_some();
                let mut tally = tally.borrow_mut();
                if is_decided && tally.decided_after.is_none() {
                    tally.decided_after = Some(begin.elapsed());
                }
            });
        }
        while let Some(ended) = running.join_next().await {
            ended.expect("a machine");
        }
        assert_eq!(world.borrow().violations, Vec::<String>::new());
        let (count, tally) = (server.count("events"), tally.borrow());
        let decided = tally
            .decided_after
            .map_or("not decided".to_owned(), |time| {
                format!("{:.0} s", time.as_secs_f64())
            });
        let place = if has_parts { "of their own" } else { "in one" };
        format!(
            "| {machines} | {place} | {decided} | {} of {} | {:.0} s | {} | {} | {} MB | {} MB | {} KB |",
            tally.late,
            tally.questions,
            server.busy.get().as_secs_f64(),
            count.operations(),
            count.conflicts,
            count.bytes / 1_000_000,
            count.stored / 1_000_000,
            count.largest / 1000,
        )
    })
}
