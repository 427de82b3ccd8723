//! Combines the faults that apply to one request.

use std::sync::Arc;
use std::time::Duration;

use crate::fault::kind::{
    ByteCount, ClockOffset, EventMember, FaultKind, FieldCount, HeaderValue, Location,
    MessageCount, MessageFaultKind, RetryTime, StatusCode,
};
use crate::fault::{Fault, FaultAction, FaultScope};

/// The longest delay that a client with a short time-out survives.
const SOON: Duration = Duration::from_secs(1);

/// The effect of the faults on one request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FaultPlan {
    /// The delay before the request is processed.
    pub(crate) delay: Duration,
    /// The time over which the header is sent.
    pub(crate) slow_headers: Duration,
    /// The time over which the body is sent.
    pub(crate) slow_body: Duration,
    /// How old the document is.
    pub(crate) stale: Duration,
    pub(crate) incarnation_back: u64,
    /// Whether the document has no events.
    pub(crate) vanish: bool,
    /// Whether the document has only Started events.
    pub(crate) started_only: bool,
    /// What each event has in place of its members.
    pub(crate) members: Vec<EventMember>,
    /// Whether an event of another VM has the id of each event.
    pub(crate) repeated_ids: bool,
    /// By how many seconds the service's clock is ahead.
    pub(crate) clock: i32,
    pub(crate) content_type: Option<String>,
    /// The first of the faults that exclude each other.
    pub(crate) answer: Option<AnswerFault>,
    /// The effect of the faults on a message of Event Grid. Its delay is [`delay`](Self::delay).
    pub(crate) message: MessagePlan,
    /// All of these faults as written, for the log.
    pub(crate) names: Vec<String>,
}

/// The effect of the faults on one message, except its delay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct MessagePlan {
    pub(crate) is_lost: bool,
    /// Whether it is delivered again, unchanged.
    pub(crate) is_repeated: bool,
    /// Whether it is delivered again under a new outer id.
    pub(crate) has_new_id: bool,
    /// How many messages to collect, which are then delivered in reverse order.
    pub(crate) reversed: Option<usize>,
}

/// A fault of the whole answer. If several apply, the first one counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AnswerFault {
    // The request is not processed.
    Reset,
    Silence,
    NotHttp,
    Status(u16),
    RetryAfter(RetryTime),
    Redirect(u16, String),
    // The request is processed, and the body of the answer replaced.
    Empty,
    NotJson,
    HalfDocument,
    Gzip,
    // The request is processed, and the answer damaged while it is sent.
    Damage(Damage),
}

/// The effect on an answer while it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Damage {
    ResetMidBody,
    ShortBody,
    EndlessBody,
    HugeBody(u64),
    ManyHeaders(u32),
    LongHeader(u64),
}

/// The kinds of requests that faults apply to, and the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestKind {
    EventsGet,
    EventsPost,
    Name,
    Arm,
    Graph,
    Message,
}

impl FaultScope {
    /// The requests that belong to the scope.
    fn kinds(self) -> &'static [RequestKind] {
        match self {
            Self::Events => &[RequestKind::EventsGet, RequestKind::EventsPost],
            Self::Get => &[RequestKind::EventsGet],
            Self::Post => &[RequestKind::EventsPost],
            Self::Name => &[RequestKind::Name],
            Self::Arm => &[RequestKind::Arm],
            Self::Graph => &[RequestKind::Graph],
            Self::Message => &[RequestKind::Message],
        }
    }
}

/// All faults of a server, and the numbers of requests so far.
#[derive(Clone, Debug)]
pub(crate) struct FaultPlanner {
    faults: Arc<[Fault]>,
    /// The number of requests so far, by kind.
    counts: [u64; 6],
    /// The number of requests so far for a version that the service does not have.
    refused: u64,
    /// The time of the last request for events, since the first request.
    last: Option<Duration>,
}

impl FaultPlanner {
    pub(crate) fn new(faults: Arc<[Fault]>) -> Self {
        Self {
            faults,
            counts: [0; 6],
            refused: 0,
            last: None,
        }
    }

    /// Adds a fault with precedence over the others. Its window counts from now on: the next
    /// request of its scope is the first. Returns false for `first-call-delay` after the first
    /// request.
    pub(crate) fn inject(&mut self, fault: Fault, since_first: Duration) -> bool {
        let requests = self.count_for(&fault);
        let Some(fault) = fault.later(requests, since_first) else {
            return false;
        };
        self.faults = [fault]
            .into_iter()
            .chain(self.faults.iter().cloned())
            .collect();
        true
    }

    /// Removes all faults.
    pub(crate) fn clear(&mut self) {
        self.faults = Arc::default();
    }

    /// The faults, in their order of precedence. Their windows count from the first request.
    pub(crate) fn faults(&self) -> &[Fault] {
        &self.faults
    }

    /// Counts a request, and returns the effect of the faults on it, `since_first` after the first
    /// request.
    pub(crate) fn plan(&mut self, kind: RequestKind, since_first: Duration) -> FaultPlan {
        self.counts[kind as usize] += 1;
        let mut plan = FaultPlan::default();
        let idle = self
            .last
            .map_or(Duration::ZERO, |last| since_first.saturating_sub(last));
        if matches!(kind, RequestKind::EventsGet | RequestKind::EventsPost) {
            self.last = Some(since_first);
        }
        for fault in self
            .faults
            .iter()
            .filter(|fault| fault.scope.kinds().contains(&kind))
        {
            if !fault.applies(self.count(fault.scope), since_first) {
                continue;
            }
            match &fault.action {
                FaultAction::Request(what) if what.is_of_refusals() => {}
                FaultAction::Request(FaultKind::IdleOff(limit)) if idle < limit.idle => {}
                FaultAction::Request(what)
                    if kind != RequestKind::EventsGet && what.alters_document() => {}
                FaultAction::Request(what) => plan.add(fault, what),
                FaultAction::Message(what) => plan.add_to_message(fault, what),
            }
        }
        plan
    }

    /// Counts a request for a version that the service does not have, and returns the effect of the
    /// faults on its answer. Other faults do not apply to it.
    pub(crate) fn plan_refusal(&mut self, kind: RequestKind, since_first: Duration) -> FaultPlan {
        self.refused += 1;
        let mut plan = FaultPlan::default();
        for fault in self.faults.iter() {
            if let FaultAction::Request(what) = &fault.action
                && what.is_of_refusals()
                && fault.scope.kinds().contains(&kind)
                && fault.applies(self.refused, since_first)
            {
                plan.add(fault, what);
            }
        }
        plan
    }

    /// The number of requests so far that a fault may apply to.
    fn count_for(&self, fault: &Fault) -> u64 {
        match &fault.action {
            FaultAction::Request(what) if what.is_of_refusals() => self.refused,
            _ => self.count(fault.scope),
        }
    }

    /// The number of requests of a scope so far.
    fn count(&self, scope: FaultScope) -> u64 {
        scope
            .kinds()
            .iter()
            .map(|kind| self.counts[*kind as usize])
            .sum()
    }
}

impl FaultPlan {
    /// Whether the client receives the whole answer of the service, and soon.
    pub(crate) fn is_intact(&self, kind: RequestKind) -> bool {
        let arrives = match &self.answer {
            None => true,
            // The body of the service's answer to an approval does not matter.
            Some(
                AnswerFault::Empty
                | AnswerFault::NotJson
                | AnswerFault::HalfDocument
                | AnswerFault::Gzip,
            ) => kind == RequestKind::EventsPost,
            Some(_) => false,
        };
        arrives && self.delay + self.slow_headers + self.slow_body < SOON
    }

    /// How long the whole answer takes, if that is too short for a time-out.
    pub(crate) fn short_delay(&self) -> Duration {
        Some(self.slow_headers + self.slow_body)
            .filter(|span| *span < SOON)
            .unwrap_or_default()
    }

    /// Whether no client can read the answer: its connection is lost in the middle, or its body is no
    /// document.
    pub(crate) fn is_broken(&self) -> bool {
        use Damage::{ResetMidBody, ShortBody};

        matches!(
            self.answer,
            Some(
                AnswerFault::NotJson
                    | AnswerFault::HalfDocument
                    | AnswerFault::Damage(ResetMidBody | ShortBody)
            )
        )
    }

    /// Whether the client may wait for the answer, once it is decided, or for its end.
    pub(crate) fn is_slow(&self) -> bool {
        self.slow_headers + self.slow_body >= SOON
            || matches!(
                self.answer,
                Some(AnswerFault::Silence | AnswerFault::Damage(_))
            )
    }

    /// Whether events have other members than the scenario gives them, or their ids are repeated.
    pub(crate) fn alters_members(&self) -> bool {
        !self.members.is_empty() || self.repeated_ids
    }

    fn add_to_message(&mut self, fault: &Fault, what: &MessageFaultKind) {
        match what {
            MessageFaultKind::Late(delay) => self.delay += delay.0,
            MessageFaultKind::Lost => self.message.is_lost = true,
            MessageFaultKind::Repeated => self.message.is_repeated = true,
            MessageFaultKind::NewId => self.message.has_new_id = true,
            MessageFaultKind::Reversed(MessageCount(count)) => {
                self.message.reversed.get_or_insert(*count);
            }
        }
        self.names.push(fault.to_string());
    }

    fn add(&mut self, fault: &Fault, what: &FaultKind) {
        let answer = match what {
            FaultKind::FirstCallDelay(delay) => {
                self.delay += delay.0;
                None
            }
            FaultKind::IdleOff(limit) => {
                self.delay += limit.delay;
                None
            }
            FaultKind::SlowHeaders(span) => {
                self.slow_headers += span.0;
                None
            }
            FaultKind::SlowBody(span) => {
                self.slow_body += span.0;
                None
            }
            FaultKind::Stale(age) => {
                self.stale += age.0;
                None
            }
            FaultKind::IncarnationBack(by) => {
                self.incarnation_back = self.incarnation_back.saturating_add(by.0);
                None
            }
            FaultKind::Vanish => {
                self.vanish = true;
                None
            }
            FaultKind::StartedWithoutScheduled => {
                self.started_only = true;
                None
            }
            FaultKind::Member(member) => {
                self.members.push(member.clone());
                None
            }
            FaultKind::RepeatedId => {
                self.repeated_ids = true;
                None
            }
            FaultKind::Clock(ClockOffset(seconds)) => {
                self.clock = self.clock.saturating_add(*seconds);
                None
            }
            FaultKind::ContentType(HeaderValue(value)) => {
                self.content_type.get_or_insert_with(|| value.clone());
                None
            }
            FaultKind::Reset => Some(AnswerFault::Reset),
            FaultKind::Silence => Some(AnswerFault::Silence),
            FaultKind::NotHttp => Some(AnswerFault::NotHttp),
            FaultKind::Status(StatusCode(code)) | FaultKind::UnknownVersion(StatusCode(code)) => {
                Some(AnswerFault::Status(*code))
            }
            FaultKind::RetryAfter(value) => Some(AnswerFault::RetryAfter(value.clone())),
            FaultKind::Redirect(Location { status, location }) => {
                Some(AnswerFault::Redirect(*status, location.clone()))
            }
            FaultKind::Empty => Some(AnswerFault::Empty),
            FaultKind::NotJson => Some(AnswerFault::NotJson),
            FaultKind::HalfDocument => Some(AnswerFault::HalfDocument),
            FaultKind::Gzip => Some(AnswerFault::Gzip),
            FaultKind::ResetMidBody => Some(AnswerFault::Damage(Damage::ResetMidBody)),
            FaultKind::ShortBody => Some(AnswerFault::Damage(Damage::ShortBody)),
            FaultKind::EndlessBody => Some(AnswerFault::Damage(Damage::EndlessBody)),
            FaultKind::HugeBody(ByteCount(bytes)) => {
                Some(AnswerFault::Damage(Damage::HugeBody(*bytes)))
            }
            FaultKind::ManyHeaders(FieldCount(count)) => {
                Some(AnswerFault::Damage(Damage::ManyHeaders(*count)))
            }
            FaultKind::LongHeader(ByteCount(bytes)) => {
                Some(AnswerFault::Damage(Damage::LongHeader(*bytes)))
            }
        };
        if answer.is_some() {
            if self.answer.is_some() {
                return;
            }
            self.answer = answer;
        }
        self.names.push(fault.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planner(faults: &[&str]) -> FaultPlanner {
        FaultPlanner::new(
            faults
                .iter()
                .map(|text| text.parse().expect(text))
                .collect(),
        )
    }

    #[test]
    fn the_first_answer_fault_applies_and_delays_add_up() {
        let mut planner = planner(&[
            "slow-body:1",
            "status:500",
            "empty",
            "slow-body:2",
            "first-call-delay:3",
            "vanish",
        ]);
        let plan = planner.plan(RequestKind::EventsGet, Duration::ZERO);
        assert_eq!(plan.answer, Some(AnswerFault::Status(500)));
        assert_eq!(
            (plan.slow_body, plan.delay),
            (Duration::from_secs(3), Duration::from_secs(3))
        );
        assert!(plan.vanish);
        assert_eq!(
            plan.names,
            [
                "slow-body:1",
                "status:500",
                "slow-body:2",
                "first-call-delay:3",
                "vanish"
            ]
        );
        let second = planner.plan(RequestKind::EventsGet, Duration::ZERO);
        assert_eq!(second.delay, Duration::ZERO);
    }

    #[test]
    fn each_scope_counts_its_own_requests() {
        let mut planner = planner(&["post.status:500@1", "status:501@3", "name.status:502@2"]);
        let mut status = |kind| match planner.plan(kind, Duration::ZERO).answer {
            Some(AnswerFault::Status(code)) => code,
            _ => 200,
        };
        assert_eq!(status(RequestKind::Name), 200);
        assert_eq!(status(RequestKind::EventsGet), 200);
        assert_eq!(status(RequestKind::EventsGet), 200);
        assert_eq!(status(RequestKind::EventsPost), 500);
        assert_eq!(status(RequestKind::EventsPost), 200);
        assert_eq!(status(RequestKind::Name), 502);
    }

    #[test]
    fn a_time_window_counts_from_the_first_request() {
        let mut planner = planner(&["status:410@0s-70s"]);
        assert!(
            planner
                .plan(RequestKind::EventsGet, Duration::from_secs(69))
                .answer
                .is_some()
        );
        assert!(
            planner
                .plan(RequestKind::EventsPost, Duration::from_secs(70))
                .answer
                .is_none()
        );
    }

    #[test]
    fn a_pause_switches_the_service_off_once() {
        let mut planner = planner(&["idle-off:24h", "idle-off:25h,3"]);
        let mut delay = |kind, hours: u64| {
            planner
                .plan(kind, Duration::from_secs(hours * 3600))
                .delay
                .as_secs()
        };
        assert_eq!(delay(RequestKind::EventsGet, 0), 0);
        assert_eq!(delay(RequestKind::EventsGet, 23), 0);
        // A request for the name does not count.
        assert_eq!(delay(RequestKind::Name, 40), 0);
        assert_eq!(delay(RequestKind::EventsGet, 47), 120);
        assert_eq!(delay(RequestKind::EventsPost, 48), 0);
        assert_eq!(delay(RequestKind::EventsGet, 73), 123);
        let refused = "idle-off:1d,x"
            .parse::<super::Fault>()
            .unwrap_err()
            .to_string();
        assert!(
            refused.contains("write idle-off:SECONDS[,DELAY]"),
            "{refused}"
        );
        assert_eq!(
            "idle-off:24h".parse::<super::Fault>().unwrap().to_string(),
            "idle-off:86400"
        );
        assert_eq!(
            "idle-off:2,0.5"
                .parse::<super::Fault>()
                .unwrap()
                .to_string(),
            "idle-off:2,0.5"
        );
    }

    #[test]
    fn the_window_of_an_injected_fault_counts_from_its_injection() {
        let mut planner = planner(&["status:500"]);
        let at = |planner: &mut FaultPlanner, kind, seconds| {
            let plan = planner.plan(kind, Duration::from_secs(seconds));
            match plan.answer {
                Some(AnswerFault::Status(code)) => code,
                _ => 200,
            }
        };
        let inject = |planner: &mut FaultPlanner, text: &str, seconds| {
            planner.inject(text.parse().expect(text), Duration::from_secs(seconds))
        };
        assert_eq!(at(&mut planner, RequestKind::EventsGet, 0), 500);
        assert_eq!(at(&mut planner, RequestKind::EventsPost, 1), 500);
        assert!(inject(&mut planner, "status:501@2", 1));
        assert!(inject(&mut planner, "post.status:502@1", 1));
        assert!(inject(&mut planner, "get.status:503@10s-20s", 1));
        let seen = [
            (RequestKind::EventsGet, 2),
            (RequestKind::EventsGet, 3),
            (RequestKind::EventsPost, 4),
        ];
        assert_eq!(
            seen.map(|(kind, second)| at(&mut planner, kind, second)),
            [500, 501, 502]
        );
        assert_eq!(at(&mut planner, RequestKind::EventsGet, 12), 503);
        assert_eq!(at(&mut planner, RequestKind::EventsGet, 21), 500);
        assert!(inject(&mut planner, "reset", 21));
        let all: Vec<_> = planner.faults().iter().map(ToString::to_string).collect();
        assert_eq!(
            all,
            [
                "reset@8-",
                "get.status:503@11s-21s",
                "post.status:502@2",
                "status:501@4",
                "status:500"
            ]
        );
        for fault in planner.faults() {
            assert_eq!(&fault.to_string().parse::<Fault>().expect("a fault"), fault);
        }
        assert!(!inject(&mut planner, "first-call-delay:2", 21));
        planner.clear();
        assert_eq!(at(&mut planner, RequestKind::EventsGet, 22), 200);
    }

    #[test]
    fn faults_that_alter_the_document_leave_other_requests_alone() {
        let mut planner = planner(&["vanish"]);
        assert_eq!(
            planner.plan(RequestKind::EventsPost, Duration::ZERO),
            FaultPlan::default()
        );
        assert!(planner.plan(RequestKind::EventsGet, Duration::ZERO).vanish);
    }
}
