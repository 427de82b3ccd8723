//! Which faults hit a request, put together into one plan.

use std::time::Duration;

use super::fault::{Fault, Kind, Scope};

/// What goes wrong with one request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// Before anything is sent.
    pub(super) delay: Duration,
    /// Over which the head is sent.
    pub(super) slow_headers: Duration,
    /// Over which the body is sent.
    pub(super) slow_body: Duration,
    pub(super) stale: Duration,
    pub(super) incarnation_back: u64,
    pub(super) vanish: bool,
    pub(super) started_only: bool,
    pub(super) content_type: Option<String>,
    /// The first fault that decides the answer.
    pub(super) verdict: Option<Kind>,
    /// The faults above as they are written, for the log.
    pub(super) names: Vec<String>,
}

/// The kind of a request that faults can hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    EventsGet,
    EventsPost,
    Name,
}

/// All faults of a server, and how many requests they have seen.
#[derive(Clone, Debug)]
pub(super) struct Planner {
    faults: Vec<Fault>,
    gets: u64,
    posts: u64,
    names: u64,
}

impl Planner {
    pub(super) fn new(faults: Vec<Fault>) -> Self {
        Self { faults, gets: 0, posts: 0, names: 0 }
    }

    /// Counts a request and says what goes wrong with it, `since_first` after the first one.
    pub(super) fn plan(&mut self, target: Target, since_first: Duration) -> Plan {
        match target {
            Target::EventsGet => self.gets += 1,
            Target::EventsPost => self.posts += 1,
            Target::Name => self.names += 1,
        }
        let mut plan = Plan::default();
        for fault in &self.faults {
            let count = match (fault.scope, target) {
                (Scope::Events, Target::EventsGet | Target::EventsPost) => self.gets + self.posts,
                (Scope::Get, Target::EventsGet) => self.gets,
                (Scope::Post, Target::EventsPost) => self.posts,
                (Scope::Name, Target::Name) => self.names,
                _ => continue,
            };
            if fault.kind.alters_document() && target != Target::EventsGet {
                continue;
            }
            if fault.hits(count, since_first) {
                plan.add(fault);
            }
        }
        plan
    }
}

impl Plan {
    fn add(&mut self, fault: &Fault) {
        match &fault.kind {
            Kind::FirstCallDelay(delay) => self.delay += *delay,
            Kind::SlowHeaders(span) => self.slow_headers += *span,
            Kind::SlowBody(span) => self.slow_body += *span,
            Kind::Stale(age) => self.stale += *age,
            Kind::IncarnationBack(by) => self.incarnation_back = self.incarnation_back.saturating_add(*by),
            Kind::Vanish => self.vanish = true,
            Kind::StartedWithoutScheduled => self.started_only = true,
            Kind::ContentType(value) => {
                self.content_type.get_or_insert_with(|| value.clone());
            }
            deciding if self.verdict.is_none() => self.verdict = Some(deciding.clone()),
            _ => return,
        }
        self.names.push(fault.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planner(faults: &[&str]) -> Planner {
        Planner::new(faults.iter().map(|text| text.parse().expect(text)).collect())
    }

    #[test]
    fn the_first_deciding_fault_wins_and_delays_add_up() {
        let mut planner =
            planner(&["slow-body:1", "status:500", "empty", "slow-body:2", "first-call-delay:3", "vanish"]);
        let plan = planner.plan(Target::EventsGet, Duration::ZERO);
        assert_eq!(plan.verdict, Some(Kind::Status(500)));
        assert_eq!((plan.slow_body, plan.delay), (Duration::from_secs(3), Duration::from_secs(3)));
        assert!(plan.vanish);
        assert_eq!(plan.names, ["slow-body:1", "status:500", "slow-body:2", "first-call-delay:3", "vanish"]);
        let second = planner.plan(Target::EventsGet, Duration::ZERO);
        assert_eq!(second.delay, Duration::ZERO);
    }

    #[test]
    fn each_scope_counts_its_own_requests() {
        let mut planner = planner(&["post.status:500@1", "status:501@3", "name.status:502@2"]);
        let mut verdict = |target| match planner.plan(target, Duration::ZERO).verdict {
            Some(Kind::Status(code)) => code,
            _ => 200,
        };
        assert_eq!(verdict(Target::Name), 200);
        assert_eq!(verdict(Target::EventsGet), 200);
        assert_eq!(verdict(Target::EventsGet), 200);
        assert_eq!(verdict(Target::EventsPost), 500);
        assert_eq!(verdict(Target::EventsPost), 200);
        assert_eq!(verdict(Target::Name), 502);
    }

    #[test]
    fn time_windows_follow_the_clock() {
        let mut planner = planner(&["status:410@0s-70s"]);
        assert!(planner.plan(Target::EventsGet, Duration::from_secs(69)).verdict.is_some());
        assert!(planner.plan(Target::EventsPost, Duration::from_secs(70)).verdict.is_none());
    }
}
