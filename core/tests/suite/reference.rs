//! The session against a naive model of it: every short sequence of what can happen, and many long ones.

mod model;

use std::fmt::Debug;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use scheduled_events_core::{Action, Cause, Leader, Preparation, Scope, UnixMillis};

use crate::common::{Host, OTHER, Setup, Spec, VM, What, event, laws};
use model::{Model, PlainRule};

/// Something that happens to both.
#[derive(Clone, Debug, PartialEq)]
enum Happening {
    Document(Vec<Spec>),
    EmptyBody,
    Failure,
    Prepared(usize, Preparation),
    Recovered,
    Posts(u16),
    NotBeforePasses,
    Restart,
    Names(Vec<&'static str>),
}

/// A session with its host, and the model beside it.
#[derive(Clone)]
struct Pair<const N: usize> {
    host: Host<N>,
    model: Model,
    /// How much of the host's trace was compared.
    compared: usize,
}

impl<const N: usize> Pair<N> {
    fn new(rules: &[PlainRule], leader: Leader) -> Self {
        let mut host = Host::new(Setup::new(model::policy(rules, leader)));
        host.recovers = false;
        Self { host, model: Model::new(rules, leader, &[VM]), compared: 0 }
    }

    /// Lets it happen to both, unless it cannot.
    fn happen(&mut self, happening: &Happening) -> Option<Result<(), String>> {
        use Happening::{Document, EmptyBody, Failure};
        if matches!(happening, Document(_) | EmptyBody | Failure) {
            self.host.until_get();
            if let Err(difference) = self.compare() {
                return Some(Err(difference));
            }
        }
        let Self { host, model, .. } = self;
        match happening {
            Document(events) => {
                model.document(events, host.now);
                host.serve(events);
            }
            EmptyBody => drop(host.serve_body("", &[])),
            Failure => drop(host.fail(Cause::Timeout)),
            Happening::Prepared(which, preparation) => {
                let id = host.preparing.get(*which)?.clone();
                model.prepared(&id, *preparation);
                host.prepared(&id, *preparation);
            }
            Happening::Recovered => {
                let id = host.recovering.first()?.clone();
                model.recovered(&id);
                host.recovered(&id);
                host.settle();
            }
            Happening::Posts(status) => host.post_status = Some(*status),
            Happening::NotBeforePasses => host.pass(1000),
            Happening::Restart => {
                host.restart();
                model.restarted();
                host.settle();
            }
            Happening::Names(names) => {
                host.set_names(names);
                model.named(names);
            }
        }
        Some(self.compare())
    }

    fn compare(&mut self) -> Result<(), String> {
        let new = &self.host.trace[self.compared..];
        self.compared = self.host.trace.len();
        self.model.compare(new)?;
        // Requests keep a distance, so only what was due well before the next poll must have been posted.
        let settled = self.host.last_get.plus(900);
        if self.host.polling || self.host.now.plus(400) > settled {
            return Ok(());
        }
        self.model.overdue(UnixMillis(settled.0 - 400))
    }
}

/// Every sequence of so many happenings, those left aside that say the same as a shorter one.
struct Sweep {
    alphabet: Vec<Happening>,
    depth: usize,
    rules: Vec<PlainRule>,
}

impl Sweep {
    /// Runs them on two threads; tells how many sequences there were.
    fn run(&self) -> usize {
        let halves = [0, 1].map(|half| {
            move |sweep: &Self| {
                let pair = Pair::<2>::new(&sweep.rules, Leader::FirstResource);
                let firsts = sweep.alphabet.iter().skip(half).step_by(2);
                firsts.map(|first| sweep.follow(&pair, first, &mut Vec::new())).sum::<usize>()
            }
        });
        std::thread::scope(|scope| {
            let threads = halves.map(|half| scope.spawn(move || half(self)));
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        })
    }

    fn follow<'a>(&'a self, pair: &Pair<2>, next: &'a Happening, path: &mut Vec<&'a Happening>) -> usize {
        if Self::is_idle_talk(path, next) {
            return 0;
        }
        let mut pair = pair.clone();
        pair.host.clear();
        pair.compared = 0;
        let Some(agreed) = pair.happen(next) else { return 0 };
        path.push(next);
        if let Err(difference) = agreed {
            panic!("after {path:#?}: {difference}");
        }
        let mut count = 1;
        if path.len() < self.depth {
            count += self.alphabet.iter().map(|next| self.follow(&pair, next, path)).sum::<usize>();
        }
        path.pop();
        count
    }

    /// Whether it says nothing here that a shorter sequence, or one in another order, does not say.
    fn is_idle_talk(path: &[&Happening], next: &Happening) -> bool {
        use Happening::{Document, EmptyBody, Failure, NotBeforePasses, Posts, Recovered, Restart};
        let says_nothing = |happening: &Happening| matches!(happening, EmptyBody | Failure);
        let posts = |happening: &Happening| matches!(happening, Posts(_));
        let last = path.last();
        match next {
            // At the start nothing is known that could be lost.
            EmptyBody | Failure | Restart | Recovered if path.is_empty() => true,
            EmptyBody | Failure => last.is_some_and(|last| says_nothing(last)),
            Restart => last.is_some_and(|last| **last == Restart || posts(last)),
            Posts(status) => {
                let before = path.iter().rev().find_map(|happening| match happening {
                    Posts(status) => Some(*status),
                    _ => None,
                });
                before.unwrap_or(200) == *status || last.is_some_and(|last| says_nothing(last))
            }
            NotBeforePasses => path.contains(&next),
            Document(_) | Happening::Prepared(..) | Recovered | Happening::Names(_) => false,
        }
    }
}

fn outside() -> Vec<Happening> {
    vec![
        Happening::EmptyBody,
        Happening::Failure,
        Happening::Prepared(0, Preparation::Ready),
        Happening::Prepared(0, Preparation::Failed),
        Happening::Recovered,
        Happening::Posts(500),
        Happening::Posts(200),
        Happening::NotBeforePasses,
        Happening::Restart,
    ]
}

/// The event in each state that a document can show.
fn states(spec: &Spec) -> [Vec<Spec>; 4] {
    [vec![], vec![spec.clone()], vec![spec.clone().started()], vec![spec.clone().status("Queued")]]
}

fn one_event(action: Action, depth: usize) -> Sweep {
    let documents = states(&event("a")).map(Happening::Document);
    Sweep { alphabet: [documents.to_vec(), outside()].concat(), depth, rules: vec![PlainRule::all(action)] }
}

#[test]
fn every_short_story_of_one_event_that_is_prepared_for() {
    println!("{} sequences", one_event(Action::Prepare, 6).run());
}

#[test]
fn every_longer_story_of_fewer_happenings() {
    let [absent, scheduled, started, _] = states(&event("a")).map(Happening::Document);
    let (ready, restart) = (Happening::Prepared(0, Preparation::Ready), Happening::Restart);
    let (failure, recovered) = (Happening::Failure, Happening::Recovered);
    let alphabet = vec![absent, scheduled, started, ready, restart, failure, recovered, Happening::Posts(500)];
    let sweep = Sweep { alphabet, depth: 7, rules: vec![PlainRule::all(Action::Prepare)] };
    println!("{} sequences", sweep.run());
}

#[test]
fn every_short_story_of_one_event_that_is_approved() {
    println!("{} sequences", one_event(Action::Approve, 6).run());
}

#[test]
fn every_short_story_of_two_events() {
    let (a, b) = (event("a"), event("b").typed("Freeze").duration(5));
    let mut alphabet = outside();
    alphabet.retain(|happening| {
        use Happening::{EmptyBody, NotBeforePasses};
        !matches!(happening, EmptyBody | NotBeforePasses | Happening::Posts(200))
    });
    for a in &states(&a)[..3] {
        for b in &states(&b)[..3] {
            alphabet.push(Happening::Document([a.clone(), b.clone()].concat()));
        }
    }
    let short = PlainRule { max_duration: Some(8), ..PlainRule::all(Action::Approve) };
    let sweep = Sweep { alphabet, depth: 5, rules: vec![short, PlainRule::all(Action::Prepare)] };
    println!("{} sequences", sweep.run());
}

#[test]
fn every_short_story_of_an_own_event_and_another_machines() {
    let (a, b) = (event("a"), event("b").of(&[OTHER]));
    let mut alphabet = outside();
    for a in &states(&a)[..2] {
        for b in &states(&b)[..3] {
            alphabet.push(Happening::Document([a.clone(), b.clone()].concat()));
        }
    }
    let any = PlainRule { scope: Scope::Any, ..PlainRule::all(Action::Prepare) };
    let sweep = Sweep { alphabet, depth: 4, rules: vec![any] };
    println!("{} sequences", sweep.run());
}

fn specs() -> impl Strategy<Value = Spec> {
    let resources: &'static [&'static [&'static str]] = &[&[VM], &[VM], &[OTHER], &[OTHER, VM], &[VM, OTHER], &[]];
    let odd = select(&["EventType", "EventSource", "DurationInSeconds", "EventStatus"][..]);
    (
        select(&["a", "b", "c", "d", "e", "f", "g"][..]),
        select(&["Freeze", "Preempt", "Terminate"][..]),
        select(&["Scheduled", "Scheduled", "Scheduled", "Started", "Queued", "Completed", "Canceled"][..]),
        select(resources),
        select(&[None, Some(-1), Some(5), Some(30)][..]),
        select(&[Some(900), Some(1200), None][..]),
        proptest::option::weighted(0.05, odd),
    )
        .prop_map(|(id, event_type, status, resources, duration, not_before, odd)| Spec {
            not_before,
            duration,
            odd,
            ..event(id).typed(event_type).status(status).of(resources)
        })
}

fn happenings() -> impl Strategy<Value = Vec<Happening>> {
    let document = vec(specs(), 0..7).prop_map(|mut events| {
        let mut seen = std::collections::HashSet::new();
        events.retain(|spec| seen.insert(spec.id.clone()));
        Happening::Document(events)
    });
    let names = select(vec![vec![VM], vec![VM], vec![], vec![OTHER], vec![OTHER, VM]]).prop_map(Happening::Names);
    let happening = prop_oneof![6 => document, 8 => select(outside()), 1 => names];
    vec(happening, 10..80)
}

fn rules() -> impl Strategy<Value = Vec<PlainRule>> {
    let rule = (
        select(&[None, Some("Freeze"), Some("Preempt")][..]),
        select(&[None, Some(8)][..]),
        select(&[Scope::Mine, Scope::Any, Scope::Others][..]),
        select(&[Action::Approve, Action::Prepare, Action::Hold, Action::Ignore][..]),
    );
    let rule = rule.prop_map(|(event_type, max_duration, scope, action)| PlainRule {
        event_type,
        max_duration,
        scope,
        action,
    });
    vec(rule, 0..4)
}

#[test]
fn long_stories_of_many_events() {
    let leader = select(&[Leader::FirstResource, Leader::Everyone, Leader::Rank { take_over_after: 3 }][..]);
    let config = ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(rules in rules(), leader in leader, happenings in happenings())| {
        let mut pair = Pair::<8>::new(&rules, leader);
        let setup = pair.host.setup.clone();
        for happening in &happenings {
            pair.happen(happening).unwrap_or(Ok(())).map_err(TestCaseError::fail)?;
        }
        for law in [
            laws::only_scheduled_ones,
            laws::only_own_ones,
            laws::never_twice,
            laws::only_when_ready,
            laws::odd_ones_are_held,
            laws::only_a_document_ends,
        ] {
            law(&pair.host.trace, &setup).map_err(TestCaseError::fail)?;
        }
    });
}

/// After a document was read twice, and what it ended was dealt with: own events first, the earliest deadlines of them,
/// and the rest counted.
fn check_capacity<const N: usize>(host: &mut Host<N>, events: &[Spec]) -> Result<(), TestCaseError> {
    let untracked = |host: &Host<N>| {
        host.trace.iter().rev().find_map(|entry| match entry.what {
            What::Untracked(untracked) => Some(untracked),
            _ => None,
        })
    };
    let prepared: Vec<_> = host.preparing.clone();
    host.serve(events);
    host.serve(events);
    let followed: Vec<_> = host.session.events().map(|event| event.event_id().to_string()).collect();
    let (followed, left): (Vec<_>, Vec<_>) = events.iter().partition(|spec| followed.contains(&spec.id));
    for id in prepared.iter().filter(|id| events.iter().any(|spec| spec.id == **id)) {
        prop_assert!(followed.iter().any(|spec| spec.id == *id), "{} was dropped in its preparation", id);
    }
    let own = |specs: &[&Spec]| specs.iter().filter(|spec| spec.names(&[VM])).count();
    let others = |specs: &[&Spec]| specs.iter().filter(|spec| !spec.names(&[VM])).count();
    let reported = untracked(host).unwrap_or_default();
    prop_assert_eq!((reported.own, reported.others), (own(&left), others(&left)), "counted wrongly");
    prop_assert!(left.is_empty() || followed.len() == N, "there was room");
    if host.setup.policy.rules().is_empty() {
        prop_assert!(own(&left) == 0 || others(&followed) == 0, "an own event gave way to another machine's");
        let deadlines = |specs: &[&Spec]| -> Vec<_> {
            specs.iter().filter(|spec| spec.names(&[VM])).map(|spec| spec.not_before.unwrap()).collect()
        };
        let latest_kept = deadlines(&followed).into_iter().max();
        let earliest_left = deadlines(&left).into_iter().min();
        prop_assert!(earliest_left.is_none() || latest_kept <= earliest_left, "{:?} {:?}", latest_kept, earliest_left);
    }
    Ok(())
}

#[test]
fn more_events_than_there_is_room_for() {
    let resources: &'static [&'static [&'static str]] = &[&[VM], &[OTHER], &[OTHER, VM]];
    let spec = (0..9_usize, select(resources), 1..9_i64)
        .prop_map(|(id, resources, hours)| event(&format!("e{id}")).of(resources).at(hours * 3600));
    let documents = vec(vec(spec, 0..9), 1..12);
    let config = ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(documents in documents, prepares: bool)| {
        let rules: &[_] = if prepares { &[PlainRule::all(Action::Prepare)] } else { &[] };
        let mut host = Host::<3>::new(Setup::new(model::policy(rules, Leader::Everyone)));
        for mut events in documents {
            let mut seen = std::collections::HashSet::new();
            events.retain(|spec| seen.insert(spec.id.clone()));
            // Answered before the next document, so that what has gone leaves room.
            for id in host.preparing.clone().into_iter().step_by(2) {
                host.ready(&id);
            }
            for id in host.preparing.clone() {
                if !events.iter().any(|spec| spec.id == id) {
                    host.ready(&id);
                }
            }
            check_capacity(&mut host, &events)?;
        }
    });
}
