//! Documents, events, problems, decisions, approvals and trackers.

use std::ffi::c_void;
use std::mem::MaybeUninit;

use arbitrary::{Result, Unstructured};
use scheduled_events_c_abi::schedev_status::{
    SCHEDEV_END, SCHEDEV_ERROR_PARSE, SCHEDEV_ERROR_TRACKER_FULL, SCHEDEV_ERROR_UNKNOWN_EVENT,
    SCHEDEV_OK,
};
use scheduled_events_c_abi::{
    SCHEDEV_ERROR_MESSAGE_MAX_BYTES, SCHEDEV_TRACKER_EVENTS_MAX, schedev_change_word,
    schedev_decide, schedev_decision, schedev_document, schedev_document_event_count,
    schedev_document_incarnation, schedev_document_next, schedev_document_next_problem,
    schedev_document_parse, schedev_error, schedev_error_message, schedev_event,
    schedev_event_cursor, schedev_event_next_resources, schedev_event_rank, schedev_event_resource,
    schedev_names, schedev_parse_error_word, schedev_policy, schedev_position_of, schedev_problem,
    schedev_problem_cursor, schedev_resource_cursor, schedev_start_requests, schedev_text,
    schedev_text_copy, schedev_text_equal, schedev_text_equal_ignore_case, schedev_tracked_event,
    schedev_tracker_approved, schedev_tracker_event, schedev_tracker_event_count,
    schedev_tracker_init, schedev_tracker_observe, schedev_tracker_size,
};
use scheduled_events_core::{
    Document, Event, EventId, Position, StartRequests, Text, Tracker, UnixSeconds, VmNames,
};

use super::{
    DecisionView, Names, Policies, ProblemView, TrackedView, UNWRITTEN, capacity, check_buffer,
    number_of, some, text, word,
};
use crate::document::reading;
use crate::grammar::{self, rarely};
use crate::oracle::{EventReading, Incarnation, NotBefore, Reading};

const EMPTY: &[u8] = br#"{"Events":[]}"#;

/// A document of the C ABI, and its bytes.
struct Parsed {
    document: Box<schedev_document>,
    body: Box<[u8]>,
}

impl Parsed {
    /// Parses the bytes; if both sides refuse them, compares the errors.
    fn new(body: &[u8]) -> Option<Self> {
        let body: Box<[u8]> = body.into();
        let mut document = Box::new(schedev_document {
            opaque: [u64::from(UNWRITTEN); 96],
        });
        let before = document.opaque;
        let mut error = schedev_error {
            kind: 77,
            line: 0,
            column: 0,
            offset: 0,
            message: [0; SCHEDEV_ERROR_MESSAGE_MAX_BYTES],
            reserved: [0; 2],
        };
        // SAFETY: all four live, and the bytes as long as the view.
        let status = unsafe {
            schedev_document_parse(
                body.as_ptr().cast(),
                body.len(),
                &raw mut *document,
                &raw mut error,
            )
        };
        match Document::parse(&body) {
            Ok(_) => {
                assert_eq!((status, error.kind), (SCHEDEV_OK, 77));
                Some(Self { document, body })
            }
            Err(refused) => {
                assert_eq!(status, SCHEDEV_ERROR_PARSE);
                assert_eq!(
                    document.opaque, before,
                    "the document was written although the call failed"
                );
                let position = refused.position(&body);
                assert_eq!(
                    word(schedev_parse_error_word(error.kind)),
                    refused.kind.word()
                );
                assert_eq!(
                    (error.line, error.column, error.offset),
                    (position.line, position.column, refused.offset)
                );
                // SAFETY: the error lives.
                let message = unsafe { schedev_error_message(&raw const error) };
                assert_eq!(word(message), refused.message().to_string());
                None
            }
        }
    }

    fn core(&self) -> Document<'_> {
        Document::parse(&self.body).unwrap()
    }

    fn events(&self) -> Vec<schedev_event> {
        let mut cursor = schedev_event_cursor { opaque: [0; 8] };
        let mut events = Vec::new();
        let mut event = MaybeUninit::uninit();
        // SAFETY: document and cursor live; the event is written where the call succeeds.
        unsafe {
            while schedev_document_next(
                &raw const *self.document,
                &raw mut cursor,
                event.as_mut_ptr(),
            ) == SCHEDEV_OK
            {
                events.push(event.assume_init());
            }
            let again = schedev_document_next(
                &raw const *self.document,
                &raw mut cursor,
                event.as_mut_ptr(),
            );
            assert_eq!(again, SCHEDEV_END);
            assert_eq!(
                schedev_document_event_count(&raw const *self.document),
                events.len()
            );
        }
        events
    }

    fn problems(&self) -> Vec<schedev_problem> {
        let mut cursor = schedev_problem_cursor { opaque: [0; 128] };
        let mut problems = Vec::new();
        let mut problem = MaybeUninit::uninit();
        // SAFETY: document and cursor live; the problem is written where the call succeeds.
        unsafe {
            while schedev_document_next_problem(
                &raw const *self.document,
                &raw mut cursor,
                problem.as_mut_ptr(),
            ) == SCHEDEV_OK
            {
                problems.push(problem.assume_init());
            }
        }
        problems
    }

    fn incarnation(&self) -> Incarnation {
        let mut incarnation = MaybeUninit::uninit();
        // SAFETY: the document lives; the incarnation is written, since the document was initialised.
        let incarnation = unsafe {
            assert_eq!(
                schedev_document_incarnation(&raw const *self.document, incarnation.as_mut_ptr()),
                SCHEDEV_OK
            );
            incarnation.assume_init()
        };
        match incarnation.kind {
            0 => Incarnation::Absent,
            1 => Incarnation::Number(incarnation.number),
            2 => Incarnation::Text(text(incarnation.text)),
            other => panic!("{other} is no incarnation"),
        }
    }
}

pub(super) fn read(u: &mut Unstructured<'_>, body: &[u8]) -> Result<()> {
    let Some(parsed) = Parsed::new(body) else {
        return Ok(());
    };
    let core = parsed.core();
    let mut events = parsed.events();
    let problems = parsed.problems();
    let all: Vec<_> = core
        .problems()
        .map(|problem| ProblemView::core(&problem))
        .collect();
    assert_eq!(problems.iter().map(ProblemView::c).collect::<Vec<_>>(), all);

    let of_c = Reading {
        incarnation: parsed.incarnation(),
        events: events
            .iter_mut()
            .map(|event| event_reading(u, event))
            .collect::<Result<_>>()?,
        problems: core
            .problems()
            .map(|problem| (problem.event, problem.member, problem.kind))
            .collect(),
    };
    assert_eq!(of_c, reading(&core));

    let offset = u.int_in_range(0..=body.len() + 1)?;
    let mut position = MaybeUninit::uninit();
    // SAFETY: the bytes and the place live; the place is written, since nothing is NULL.
    let position = unsafe {
        let status = schedev_position_of(
            parsed.body.as_ptr().cast(),
            body.len(),
            offset,
            position.as_mut_ptr(),
        );
        assert_eq!(status, SCHEDEV_OK);
        position.assume_init()
    };
    assert_eq!(
        Position {
            line: position.line,
            column: position.column
        },
        Position::of(body, offset)
    );

    let chosen = [*u.choose(&grammar::NAMES)?, "WestNO_0"];
    let chosen = &chosen[..u.int_in_range(0..=2)?];
    let underscored = rarely(u, 4)?;
    let names = Names::new(chosen, underscored);
    let known = VmNames::new(chosen);
    let known = if underscored {
        known.underscored()
    } else {
        known
    };
    let policies = Policies::choose(u)?;
    let now = u.int_in_range(-5_000_000_000..=5_000_000_000_i64)?;
    for (event, expected) in events.iter().zip(core.events()) {
        texts(u, event.event_id, expected.event_id())?;
        if let Some(description) = expected.description() {
            texts(u, event.description, description)?;
        }
        decided(
            event,
            &expected,
            (&names.c(), known),
            (&policies.c(), &policies),
            now,
        );
    }
    approvals(u, &events, &core)?;
    tracked(u, &parsed, (&names.c(), known), now)
}

fn event_reading(u: &mut Unstructured<'_>, event: &mut schedev_event) -> Result<EventReading> {
    let named = |kind: u32, word: schedev_text, known: &[&str]| {
        let word = (kind != 0).then(|| text(word));
        let place = known
            .iter()
            .position(|known| word.as_deref() == Some(*known));
        let number = place.map_or(if word.is_some() { 255 } else { 0 }, |place| {
            u32::try_from(place).unwrap() + 1
        });
        assert_eq!(kind, number, "{word:?}");
        word
    };
    let not_before = match (
        event.has_not_before.is_on(),
        event.not_before_unreadable.len,
    ) {
        (true, 0) => NotBefore::At(UnixSeconds(event.not_before_seconds)),
        (true, _) => panic!("both a time and no time"),
        (false, 0) => NotBefore::Unset,
        (false, _) => NotBefore::Unreadable,
    };
    Ok(EventReading {
        index: event.index,
        id: text(event.event_id),
        event_type: named(
            event.event_type,
            event.event_type_text,
            &[
                "Freeze",
                "Reboot",
                "Redeploy",
                "Preempt",
                "Terminate",
                "SpotRebalanceRecommendation",
            ],
        ),
        status: named(
            event.event_status,
            event.event_status_text,
            &["Scheduled", "Started", "Advisory"],
        ),
        resource_type: some(event.has_resource_type, ()).map(|()| text(event.resource_type)),
        resources: if event.has_resources.is_on() {
            Some(resources(u, event)?)
        } else {
            None
        },
        not_before,
        description: some(event.has_description, ()).map(|()| text(event.description)),
        source: named(
            event.event_source,
            event.event_source_text,
            &["Platform", "User"],
        ),
        duration: some(event.has_duration, event.duration_seconds),
    })
}

/// The names, an array at a time, and again one by one; some of them in any order.
fn resources(u: &mut Unstructured<'_>, event: &mut schedev_event) -> Result<Vec<String>> {
    let capacity = u.int_in_range(1..=5_usize)?;
    let mut all = Vec::new();
    let mut cursor = schedev_resource_cursor { opaque: [0; 10] };
    loop {
        let mut names = vec![MaybeUninit::<schedev_text>::uninit(); capacity].into_boxed_slice();
        let mut count = 0;
        // SAFETY: the array has this capacity; the first `count` names are written.
        unsafe {
            let place = names.as_mut_ptr().cast();
            let status = schedev_event_next_resources(
                event,
                &raw mut cursor,
                place,
                capacity,
                &raw mut count,
            );
            if status == SCHEDEV_END {
                break;
            }
            assert_eq!(status, SCHEDEV_OK);
            assert!((1..=capacity).contains(&count));
            all.extend(names[..count].iter().map(|name| text(name.assume_init())));
        }
        if count < capacity && rarely(u, 2)? {
            break;
        }
    }
    let order: Vec<_> = (0..=all.len())
        .chain([0, all.len() / 2, usize::MAX, 1])
        .collect();
    for index in order {
        let mut name = MaybeUninit::uninit();
        // SAFETY: the event lives; the name is written where the call succeeds.
        let one = unsafe {
            match schedev_event_resource(event, index, name.as_mut_ptr()) {
                SCHEDEV_OK => Some(text(name.assume_init())),
                status => {
                    assert_eq!(status, SCHEDEV_END);
                    None
                }
            }
        };
        assert_eq!(one.as_ref(), all.get(index));
    }
    Ok(all)
}

/// Copies a text into buffers of any size, and compares it.
fn texts(u: &mut Unstructured<'_>, c: schedev_text, core: Text<'_>) -> Result<()> {
    let decoded = core.to_string();
    assert_eq!(c.escaped.is_on(), core.as_str().is_none());
    // SAFETY: the text views the document, which lives; and each length is that of its buffer or name.
    unsafe {
        check_buffer(
            decoded.as_bytes(),
            capacity(u, decoded.len())?,
            true,
            |buffer, capacity, needed| schedev_text_copy(c, buffer, capacity, needed),
        );
        let equal = |name: &[u8]| schedev_text_equal(c, name.as_ptr().cast(), name.len());
        let alike =
            |name: &[u8]| schedev_text_equal_ignore_case(c, name.as_ptr().cast(), name.len());
        let mut other = decoded.clone().into_bytes().into_boxed_slice();
        assert!(equal(&other) && alike(&other) && alike(decoded.to_ascii_uppercase().as_bytes()));
        let longer = [&*other, b"x"].concat();
        assert!(!equal(&longer) && !alike(&longer));
        if let Some((_, shorter)) = other.split_last() {
            assert!(!equal(shorter) && !alike(shorter));
            let place = u.choose_index(other.len())?;
            other[place] ^= 0x20;
            assert!(!equal(&other));
            assert_eq!(
                alike(&other),
                other.eq_ignore_ascii_case(decoded.as_bytes())
            );
        }
    }
    Ok(())
}

fn decided(
    c: &schedev_event,
    core: &Event<'_>,
    (names, known): (&schedev_names, VmNames<'_>),
    (policy, policies): (&schedev_policy, &Policies),
    now: i64,
) {
    let mut decision = MaybeUninit::<schedev_decision>::uninit();
    // SAFETY: all live, and their lists, too; the decision is written, since all are sound.
    let decision = unsafe {
        assert_eq!(
            schedev_decide(policy, c, names, now, decision.as_mut_ptr()),
            SCHEDEV_OK
        );
        decision.assume_init()
    };
    assert_eq!(
        DecisionView::c(&decision),
        DecisionView::core(&policies.core.decide(core, known, UnixSeconds(now)))
    );
    assert_eq!(
        c.unreliable_member,
        core.unreliable_member().map_or(0, number_of)
    );
    let mut rank = usize::MAX;
    // SAFETY: all live.
    let status = unsafe { schedev_event_rank(c, names, &raw mut rank) };
    match known.rank(core) {
        Some(expected) => assert_eq!((status, rank), (SCHEDEV_OK, expected)),
        None => assert_eq!((status, rank), (SCHEDEV_END, usize::MAX)),
    }
}

fn approvals(
    u: &mut Unstructured<'_>,
    events: &[schedev_event],
    core: &Document<'_>,
) -> Result<()> {
    let ids: Vec<_> = core
        .events()
        .map(|event| event.event_id())
        .take(20)
        .collect();
    let views: Box<[_]> = events.iter().map(|event| event.event_id).take(20).collect();
    if ids.is_empty() {
        return Ok(());
    }
    let approval = StartRequests::new(&ids);
    let mut expected = vec![0; approval.len()];
    assert_eq!(approval.write(&mut expected), Ok(expected.len()));
    let size = capacity(u, expected.len())?;
    check_buffer(&expected, size, true, |buffer, capacity, needed| {
        // SAFETY: as many ids as are counted, whose texts view the document, which lives.
        unsafe { schedev_start_requests(views.as_ptr(), views.len(), buffer, capacity, needed) }
    });
    Ok(())
}

/// Gives both trackers the document, and then an empty one.
fn tracked(
    u: &mut Unstructured<'_>,
    parsed: &Parsed,
    (names, known): (&schedev_names, VmNames<'_>),
    now: i64,
) -> Result<()> {
    unsafe extern "C" fn note(
        context: *mut c_void,
        change: u32,
        event: *const schedev_tracked_event,
    ) {
        // SAFETY: the context is the list below, and the event is good during the call.
        unsafe {
            let list: *mut Vec<(&str, TrackedView)> = context.cast();
            (*list).push((word(schedev_change_word(change)), TrackedView::c(&*event)));
        }
    }
    // At any alignment, with memory of exactly the required size.
    let (size, shift) = (schedev_tracker_size(), u.int_in_range(0..=7_usize)?);
    let mut memory = vec![UNWRITTEN; size + shift].into_boxed_slice();
    let mut tracker = core::ptr::null_mut();
    let mut core = Tracker::<SCHEDEV_TRACKER_EVENTS_MAX>::new();
    let empty = Parsed::new(EMPTY).expect("a document");
    // SAFETY: the memory, the documents and the names live to the end of this function.
    unsafe {
        let place: *mut c_void = memory[shift..].as_mut_ptr().cast();
        assert_eq!(
            schedev_tracker_init(place, size, &raw mut tracker),
            SCHEDEV_OK
        );
        for (document, now) in [
            (parsed, now),
            (parsed, now),
            (&empty, now + u.int_in_range(0..=2_000_000_000_i64)?),
        ] {
            let (mut reported, mut expected) = (Vec::<(&str, TrackedView)>::new(), Vec::new());
            let (mut ignored, mut needed) = (usize::MAX, usize::MAX);
            let status = schedev_tracker_observe(
                tracker,
                &raw const *document.document,
                names,
                now,
                Some(note),
                (&raw mut reported).cast(),
                &raw mut ignored,
                &raw mut needed,
            );
            let seen = core.observe(
                &document.core(),
                known,
                UnixSeconds(now),
                |change, event| {
                    expected.push((change.word(), TrackedView::core(event)));
                },
            );
            assert_eq!(reported, expected);
            match seen {
                Ok(count) => assert_eq!((status, ignored, needed), (SCHEDEV_OK, count, usize::MAX)),
                Err(full) => {
                    assert_eq!(
                        (status, ignored, needed),
                        (SCHEDEV_ERROR_TRACKER_FULL, usize::MAX, full.needed)
                    );
                }
            }
            assert_eq!(schedev_tracker_event_count(tracker), core.len());
            let mut event = MaybeUninit::uninit();
            for (index, expected) in core.iter().enumerate().take(40) {
                assert_eq!(
                    schedev_tracker_event(tracker, index, event.as_mut_ptr()),
                    SCHEDEV_OK
                );
                assert_eq!(
                    TrackedView::c(&event.assume_init()),
                    TrackedView::core(expected)
                );
            }
            assert_eq!(
                schedev_tracker_event(tracker, core.len(), event.as_mut_ptr()),
                SCHEDEV_END
            );
            for (event, expected) in parsed.events().iter().zip(parsed.core().events()).take(3) {
                let known = core.approved(&EventId::new(&expected.event_id()));
                let status = schedev_tracker_approved(tracker, event.event_id);
                assert_eq!(
                    status,
                    if known {
                        SCHEDEV_OK
                    } else {
                        SCHEDEV_ERROR_UNKNOWN_EVENT
                    }
                );
            }
        }
    }
    Ok(())
}
