//! Calls of every public function of core, with arguments that the compiler cannot see through.
//!
//! Each function returns whether its results are right, so that the same program that is searched for panics can be run,
//! too.
#![no_std]
#![forbid(unsafe_code)]

mod outside;
mod rest;

use core::fmt::{self, Write};
use core::hint::black_box;
use core::time::Duration;

use scheduled_events_core::api_version::{self, Feature};
use scheduled_events_core::record::{
    self, CauseWord, EXAMPLES, EventMembers, HookOutcome, KINDS, Printable, PrintableJson, Record,
    ResourceList,
};
use scheduled_events_core::spot::{
    Allocation, EvictionCause, EvictionPolicy, EvictionType, MaxPrice, Phase, Signal, SpotInput,
    SpotState,
};
use scheduled_events_core::terminate::{
    FifteenMinutes, NotBeforeTimeout, OsImageNotificationProfile, ScheduledEventsProfile,
    TerminateNotificationProfile,
};
use scheduled_events_core::{
    Action, AnswerOutcome, BufferTooSmall, Cause, Change, Decision, Document, EVENT_ID_MAX, Event,
    EventCursor, EventId, EventKind, EventSource, EventSources, EventStatus, EventType, EventTypes,
    GateAnswer, Incarnation, LastCall, Leader, MAX_RULES, Member, NotBefore, ParseError,
    ParseErrorKind, Policy, Position, Preparation, Problem, ProblemKind, Reason, Report,
    RequestOutcome, Response, Rule, Scope, Session, SessionConfig, SessionConfigError,
    SnapshotError, SourceKind, StartRequests, Step, Text, TickClock, TooManyRules, TrackedEvent,
    TrackedStatus, Tracker, TrackerFull, UnixMillis, UnixSeconds, Untracked, VmNames,
};

pub use rest::the_rest;

/// One event to approve, one that names another machine, and one without an id.
pub const SAMPLE: &[u8] = br#"{"DocumentIncarnation":7,"Unknown":[{"a":[1e3,"\u00e9"]}],"Events":[
 {"EventId":"C7061BAC-AFDC-4513-B24B-AA5F13A16123","EventStatus":"Scheduled","EventType":"Freeze","ResourceType":
  "VirtualMachine","Resources":["WestNO_0","WestNO_1"],"NotBefore":"Mon, 11 Apr 2022 22:26:58 GMT",
  "Description":"caf\u00e9 \ud83d\ude00","EventSource":"Platform","DurationInSeconds":5},
 {"EventId":"b","EventStatus":"Started","EventType":"Brew","Resources":["WestNO_9"],"NotBefore":"soon"},
 {"EventType":"Reboot"}]}"#;

/// The same with nothing left to announce.
pub const EMPTY: &[u8] = br#"{"DocumentIncarnation":8,"Events":[]}"#;

pub const NOW: UnixSeconds = UnixSeconds(1_649_715_600); // 2022-04-11T22:20:00Z
pub const BODY: &[u8] =
    br#"{"StartRequests":[{"EventId":"C7061BAC-AFDC-4513-B24B-AA5F13A16123"}]}"#;

pub const EVENTS: usize = 16;
pub type Followed = Session<EVENTS>;

/// Takes what is displayed, whatever its length, and counts it.
#[derive(Default)]
struct Sink {
    bytes: usize,
}

impl Write for Sink {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.bytes = self.bytes.wrapping_add(black_box(text).len());
        Ok(())
    }
}

/// Displays the value; the bytes that it took.
fn shown(value: &dyn fmt::Display) -> usize {
    let mut sink = Sink::default();
    let _ = write!(sink, "{value}");
    // With width and alignment, as tables ask for.
    let _ = write!(sink, "{value:>9.4}");
    sink.bytes
}

fn reach<T>(value: T) {
    let _ = black_box(value);
}

/// Whether the sample, given as bytes, parses, and nothing more: what a reader without policy links.
#[inline(never)]
#[must_use]
pub fn parse(input: &[u8]) -> bool {
    match Document::parse(input) {
        Ok(document) => {
            let mut bytes: usize = 0;
            for event in document.events() {
                bytes = bytes.wrapping_add(black_box(event).event_id().raw().len());
            }
            document.problems().for_each(reach);
            bytes == 37
        }
        Err(error) => {
            reach(error.position(input));
            false
        }
    }
}

/// Parse, track, decide, approve: what an agent with its own loop links.
#[inline(never)]
#[must_use]
pub fn approve(input: &[u8], names: &[&str], now: UnixSeconds) -> bool {
    let Ok(document) = Document::parse(input) else {
        return false;
    };
    let names = VmNames::new(names);
    let mut tracker = Tracker::<EVENTS>::new();
    let mut changes = 0_u32;
    let observed = tracker.observe(&document, names, now, |change, event| {
        reach((change.word(), event.event_id().as_str().len()));
        changes = changes.wrapping_add(1);
    });
    let policy = black_box(Policy::sample());
    let mut approved = 0_u32;
    let mut body = [0; 128];
    for event in document.events() {
        let decision = policy.decide(&event, names, now);
        if decision.action == Action::Approve {
            match StartRequests::new(&[event.event_id()]).write(&mut body) {
                Ok(length) if body.get(..length) == Some(BODY) => {
                    approved = approved.wrapping_add(1);
                }
                _ => return false,
            }
            reach(tracker.approved(&EventId::new(&event.event_id())));
        }
    }
    observed.is_ok() && changes == 2 && approved == 1 && tracker.len() == 2
}

/// A whole life of the sample's event through a session: poll, approve, restart, see it gone, recover.
#[inline(never)]
#[must_use]
pub fn session(input: &[u8], names: &[&str], now: UnixSeconds) -> bool {
    let config = SessionConfig {
        policy: preparing(),
        seed: 1,
        ..SessionConfig::new(VmNames::new(names))
    };
    let Ok(mut session) = Followed::new(&config) else {
        return false;
    };
    let mut now = UnixMillis::from(now);
    let mut counts = Counts::default();
    let mut snapshot = [0; 4096];
    for round in 0..black_box(60_u32) {
        let before = counts;
        step(&mut session, input, &mut now, &mut counts);
        if before != counts || round == 30 {
            let Ok(length) = session.snapshot(&mut snapshot) else {
                return false;
            };
            let Ok(mut restarted) = Followed::new(&config) else {
                return false;
            };
            if restarted
                .restore(snapshot.get(..length).unwrap_or_default())
                .is_err()
            {
                return false;
            }
            restarted.events().for_each(reach);
            if round == 30 {
                session = restarted;
            }
        }
    }
    counts
        == Counts {
            changes: 4,
            decisions: 2,
            problems: 2,
            prepared: 1,
            posted: 1,
            recovered: 1,
        }
        && session.is_idle()
}

/// How many steps of each kind a session returned.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Counts {
    changes: u32,
    decisions: u32,
    problems: u32,
    prepared: u32,
    posted: u32,
    recovered: u32,
}

fn preparing() -> Policy {
    let freeze = Rule {
        event_types: EventTypes::of(&[EventKind::Freeze]),
        ..Rule::new(Action::Prepare)
    };
    reach(freeze.event_types.contains(black_box(EventKind::Freeze)));
    let mut policy = Policy::new(black_box(&[freeze])).unwrap_or_default();
    // The event is of several machines.
    policy.leader = Some(Leader::FirstResource);
    policy
}

fn step(session: &mut Followed, input: &[u8], now: &mut UnixMillis, counts: &mut Counts) {
    let one_more = |count: &mut u32| *count = count.wrapping_add(1);
    match session.take_step(*now) {
        Step::Get {
            api_version,
            timeout_ms,
        } => {
            reach((api_version, timeout_ms));
            let body = if counts.posted == 0 { input } else { EMPTY };
            let response = Response {
                status: 200,
                body,
                ..Response::default()
            };
            reach(session.on_response(&response, *now));
        }
        Step::Post { body, .. } => {
            if body == BODY {
                one_more(&mut counts.posted);
            }
            session.posted().for_each(reach);
            // The first attempt fails.
            if now.seconds().0 & 1 == 0 {
                reach(session.on_failure(Cause::Timeout, *now));
                counts.posted = counts.posted.wrapping_sub(1);
            } else {
                reach(session.on_response(
                    &Response {
                        status: 200,
                        ..Response::default()
                    },
                    *now,
                ));
            }
            *now = now.plus(1000);
        }
        Step::Wait { until } => *now = until,
        Step::Prepare {
            event,
            by_last_call,
            attempt,
        } => {
            reach((event, by_last_call));
            one_more(&mut counts.prepared);
            reach(session.prepared(attempt, black_box(Preparation::Ready)));
        }
        Step::Recover {
            events,
            own,
            attempt,
        } => {
            reach((events.last(), own));
            events.iter().for_each(reach);
            one_more(&mut counts.recovered);
            reach((
                session.recovering().for_each(reach),
                session.keeping_out().for_each(reach),
                session.out_of_service_since(),
            ));
            reach(session.recovered(attempt, black_box(true), *now));
        }
        Step::Gate {
            event,
            phase,
            attempt,
        } => {
            reach((event, phase));
            if let Some(ahead) = session.would_prepare(attempt, *now) {
                reach((ahead.event(), ahead.out_of_service_since()));
                reach(ahead.snapshot(black_box(&mut [0; 256])));
            }
            reach(session.gate_answered(attempt, black_box(GateAnswer::Open), *now));
        }
        Step::Cancel { attempt } => reach(attempt),
        Step::Report(Report::Change { change, event }) => {
            reach((change, event));
            one_more(&mut counts.changes);
        }
        Step::Report(Report::Decision { decision, event }) => {
            reach((decision, event));
            one_more(&mut counts.decisions);
        }
        Step::Report(Report::LastCall { event }) => reach(event),
        Step::Report(Report::Problem(problem)) => {
            reach(problem);
            one_more(&mut counts.problems);
        }
        Step::Report(Report::Untracked(untracked)) => reach(untracked),
        Step::Report(Report::NoAdvice) => {}
    }
}

fn the_error(error: ParseError, input: &[u8]) {
    let position = error.position(input);
    reach((
        shown(&error),
        shown(&error.message()),
        error.kind.word(),
        error.kind.message(),
        shown(&position),
        error == black_box(error),
    ));
    reach(Position::of(input, error.offset));
    reach(shown(&BufferTooSmall {
        needed: error.offset,
    }));
    reach::<ParseErrorKind>(error.kind);
}

fn the_document(document: &Document<'_>, text: &str, names: VmNames<'_>, number: i64) {
    match document.incarnation() {
        Incarnation::Number(number) => reach(number),
        Incarnation::Text(incarnation) => the_text(incarnation, text),
        Incarnation::Absent => {}
    }
    reach(document.incarnation() == Incarnation::Absent);
    reach((document.events().len(), document.events().size_hint()));
    document.events_for(names).for_each(reach);
    for event in document.events() {
        the_event(&event, text);
        reach((names.rank(&event), names.owns(&event)));
        let decision = Policy::sample().decide(&event, names, UnixSeconds(number));
        the_decision(decision);
    }
    let mut cursor = EventCursor::default();
    while let Some(event) = document.next_event(&mut cursor) {
        the_event(&event, text);
    }
    the_records(document, text, names, number);
    for Problem {
        event,
        member,
        offset,
        kind,
        ..
    } in document.problems()
    {
        reach::<(_, _, _, ProblemKind)>((event, member, offset, kind));
        reach((
            kind.word(),
            member.map(Member::name),
            member.map(|member| shown(&member)),
        ));
    }
    let mut ids = [Text::plain(""); 3];
    for (id, event) in ids.iter_mut().zip(document.events()) {
        *id = event.event_id();
    }
    let requests = StartRequests::new(&ids);
    reach((
        requests.len(),
        requests.is_empty(),
        requests.write(black_box(&mut [0; 300])),
    ));
    reach(StartRequests::new(black_box(&[text, text])).write(black_box(&mut [0; 300])));
    let kept = [
        EventId::new(&Text::plain(text)),
        EventId::new(&Text::plain(text)),
    ];
    reach(StartRequests::new(black_box(&kept)).write(black_box(&mut [0; 300])));
    reach((
        kept[0] == kept[1],
        kept[0].as_str().len() <= EVENT_ID_MAX,
        shown(&kept[0]),
        kept[0].as_ref().len(),
    ));
}

/// Records are built here; the caller brings the serde writer, which may contain panics.
fn the_records(document: &Document<'_>, text: &str, names: VmNames<'_>, number: i64) {
    reach(Record::from_document(document).kind());
    for problem in document.problems() {
        reach(Record::from_problem(
            &problem,
            black_box(Some(text.as_bytes())),
        ));
    }
    for event in document.events() {
        let decision = Policy::sample().decide(&event, names, UnixSeconds(number));
        reach(Record::from_decision(
            &decision,
            EventMembers::from_event(&event, names),
        ));
        reach(Record::last_call(EventMembers::from_event(&event, names)));
        let members = EventMembers::from_event(&event, names);
        ResourceList::Document(event.resources())
            .iter()
            .for_each(reach);
        reach(members);
    }
    ResourceList::Names(black_box(&[text]))
        .iter()
        .for_each(reach);
    EXAMPLES.iter().for_each(reach);
    for record in EXAMPLES {
        reach(shown(record));
    }
    for kind in KINDS {
        kind.members().for_each(reach);
    }
    reach((
        text.chars().any(record::is_unsafe_to_print),
        shown(&Printable(text)),
        shown(&PrintableJson(text)),
    ));
    reach((
        shown(&CauseWord(black_box(Cause::Timeout))),
        black_box(HookOutcome::Failed).word(),
        black_box(HookOutcome::Failed).to_report(black_box(AnswerOutcome::Accepted)),
        black_box(HookOutcome::Failed).preparation(),
        black_box(HookOutcome::Failed).has_recovered(),
    ));
}

fn the_event(event: &Event<'_>, text: &str) {
    reach((
        event.index(),
        event.duration_in_seconds(),
        event.unreliable_member(),
    ));
    reach((
        event.object(),
        event.text(black_box(Member::NotBefore)),
        event.layout().event(black_box(text)).event_id(),
    ));
    event
        .layout()
        .event(black_box(text))
        .resources()
        .iter()
        .for_each(reach);
    the_text(event.event_id(), text);
    for other in [event.resource_type(), event.description()]
        .into_iter()
        .flatten()
    {
        the_text(other, text);
    }
    if let Some(word) = event.event_type() {
        reach((
            shown(&word),
            word == EventType::Freeze,
            EventKind::from(word),
        ));
        the_text(word.text(), text);
    }
    if let Some(word) = event.event_status() {
        reach((shown(&word), word == EventStatus::Started, word.is_over()));
        the_text(word.text(), text);
    }
    if let Some(word) = event.event_source() {
        reach((
            shown(&word),
            word == EventSource::User,
            SourceKind::from(word),
        ));
        the_text(word.text(), text);
    }
    if let NotBefore::Unreadable(time) = event.not_before() {
        the_text(time, text);
    }
    reach((
        event.not_before().moment(),
        event.not_before() == NotBefore::Unset,
    ));
    let resources = event.resources();
    reach((resources.is_present(), resources.iter().for_each(reach)));
    reach((resources.are_several(), event.is_advice()));
    for name in &resources {
        the_text(name, text);
    }
    resources.into_iter().for_each(reach);
}

fn the_text(text: Text<'_>, other: &str) {
    reach((
        text.raw(),
        text.as_str(),
        text.is_empty(),
        text.decoded_len(),
        shown(&text),
    ));
    reach((
        text == *other,
        text == other,
        text == Text::plain(other),
        text.eq_ignore_ascii_case(other),
    ));
    reach(Text::from_raw(text.raw(), true) == text);
    reach(text.copy_to(black_box(&mut [0; 40])).map(str::len));
    reach(text.copy_bytes_to(black_box(&mut [0; 40])).map(<[u8]>::len));
    text.chars().for_each(reach);
}

fn the_times(text: &str, number: i64) {
    let moment = UnixSeconds::parse(text).unwrap_or(UnixSeconds(number));
    reach((
        shown(&moment),
        moment.since(UnixSeconds(number)),
        moment < UnixSeconds(number),
    ));
    reach(moment.minus(black_box(u32::MAX)));
    reach(
        moment
            .write(black_box(&mut [0; UnixSeconds::WRITTEN_MAX]))
            .map(str::len),
    );
    let millis = UnixMillis::from(moment);
    reach((
        millis.plus(u32::MAX),
        millis.seconds(),
        millis.millis_since(UnixMillis(number)),
        millis.checked_add(black_box(Duration::MAX)),
        millis + black_box(Duration::from_millis(1)),
        TickClock::new(millis, black_box(7)).now(black_box(3)),
    ));
}

fn the_decision(decision: Decision) {
    reach((
        decision.action.word(),
        decision.rule,
        decision.approve_after,
        decision.time_left,
    ));
    reach((
        decision.same_as(&black_box(decision)),
        shown(&decision.reason),
        decision.reason == Reason::Rule,
    ));
}

fn the_policies(number: i64) {
    let bits = u8::try_from(number).unwrap_or_default();
    reach((
        EventTypes::from_bits(bits).map(EventTypes::bits),
        EventSources::from_bits(bits).map(EventSources::bits),
    ));
    let (action, scope) = match number & 3 {
        0 => (Action::Approve, Scope::Mine),
        1 => (Action::Prepare, Scope::Others),
        2 => (Action::Hold, Scope::Any),
        _ => (Action::Ignore, Scope::default()),
    };
    let rule = Rule {
        event_types: EventTypes::of(black_box(&[EventKind::Other, EventKind::Preempt])),
        sources: EventSources::of(black_box(&[SourceKind::Other, SourceKind::User])),
        min_duration: black_box(Some(1)),
        max_duration: black_box(None),
        min_notice: black_box(None),
        max_notice: black_box(Some(u32::MAX)),
        prepare_before: black_box(Some(u32::MAX)),
        scope,
        action,
    };
    let rules = [rule; MAX_RULES + 1];
    for count in [1, MAX_RULES, MAX_RULES + 1] {
        match Policy::new(rules.get(..black_box(count)).unwrap_or_default()) {
            Ok(mut policy) => {
                policy.leader = Some(Leader::Rank {
                    take_over_after: black_box(u32::MAX),
                });
                let Ok(document) = Document::parse(black_box(SAMPLE)) else {
                    return;
                };
                for event in document.events() {
                    the_decision(policy.decide(
                        &event,
                        VmNames::new(black_box(&["westno_1"])),
                        NOW,
                    ));
                }
                reach((policy.rules().len(), policy == Policy::observe()));
                reach(policy.names_advice());
            }
            Err(error) => reach((shown(&error), error == TooManyRules)),
        }
    }
}

fn the_tracked(event: &TrackedEvent) {
    reach(EventMembers::from_tracked(event));
    reach(EventMembers::unknown(Text::plain(
        event.event_id().as_str(),
    )));
    reach((
        event.event_id().as_str(),
        event.event_type(),
        event.not_before(),
        event.duration_in_seconds(),
    ));
    reach((
        event.mine(),
        event.is_approved(),
        event.is_gone(),
        event.is_advice(),
        event.status() == TrackedStatus::Unclear,
    ));
}

fn the_change(change: Change) {
    reach((change.word(), change.is_end(), shown(&change)));
}

fn the_tracker(input: &[u8], names: VmNames<'_>, number: i64) {
    let mut tracker = black_box(Tracker::<2>::with_seed(number.unsigned_abs()));
    for body in [input, SAMPLE, input, EMPTY] {
        let Ok(document) = Document::parse(black_box(body)) else {
            continue;
        };
        let observed = tracker.observe(&document, names, UnixSeconds(number), |change, event| {
            the_change(change);
            the_tracked(event);
        });
        if let Err(error) = observed {
            reach((shown(&error), error == TrackerFull { needed: 3 }));
        }
        for event in document.events() {
            reach(tracker.approved(&EventId::new(&event.event_id())));
        }
        tracker.iter().for_each(the_tracked);
        reach((tracker.len(), tracker.is_empty()));
    }
}

fn the_session(input: &[u8], text: &str, names: VmNames<'_>, number: i64) {
    let last_call = black_box(LastCall::Before(7));
    reach(last_call.from(text, UnixSeconds(number), black_box(None)));
    let config = SessionConfig {
        interval_ms: black_box(200),
        dry_run: black_box(false),
        gate: black_box(true),
        last_call,
        ..SessionConfig::new(names)
    };
    let mut session = match Session::<2>::new(&config) {
        Ok(session) => session,
        Err(error) => return reach((shown(&error), error == SessionConfigError::TooManyNames)),
    };
    reach(session.set_machine_id(text));
    session.set_policy(black_box(Policy::sample()));
    if let Err(error) = session.set_names(VmNames::new(black_box(&[text]))) {
        reach(shown(&error));
    }
    let now = UnixMillis(number);
    session.set_time_of_day_ahead(black_box(number));
    reach((session.repeat_version(), session.advice_unseen_since()));
    session.set_out_of_service(now);
    session.repeat_answered();
    for _ in 0..black_box(9) {
        match session.take_step(now) {
            Step::Report(report) => {
                reach(shown(&report));
                reach((report.event(), report.as_ref().event()));
                let report = report.map(|event| {
                    let newest = Some(EventMembers::unknown(Text::plain(
                        event.event_id().as_str(),
                    )));
                    EventMembers::from_tracked(event).with_newest(newest)
                });
                let record = Record::from_report(&report, Some(input)).at(UnixSeconds(number));
                let record = record.of_machine(black_box(Some("vm")), black_box(None));
                reach(shown(&record));
                reach(record);
            }
            other => reach(other),
        }
        let status = black_box(200);
        let response = Response {
            status,
            retry_after: black_box(Some(9)),
            body: input,
        };
        the_outcome(session.on_response(&response, now));
        the_outcome(
            session.on_response_with(&response, now, |document| reach(document.incarnation())),
        );
        the_outcome(session.on_failure(black_box(Cause::Redirect(301)), now));
        let attempt = black_box(1);
        reach((
            session.prepared(attempt, Preparation::Failed),
            session.recovered(attempt, black_box(false), now),
        ));
        reach(session.gate_answered(attempt, black_box(GateAnswer::Closed), now));
        reach((
            session.recovering().for_each(reach),
            session.keeping_out().for_each(reach),
            session.posted().for_each(reach),
        ));
        reach((
            session.out_of_service_since(),
            session.in_service_since(),
            session.recovery(),
            session.open_failures(),
        ));
        for (event, waiting) in session.waiting(now) {
            reach((
                event.event_id(),
                waiting.rule(),
                waiting.reason(),
                shown(&waiting.waits_for),
            ));
        }
        session.events().for_each(the_tracked);
        reach((
            session.has_seen_event(),
            session.awaits_answer(),
            session.is_idle(),
            session.clone().is_idle(),
        ));
        if session.is_changed() {
            if let Err(error) = session.snapshot(black_box(&mut [0; 500])) {
                reach(shown(&error));
            }
            session.saved();
        }
        reach(scheduled_events_core::snapshot_length(input));
        if let Err(error) = session.restore(input) {
            reach((shown(&error), error == SnapshotError::Damaged));
        }
    }
    reach(shown(&Report::Untracked(black_box(Untracked::default()))));
}

fn the_spot_machine(number: i64) {
    let at = usize::try_from(number).unwrap_or_default();
    let (phase, signal) = (Phase::ALL.get(at % 6), Signal::ALL.get(at % 6));
    if let (Some(phase), Some(signal)) = (phase, signal) {
        reach((
            phase.next(*signal),
            phase.processes(),
            shown(phase),
            shown(signal),
        ));
    }
    for kind in EvictionType::ALL {
        for cause in EvictionCause::ALL {
            reach((kind.is_evicted_for(cause), shown(&kind), shown(&cause)));
        }
    }
    let policy = black_box(EvictionPolicy::Delete);
    reach((policy.effect(), shown(&policy)));
    let allocation = Allocation {
        has_capacity: black_box(true),
        max_price: black_box(MaxPrice::Unlimited),
        policy,
    };
    for input in SpotInput::ALL {
        reach(SpotState::after(black_box(None), input, allocation));
        for state in SpotState::ALL {
            reach((
                SpotState::after(Some(state), input, allocation),
                state.charges(),
                shown(&state),
                shown(&input),
            ));
        }
    }
}

fn the_versions(text: &str) {
    reach(api_version::versions().any(|version| version == text));
    for feature in [
        Feature::Events(black_box(EventKind::Preempt)),
        Feature::Description,
        Feature::EventSource,
        Feature::DurationInSeconds,
    ] {
        reach((feature.since(), feature.is_in(text), feature.words()));
    }
}

fn the_profiles(text: &str, number: i64) {
    let number = u32::try_from(number).unwrap_or_default();
    for timeout in [
        NotBeforeTimeout::parse(text),
        NotBeforeTimeout::from_seconds(number),
        NotBeforeTimeout::from_minutes(number),
    ] {
        match timeout {
            Ok(timeout) => {
                reach((
                    timeout.as_seconds(),
                    timeout.as_whole_minutes(),
                    shown(&timeout),
                ));
                reach(timeout.write(black_box(&mut [0; 3])));
                reach(TerminateNotificationProfile::enabled(timeout).check(black_box(true), text));
                reach(ScheduledEventsProfile::terminate(timeout));
            }
            Err(rule) => reach((rule.word(), rule.message(), shown(&rule))),
        }
    }
    reach(TerminateNotificationProfile::disabled().check(black_box(false), text));
    reach((
        OsImageNotificationProfile::enabled(),
        OsImageNotificationProfile::disabled(),
        FifteenMinutes::parse(text),
    ));
}

fn the_outcome(outcome: RequestOutcome) {
    reach(Cause::of_status(black_box(503)));
    if let RequestOutcome::PollFailed { cause, retry_in_ms } = outcome {
        reach((cause.word(), shown(&cause), retry_in_ms));
    }
    reach(outcome);
}

/// What the search must find: an index out of range, an overflow, and an `unwrap`.
#[cfg(feature = "deliberate-panic")]
#[inline(never)]
pub fn panic_on_purpose(input: &[u8], number: i64) {
    reach(input[black_box(7)]);
    reach(number + 1);
    reach(
        input
            .first_chunk::<3>()
            .ok_or(BufferTooSmall { needed: 3 })
            .unwrap(),
    );
}
