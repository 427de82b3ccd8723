//! A session of the C ABI and one of core get the same calls. Their steps, outcomes and snapshots must be equal.

use std::ffi::c_void;
use std::mem::MaybeUninit;

use arbitrary::{Result, Unstructured};
use scheduled_events_c_abi::schedev_status::{
    SCHEDEV_END, SCHEDEV_ERROR_ARGUMENT, SCHEDEV_ERROR_SNAPSHOT_DAMAGED,
    SCHEDEV_ERROR_SNAPSHOT_OTHER_MACHINE, SCHEDEV_ERROR_SNAPSHOT_TOO_MANY_EVENTS,
    SCHEDEV_ERROR_SNAPSHOT_VERSION, SCHEDEV_ERROR_UNKNOWN_EVENT, SCHEDEV_OK,
};
use scheduled_events_c_abi::schedev_step_kind::SCHEDEV_STEP_RECOVER;
use scheduled_events_c_abi::{
    Flag, SCHEDEV_LAST_CALL_STANDARD, SCHEDEV_PREPARE_RETRIES_UNLIMITED,
    SCHEDEV_SESSION_EVENTS_MAX, SCHEDEV_SNAPSHOT_MAX_BYTES, SCHEDEV_STEP_JSON_MAX_BYTES,
    schedev_cause_word, schedev_change_word, schedev_notification_cursor,
    schedev_notification_order, schedev_notification_order_end, schedev_notification_outcome_word,
    schedev_notifications_next, schedev_notifications_parse, schedev_outcome,
    schedev_parse_error_word, schedev_response, schedev_session,
    schedev_session_advice_unseen_since, schedev_session_config, schedev_session_event,
    schedev_session_gate_answered, schedev_session_has_seen_event, schedev_session_init,
    schedev_session_is_idle, schedev_session_next, schedev_session_on_failure,
    schedev_session_on_notification, schedev_session_on_response,
    schedev_session_out_of_service_since, schedev_session_posted, schedev_session_prepared,
    schedev_session_recovered, schedev_session_recovering, schedev_session_repeat_answered,
    schedev_session_repeat_version, schedev_session_restore, schedev_session_set_machine_id,
    schedev_session_set_names, schedev_session_size, schedev_session_snapshot,
    schedev_session_waiting, schedev_step, schedev_step_json, schedev_waiting,
    schedev_waits_for_word,
};
use scheduled_events_core::{
    AnswerOutcome, ApiVersion, Cause, Document, EventId, GateAnswer, GatePhase, LastCall,
    NotificationOrder, Notifications, Preparation, Report, RequestOutcome, Response, Session,
    SessionConfig, SessionSource, SnapshotError, Step, UnixMillis, UnixSeconds, VmNames,
};

use super::{
    DecisionView, Names, Policies, ProblemView, TrackedView, UNWRITTEN, capacity, check_buffer,
    plain, text, word,
};
use crate::grammar::{self, rarely};

type Core = Session<SCHEDEV_SESSION_EVENTS_MAX>;

/// A row of Resource Graph, or a message of Event Grid, with this event.
fn row_of(u: &mut Unstructured<'_>, event: &str) -> Result<String> {
    let ends = ["Completed", "Canceled", "Started"];
    let event = match u.int_in_range(0..=5_usize)? {
        number if number < ends.len() => event
            .replace("Scheduled\"", &format!("{}\"", ends[number]))
            .replace("Started\"", &format!("{}\"", ends[number])),
        _ => event.to_owned(),
    };
    let minute = u.int_in_range(0..=59_u8)?;
    Ok(if rarely(u, 2)? {
        format!(r#"{{"type":"microsoft.maintenance/scheduledevents","properties":{event}}}"#)
    } else {
        format!(
            r#"{{"id":"m","eventType":"microsoft.maintenance/scheduledevents/write","eventTime":"2023-11-14T22:{minute:02}:00Z",
            "data":{{"resourceInfo":{{"properties":{event}}}}}}}"#
        )
    })
}

/// The body of a POST.
fn body_of(step: &schedev_step) -> String {
    // SAFETY: the library returned the step, and its session has not changed since.
    let body = unsafe { core::slice::from_raw_parts(step.body.cast::<u8>(), step.body_len) };
    String::from_utf8(body.to_vec()).unwrap()
}

/// A step of either side.
#[derive(Debug, PartialEq)]
enum StepView {
    Wait(i64),
    Get(String, u32),
    Post(String, String, u32),
    Prepare(TrackedView, bool, u32),
    Recover(TrackedView, bool, u32),
    Gate(TrackedView, u32, u32),
    Cancel(u32),
    Change(&'static str, TrackedView),
    Decision(DecisionView, TrackedView),
    Problem(ProblemView),
    Untracked(usize, usize),
    LastCall(TrackedView),
    NoAdvice,
}

impl StepView {
    fn core(step: &Step<'_>) -> Self {
        match step {
            Step::Wait { until } => Self::Wait(until.0),
            Step::Get {
                api_version,
                timeout_ms,
            } => Self::Get((*api_version).to_owned(), *timeout_ms),
            Step::Post {
                body,
                api_version,
                timeout_ms,
            } => {
                let body = String::from_utf8(body.to_vec()).unwrap();
                Self::Post(body, (*api_version).to_owned(), *timeout_ms)
            }
            Step::Prepare {
                event,
                by_last_call,
                attempt,
            } => Self::Prepare(TrackedView::core(event), *by_last_call, *attempt),
            Step::Recover {
                events,
                own,
                attempt,
            } => Self::Recover(TrackedView::core(events.last()), *own, *attempt),
            Step::Gate {
                event,
                phase,
                attempt,
            } => {
                let phase = if *phase == GatePhase::Prepare { 1 } else { 2 };
                Self::Gate(TrackedView::core(event), phase, *attempt)
            }
            Step::Cancel { attempt } => Self::Cancel(*attempt),
            Step::Report(Report::Change { change, event }) => {
                Self::Change(change.word(), TrackedView::core(event))
            }
            Step::Report(Report::Decision { decision, event }) => {
                Self::Decision(DecisionView::core(decision), TrackedView::core(event))
            }
            Step::Report(Report::LastCall { event }) => Self::LastCall(TrackedView::core(event)),
            Step::Report(Report::Problem(problem)) => Self::Problem(ProblemView::core(problem)),
            Step::Report(Report::Untracked(untracked)) => {
                Self::Untracked(untracked.own, untracked.others)
            }
            Step::Report(Report::NoAdvice) => Self::NoAdvice,
        }
    }

    fn c(step: &schedev_step) -> Self {
        assert_eq!(step.reserved, [0; 4]);
        match step.kind {
            1 => Self::Wait(step.until_ms),
            2 => Self::Get(text(step.api_version), step.timeout_ms),
            3 => Self::Post(body_of(step), text(step.api_version), step.timeout_ms),
            4 => Self::Prepare(
                TrackedView::c(&step.event),
                step.by_last_call.is_on(),
                step.attempt,
            ),
            5 => Self::Recover(
                TrackedView::c(&step.event),
                !step.session.is_null(),
                step.attempt,
            ),
            6 => Self::Change(
                word(schedev_change_word(step.change)),
                TrackedView::c(&step.event),
            ),
            7 => Self::Decision(DecisionView::c(&step.decision), TrackedView::c(&step.event)),
            8 => Self::Problem(ProblemView::c(&step.problem)),
            9 => Self::Untracked(step.untracked_own, step.untracked_others),
            10 => Self::Gate(TrackedView::c(&step.event), step.gate_phase, step.attempt),
            11 => Self::Cancel(step.attempt),
            12 => Self::LastCall(TrackedView::c(&step.event)),
            13 => Self::NoAdvice,
            other => panic!("{other} is no step"),
        }
    }
}

/// An outcome of either side: its number, the word of the cause, status, retry, and what is wrong with the body.
type OutcomeView = (u32, &'static str, u16, u32, (&'static str, u32, u32, usize));

fn outcome_of_core(outcome: &RequestOutcome) -> OutcomeView {
    let (number, cause, retry_in_ms) = match *outcome {
        RequestOutcome::Document => (1, None, 0),
        RequestOutcome::Unchanged => (2, None, 0),
        RequestOutcome::Stale => (3, None, 0),
        RequestOutcome::PollFailed { cause, retry_in_ms } => (4, Some(cause), retry_in_ms),
        RequestOutcome::Approved => (5, None, 0),
        RequestOutcome::ApprovalFailed { cause } => (6, Some(cause), 0),
        RequestOutcome::Unexpected => (7, None, 0),
        _ => panic!("an outcome that the header does not name: {outcome:?}"),
    };
    let status = if let Some(Cause::Status(status) | Cause::Redirect(status)) = cause {
        status
    } else {
        0
    };
    let refused = match cause {
        Some(Cause::NotADocument { error, position }) => (
            error.kind.word(),
            position.line,
            position.column,
            error.offset,
        ),
        _ => ("none", 0, 0, 0),
    };
    (
        number,
        cause.as_ref().map_or("none", Cause::word),
        status,
        retry_in_ms,
        refused,
    )
}

fn outcome_of_c(outcome: &schedev_outcome) -> OutcomeView {
    assert_eq!(outcome.reserved, [0; 2]);
    let error = &outcome.error;
    let refused = (
        word(schedev_parse_error_word(error.kind)),
        error.line,
        error.column,
        error.offset,
    );
    let status = u16::try_from(outcome.http_status).expect("a status");
    (
        outcome.kind,
        word(schedev_cause_word(outcome.cause)),
        status,
        outcome.retry_in_ms,
        refused,
    )
}

/// The configuration of both sessions.
struct Setup {
    policies: Policies,
    mine: &'static [&'static str],
    interval_ms: u32,
    dry_run: bool,
    gate: bool,
    recover_all: bool,
    machine_id: &'static str,
    boot_id: &'static str,
    api_version: ApiVersion<'static>,
    source: SessionSource,
}

/// Both sessions, and the memory of the C one.
struct Pair {
    setup: Setup,
    c: *mut schedev_session,
    core: Core,
    _memory: Vec<u8>,
    c_order: Box<schedev_notification_order>,
    order: NotificationOrder<SCHEDEV_SESSION_EVENTS_MAX>,
    now: UnixMillis,
    incarnation: u64,
    /// The highest attempt number so far.
    newest_attempt: u32,
}

pub(super) fn live(u: &mut Unstructured<'_>) -> Result<()> {
    let setup = Setup {
        policies: Policies::choose(u)?,
        mine: u.choose(&[&["vm"][..], &["vm", "höst"], &[]])?,
        interval_ms: u.int_in_range(200..=5_000)?,
        dry_run: rarely(u, 16)?,
        gate: rarely(u, 3)?,
        recover_all: rarely(u, 3)?,
        machine_id: u.choose(&["", "this machine"])?,
        boot_id: u.choose(&["", "first boot"])?,
        api_version: *u.choose(&[
            ApiVersion::Auto,
            ApiVersion::Auto,
            ApiVersion::Advice,
            ApiVersion::Fixed("2019-08-01"),
        ])?,
        source: *u.choose(&SessionSource::ALL)?,
    };
    let mut pair = Pair::new(u, setup)?;
    for _ in 0..u.int_in_range(1..=80)? {
        if u.is_empty() {
            break;
        }
        match u.int_in_range(0..=17_u8)? {
            0..=6 => drop(pair.next()),
            7..=10 => pair.answer(u)?,
            11 => pair.fail(u)?,
            12 => pair.host_answers(u)?,
            13 => pair.now = pair.now.plus(u.int_in_range(0..=100_000)?),
            14 => pair.restart(u)?,
            15 | 16 => pair.notify(u)?,
            _ if rarely(u, 4)? => pair.identify(u)?,
            _ => pair.rename(u)?,
        }
        pair.compare();
    }
    pair.snapshot(u)
}

impl Pair {
    fn new(u: &mut Unstructured<'_>, setup: Setup) -> Result<Self> {
        let &Setup {
            ref policies,
            mine,
            interval_ms,
            dry_run,
            gate,
            recover_all,
            machine_id,
            boot_id,
            api_version,
            source,
        } = &setup;
        let prepare_retries = [None, Some(1)][usize::from(recover_all)];
        let config = SessionConfig {
            policy: policies.core.clone(),
            interval_ms,
            dry_run,
            gate,
            last_call: LastCall::Standard,
            prepare_retries,
            recover_all,
            seed: 5,
            source,
            machine_id,
            boot_id,
            api_version,
            ..SessionConfig::new(VmNames::new(mine))
        };
        let core = Core::new(&config).unwrap();
        let (names, policy) = (Names::new(mine, false), policies.c());
        let names = names.c();
        let config = schedev_session_config {
            struct_size: size_of::<schedev_session_config>(),
            policy: &raw const policy,
            names: &raw const names,
            seed: 5,
            interval_ms,
            dry_run: Flag::new(dry_run),
            gate: Flag::new(gate),
            recover_all: Flag::new(recover_all),
            prepare_retries: match prepare_retries {
                None => SCHEDEV_PREPARE_RETRIES_UNLIMITED,
                Some(retries) => u8::try_from(retries).unwrap(),
            },
            machine_id: plain(machine_id),
            boot_id: plain(boot_id),
            last_call_seconds: SCHEDEV_LAST_CALL_STANDARD,
            source: source as u32,
            api_version: match api_version {
                ApiVersion::Fixed(version) => plain(version),
                _ => plain(""),
            },
            needs_advice: Flag::new(api_version == ApiVersion::Advice),
        };
        // At any alignment, with memory of exactly the required size.
        let (size, shift) = (schedev_session_size(), u.int_in_range(0..=7_usize)?);
        let mut memory = vec![UNWRITTEN; size + shift];
        let mut c = core::ptr::null_mut();
        // SAFETY: the memory stays where it is, on the heap; all else lives through the call.
        let status = unsafe {
            let place: *mut c_void = memory[shift..].as_mut_ptr().cast();
            schedev_session_init(place, size, &raw const config, &raw mut c)
        };
        assert_eq!(status, SCHEDEV_OK);
        let now = UnixMillis(1_700_000_000_000);
        let c_order = Box::new(schedev_notification_order { opaque: [0; 1024] });
        let order = NotificationOrder::new();
        Ok(Self {
            setup,
            c,
            core,
            _memory: memory,
            c_order,
            order,
            now,
            incarnation: 0,
            newest_attempt: 0,
        })
    }

    /// Compares the next steps. After a wait, the time is its end.
    fn next(&mut self) -> StepView {
        let mut step = MaybeUninit::uninit();
        // SAFETY: the session lives; the step is written, since nothing is NULL. Its texts are read before the next call.
        let step = unsafe {
            assert_eq!(
                schedev_session_next(self.c, self.now.0, step.as_mut_ptr()),
                SCHEDEV_OK
            );
            let step = step.assume_init();
            self.newest_attempt = self.newest_attempt.max(step.attempt);
            if step.kind == SCHEDEV_STEP_RECOVER as u32 {
                // The record fits, with the ids of all events that the recovery is for.
                let mut record = vec![0; SCHEDEV_STEP_JSON_MAX_BYTES];
                let mut needed = 0;
                let written = schedev_step_json(
                    &raw const step,
                    core::ptr::null(),
                    core::ptr::null(),
                    record.as_mut_ptr(),
                    record.len(),
                    &raw mut needed,
                );
                assert_eq!(written, SCHEDEV_OK);
            }
            StepView::c(&step)
        };
        assert_eq!(step, StepView::core(&self.core.take_step(self.now)));
        if let StepView::Wait(until) = step {
            self.now = UnixMillis(until);
        }
        step
    }

    fn answer(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        // In most cases, go on to a request.
        for _ in 0..u.int_in_range(0..=8)? {
            if matches!(self.next(), StepView::Get(..) | StepView::Post(..)) {
                break;
            }
        }
        self.incarnation += u.int_in_range(0..=2)?;
        let specs = grammar::specs(u, 5)?;
        let mut body = grammar::document(u, Some(self.incarnation), &specs)?.into_bytes();
        if rarely(u, 8)? {
            let length = u.int_in_range(0..=body.len())?;
            body.truncate(length);
        }
        let status = *u.choose(&[
            200, 200, 200, 200, 200, 204, 301, 304, 400, 404, 410, 429, 500,
        ])?;
        let retry_after = if rarely(u, 4)? {
            Some(u.arbitrary()?)
        } else {
            None
        };
        let body = body.into_boxed_slice();
        let response = schedev_response {
            struct_size: size_of::<schedev_response>(),
            body: if body.is_empty() {
                core::ptr::null()
            } else {
                body.as_ptr().cast()
            },
            body_len: body.len(),
            http_status: u32::from(status),
            retry_after_seconds: retry_after.unwrap_or(0),
            has_retry_after: Flag::new(retry_after.is_some()),
        };
        if rarely(u, 4)? {
            // SAFETY: the session lives.
            let status = unsafe { schedev_session_repeat_answered(self.c) };
            assert_eq!(status, SCHEDEV_OK);
            self.core.repeat_answered();
        }
        let mut outcome = MaybeUninit::uninit();
        // SAFETY: the session lives, and the response through the call; the outcome is written, since all is sound.
        let outcome = unsafe {
            let status = schedev_session_on_response(
                self.c,
                &raw const response,
                self.now.0,
                outcome.as_mut_ptr(),
            );
            assert_eq!(status, SCHEDEV_OK);
            outcome_of_c(&outcome.assume_init())
        };
        let response = Response {
            status,
            retry_after,
            body: &body,
        };
        assert_eq!(
            outcome,
            outcome_of_core(&self.core.on_response(&response, self.now))
        );
        Ok(())
    }

    /// Passes notifications, rows of Resource Graph with the events of a document, to both sessions.
    fn notify(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        let specs = grammar::specs(u, 5)?;
        let document = grammar::document(u, None, &specs)?;
        let rows: Vec<_> = Document::parse(document.as_bytes()).map_or_else(
            |_| Ok(Vec::new()),
            |document| {
                document
                    .events()
                    .map(|event| row_of(u, event.object()))
                    .collect::<Result<_>>()
            },
        )?;
        let body = format!("[{}]", rows.join(","));
        let Ok(notifications) = Notifications::parse(body.as_bytes()) else {
            return Ok(());
        };
        let mut parsed = MaybeUninit::uninit();
        let mut cursor = schedev_notification_cursor { opaque: [0; 24] };
        // SAFETY: the body outlives all that is parsed from it, and the outputs are written, since all is sound.
        unsafe {
            let (data, error) = (body.as_ptr().cast(), core::ptr::null_mut());
            assert_eq!(
                schedev_notifications_parse(data, body.len(), parsed.as_mut_ptr(), error),
                SCHEDEV_OK
            );
            for notification in &notifications {
                let mut c = MaybeUninit::uninit();
                let status =
                    schedev_notifications_next(parsed.as_ptr(), &raw mut cursor, c.as_mut_ptr());
                assert_eq!(status, SCHEDEV_OK);
                let (order, mut outcome) = (&raw mut *self.c_order, 0);
                let status = schedev_session_on_notification(
                    self.c,
                    order,
                    c.as_ptr(),
                    self.now.0,
                    &raw mut outcome,
                );
                assert_eq!(status, SCHEDEV_OK);
                let arrival = self.order.observe(&notification);
                let expected = self.core.on_notification(&notification, arrival, self.now);
                assert_eq!(
                    word(schedev_notification_outcome_word(outcome)),
                    expected.word()
                );
                if rarely(u, 8)? {
                    self.order
                        .end(&EventId::new(&notification.event().event_id()));
                    let id = (*c.as_ptr()).event.event_id;
                    assert_eq!(schedev_notification_order_end(order, id), SCHEDEV_OK);
                }
            }
        }
        Ok(())
    }

    fn fail(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        let causes = [
            Cause::Timeout,
            Cause::Unreachable,
            Cause::ConnectionLost,
            Cause::TooLarge,
        ];
        let number = u.int_in_range(0..=9_usize)?;
        let cause = number.checked_sub(1).and_then(|place| causes.get(place));
        let mut outcome = MaybeUninit::uninit();
        // SAFETY: the session lives; the outcome is written where the call succeeds.
        unsafe {
            let number = u32::try_from(number).unwrap();
            let status =
                schedev_session_on_failure(self.c, number, self.now.0, outcome.as_mut_ptr());
            match cause {
                None => assert_eq!(status, SCHEDEV_ERROR_ARGUMENT),
                Some(cause) => {
                    assert_eq!(status, SCHEDEV_OK);
                    let expected = outcome_of_core(&self.core.on_failure(*cause, self.now));
                    assert_eq!(outcome_of_c(&outcome.assume_init()), expected);
                }
            }
        }
        Ok(())
    }

    /// Answers steps: with the numbers of the newest attempts, with older ones, and with one that was not given.
    fn host_answers(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        for attempt in self.newest_attempt.saturating_sub(3)..=self.newest_attempt.saturating_add(1)
        {
            let mut accepted = Flag::new(rarely(u, 2)?);
            let before = accepted;
            let (number, now) = (u.int_in_range(0..=3_u8)?, self.now);
            let c_number = u32::from(number);
            let place = &raw mut accepted;
            // SAFETY: the session lives, and the output through the call.
            let (status, outcome) = unsafe {
                match u.int_in_range(0..=3_u8)? {
                    0 => continue,
                    1 => {
                        let done = number > 1;
                        let status = schedev_session_recovered(
                            self.c,
                            attempt,
                            Flag::new(done),
                            now.0,
                            place,
                        );
                        (status, Some(self.core.recovered(attempt, done, now)))
                    }
                    2 => {
                        let preparation = match number {
                            1 => Some(Preparation::Ready),
                            2 => Some(Preparation::Failed),
                            3 => Some(Preparation::Abandoned),
                            _ => None,
                        };
                        let status = schedev_session_prepared(self.c, attempt, c_number, place);
                        (
                            status,
                            preparation.map(|preparation| self.core.prepared(attempt, preparation)),
                        )
                    }
                    _ => {
                        let answer = match number {
                            1 => Some(GateAnswer::Open),
                            2 => Some(GateAnswer::AnotherApproves),
                            3 => Some(GateAnswer::Closed),
                            _ => None,
                        };
                        let status =
                            schedev_session_gate_answered(self.c, attempt, c_number, now.0, place);
                        (
                            status,
                            answer.map(|answer| self.core.gate_answered(attempt, answer, now)),
                        )
                    }
                }
            };
            let expected = match outcome {
                Some(AnswerOutcome::Accepted) => (SCHEDEV_OK, Flag::new(true)),
                Some(AnswerOutcome::Cancelled) => (SCHEDEV_OK, Flag::new(false)),
                Some(AnswerOutcome::Unexpected) => (SCHEDEV_ERROR_UNKNOWN_EVENT, before),
                None => (SCHEDEV_ERROR_ARGUMENT, before),
            };
            assert_eq!((status, accepted), expected);
        }
        Ok(())
    }

    fn rename(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        let mine = *u.choose(&[&["vm"][..], &["VM_10", "vm"], &[]])?;
        let names = Names::new(mine, rarely(u, 4)?);
        let known = VmNames::new(mine);
        let known = if names.underscored {
            known.underscored()
        } else {
            known
        };
        let names = names.c();
        // SAFETY: the session lives, and the names through the call.
        let status = unsafe { schedev_session_set_names(self.c, &raw const names) };
        assert_eq!((status, self.core.set_names(known)), (SCHEDEV_OK, Ok(())));
        Ok(())
    }

    /// Sets the id of the machine, as when the metadata service has answered.
    fn identify(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        let id = *u.choose(&["", "this machine", "a clone of it"])?;
        // SAFETY: the session lives, and the id through the call.
        let status = unsafe { schedev_session_set_machine_id(self.c, plain(id)) };
        let expected = match self.core.set_machine_id(id) {
            Ok(()) => SCHEDEV_OK,
            Err(_) => SCHEDEV_ERROR_SNAPSHOT_OTHER_MACHINE,
        };
        assert_eq!(status, expected);
        Ok(())
    }

    fn core_snapshot(&self) -> Vec<u8> {
        let mut snapshot = vec![0; SCHEDEV_SNAPSHOT_MAX_BYTES];
        let length = self
            .core
            .snapshot(&mut snapshot)
            .expect("a buffer that is large enough");
        snapshot.truncate(length);
        snapshot
    }

    /// Takes a snapshot into a buffer of any size.
    fn snapshot(&self, u: &mut Unstructured<'_>) -> Result<()> {
        let expected = self.core_snapshot();
        check_buffer(
            &expected,
            capacity(u, expected.len())?,
            false,
            |buffer, capacity, needed| {
                // SAFETY: the session lives, and the buffer has the capacity.
                unsafe { schedev_session_snapshot(self.c, buffer, capacity, needed) }
            },
        );
        Ok(())
    }

    /// Restores both from a snapshot, which may be truncated or changed.
    fn restart(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        self.snapshot(u)?;
        let mut snapshot = self.core_snapshot();
        if rarely(u, 4)? {
            let place = u.choose_index(snapshot.len())?;
            match u.int_in_range(0..=2_u8)? {
                0 => snapshot.truncate(place),
                1 => snapshot[place] ^= 1 << u.int_in_range(0..=7)?,
                _ => snapshot.insert(place, u.arbitrary()?),
            }
        }
        if rarely(u, 4)? {
            self.move_to_another_host(u)?;
        }
        let snapshot = snapshot.into_boxed_slice();
        // SAFETY: the session lives, and the snapshot through the call.
        let status =
            unsafe { schedev_session_restore(self.c, snapshot.as_ptr().cast(), snapshot.len()) };
        let expected = match self.core.restore(&snapshot) {
            Ok(()) => SCHEDEV_OK,
            Err(SnapshotError::UnknownVersion(_)) => SCHEDEV_ERROR_SNAPSHOT_VERSION,
            Err(SnapshotError::TooManyEvents) => SCHEDEV_ERROR_SNAPSHOT_TOO_MANY_EVENTS,
            Err(SnapshotError::OtherMachine) => SCHEDEV_ERROR_SNAPSHOT_OTHER_MACHINE,
            Err(_) => SCHEDEV_ERROR_SNAPSHOT_DAMAGED,
        };
        assert_eq!(status, expected);
        Ok(())
    }

    /// Replaces both sessions by new ones, after a reboot or on another machine.
    fn move_to_another_host(&mut self, u: &mut Unstructured<'_>) -> Result<()> {
        let policies = self.setup.policies.clone();
        let setup = Setup {
            policies,
            machine_id: u.choose(&["", "this machine", "a clone of it"])?,
            boot_id: u.choose(&["", "first boot", "second boot"])?,
            ..self.setup
        };
        let (now, incarnation, newest_attempt) = (self.now, self.incarnation, self.newest_attempt);
        *self = Self {
            now,
            incarnation,
            newest_attempt,
            ..Self::new(u, setup)?
        };
        Ok(())
    }

    /// Compares the state of both.
    fn compare(&self) {
        let mut event = MaybeUninit::uninit();
        let mut id = MaybeUninit::uninit();
        // SAFETY: the session is alive, and outputs of successful calls are read before the next call that changes it.
        unsafe {
            assert_eq!(schedev_session_is_idle(self.c), self.core.is_idle());
            let version = text(schedev_session_repeat_version(self.c));
            assert_eq!(version, self.core.repeat_version());
            let mut unseen = 0;
            let status = schedev_session_advice_unseen_since(self.c, &raw mut unseen);
            let expected = self.core.advice_unseen_since();
            assert_eq!(
                (status == SCHEDEV_OK).then_some(UnixMillis(unseen)),
                expected
            );
            assert_eq!(
                schedev_session_has_seen_event(self.c),
                self.core.has_seen_event()
            );
            let mut count = 0;
            for (index, expected) in self.core.events().enumerate() {
                assert_eq!(
                    schedev_session_event(self.c, index, event.as_mut_ptr()),
                    SCHEDEV_OK
                );
                assert_eq!(
                    TrackedView::c(&event.assume_init()),
                    TrackedView::core(expected)
                );
                count += 1;
            }
            assert_eq!(
                schedev_session_event(self.c, count, event.as_mut_ptr()),
                SCHEDEV_END
            );
            let mut waiting = MaybeUninit::uninit();
            for (index, (event, expected)) in self.core.waiting(self.now).enumerate() {
                assert_eq!(
                    schedev_session_waiting(self.c, index, self.now.0, waiting.as_mut_ptr()),
                    SCHEDEV_OK
                );
                let found: schedev_waiting = waiting.assume_init();
                assert_eq!(TrackedView::c(&found.event), TrackedView::core(event));
                assert_eq!(
                    word(schedev_waits_for_word(found.waits_for)),
                    expected.waits_for.word()
                );
                let some = |has: Flag, seconds| has.is_on().then_some(UnixSeconds(seconds));
                assert_eq!(
                    (
                        some(found.has_attempt, found.since_seconds),
                        some(found.has_until, found.until_seconds),
                        found.has_attempt.is_on().then_some(found.attempt),
                        found.has_decision.is_on(),
                        found.by_last_call.is_on(),
                    ),
                    (
                        expected.since,
                        expected.until,
                        expected.attempt,
                        expected.decision.is_some(),
                        expected.by_last_call,
                    )
                );
            }
            assert_eq!(
                schedev_session_waiting(self.c, count, self.now.0, waiting.as_mut_ptr()),
                SCHEDEV_END
            );
            count = 0;
            for (index, expected) in self.core.posted().enumerate() {
                assert_eq!(
                    schedev_session_posted(self.c, index, id.as_mut_ptr()),
                    SCHEDEV_OK
                );
                assert_eq!(text(id.assume_init()), expected.as_str());
                count += 1;
            }
            assert_eq!(
                schedev_session_posted(self.c, count, id.as_mut_ptr()),
                SCHEDEV_END
            );
            count = 0;
            for (index, expected) in self.core.recovering().enumerate() {
                assert_eq!(
                    schedev_session_recovering(self.c, index, id.as_mut_ptr()),
                    SCHEDEV_OK
                );
                assert_eq!(text(id.assume_init()), expected.event_id().as_str());
                count += 1;
            }
            assert_eq!(
                schedev_session_recovering(self.c, count, id.as_mut_ptr()),
                SCHEDEV_END
            );
            let mut since = 0;
            let status = schedev_session_out_of_service_since(self.c, &raw mut since);
            let since = (status == SCHEDEV_OK).then_some(UnixMillis(since));
            assert_eq!(since, self.core.out_of_service_since());
        }
    }
}
