//! The next step of a drain. No I/O and no clock: every time is an argument, counted from the start
//! of the drain.
//!
//! The drain requests a pod's eviction until it is carried out. If a disruption budget refuses it
//! for now, the drain repeats the request at a steady pace. It sends an overloaded server no
//! request, for any pod, for as long as the server asks.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::config::{AtDeadline, NodeConfig};
use crate::pods::{DrainPod, Treatment};

/// How often to repeat an eviction that a disruption budget refuses.
const BUDGET_PACE: Duration = Duration::from_secs(5);
/// The same when less than [`SHORT_TIME`] is left.
const SHORT_PACE: Duration = Duration::from_secs(1);
const SHORT_TIME: Duration = Duration::from_secs(60);
/// The longest pause after other failures.
const BACK_OFF_MAX: Duration = Duration::from_secs(30);
/// After how long without effect to repeat an eviction that was accepted.
const EFFECT_TIME: Duration = Duration::from_secs(30);
/// The same for a pod that the server does not have, or not with this identity.
const GONE_TIME: Duration = Duration::from_secs(2);
/// The shortest time of a drain.
const TIME_MIN: Duration = Duration::from_secs(1);
/// How many requests may be in flight at a time.
const REQUESTS_MAX: usize = 8;

/// The next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanStep {
    /// Request this pod's removal, and report the answer with [`Plan::answered`].
    Remove(Removal),
    /// Wait until this time, or for an answer or a change of pods.
    Wait(Duration),
    /// No pod that counts is left.
    Drained,
    /// The deadline has passed.
    Held,
}

/// A request to remove a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removal {
    /// The pod.
    pub pod: DrainPod,
    /// Whether to ignore disruption budgets: a deletion instead of an eviction.
    pub force: bool,
    /// The grace period in seconds, if it is not the pod's own.
    pub grace_seconds: Option<u32>,
}

/// The answer to a removal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The pod is being deleted.
    Accepted,
    /// The pod no longer exists.
    Gone,
    /// A disruption budget does not allow it now.
    Budget {
        /// The server's reason.
        message: String,
        /// The pause that the server asks for.
        retry_after: Option<Duration>,
    },
    /// The server has too much to do.
    Overloaded {
        /// The pause that the server asks for.
        retry_after: Option<Duration>,
    },
    /// Any other failure.
    Failed {
        /// The reason.
        message: String,
    },
}

/// The progress of a drain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// How many pods are being deleted.
    pub terminating: usize,
    /// How many pods wait for their eviction.
    pub waiting: usize,
    /// What keeps pods on the node: the path of each pod, and the reason.
    pub blocked: Vec<(String, String)>,
}

/// The state of a drain.
#[derive(Debug)]
pub struct Plan {
    /// The deadline by which pods are asked to end; after it, they are killed.
    grace_end: Option<Duration>,
    end: Duration,
    force_at: Option<Duration>,
    pods: BTreeMap<String, Followed>,
    listed: bool,
    overloaded: u32,
    /// No request is sent before this time.
    resume_at: Duration,
}

#[derive(Debug)]
struct Followed {
    pod: DrainPod,
    asked: bool,
    /// Whether its deletion was requested, past its budgets.
    forced: bool,
    failures: u32,
    /// No request for this pod is sent before this time.
    retry_at: Duration,
    /// Whether the server has accepted the removal, though the pod may not show it yet.
    accepted: bool,
    blocked: Option<String>,
}

impl Plan {
    /// A drain that begins now; `time_left` is the time until the event's `NotBefore`, if that is
    /// known.
    pub fn new(options: &NodeConfig, time_left: Option<Duration>) -> Self {
        // However short the notice is, every pod is asked to end.
        let grace_end = time_left.map(|left| {
            left.saturating_sub(options.margin.min(left / 4))
                .max(TIME_MIN)
        });
        let end = grace_end.unwrap_or(options.timeout);
        let forces = options.at_deadline == AtDeadline::Force;
        let force_at = forces.then(|| end.saturating_sub(options.force_before.min(end / 2)));
        Self {
            grace_end,
            end,
            force_at,
            pods: BTreeMap::new(),
            listed: false,
            overloaded: 0,
            resume_at: Duration::ZERO,
        }
    }

    /// Sets all pods that are now on the node.
    pub fn set_pods(&mut self, pods: impl IntoIterator<Item = DrainPod>) {
        let mut before = std::mem::take(&mut self.pods);
        for pod in pods {
            let followed = match before.remove(&pod.uid) {
                Some(followed) => Followed { pod, ..followed },
                None => Followed {
                    pod,
                    asked: false,
                    forced: false,
                    failures: 0,
                    retry_at: Duration::ZERO,
                    accepted: false,
                    blocked: None,
                },
            };
            self.pods.insert(followed.pod.uid.clone(), followed);
        }
        self.listed = true;
    }

    /// The next step. Call this again after every call of another method, and when a wait is over.
    pub fn next(&mut self, now: Duration) -> PlanStep {
        if !self.listed {
            return if now >= self.end {
                PlanStep::Held
            } else {
                PlanStep::Wait(self.end)
            };
        }
        if self
            .pods
            .values()
            .all(|followed| followed.pod.treatment == Treatment::Leave)
        {
            return PlanStep::Drained;
        }
        if now >= self.end {
            return PlanStep::Held;
        }
        let force = self.force_at.is_some_and(|at| now >= at);
        let mut wake = self
            .end
            .min(self.force_at.filter(|at| *at > now).unwrap_or(self.end));
        let asked = self.pods.values().filter(|followed| followed.asked).count();
        if asked >= REQUESTS_MAX {
            return PlanStep::Wait(wake);
        }
        if now < self.resume_at {
            return PlanStep::Wait(wake.min(self.resume_at));
        }
        let cap = self
            .grace_end
            .map(|end| end.saturating_sub(now).as_secs().max(1));
        for followed in self.pods.values_mut() {
            let pod = &followed.pod;
            if pod.treatment != Treatment::Evict || pod.terminating || followed.asked {
                continue;
            }
            // The first deletion does not wait for the time of the next eviction.
            let first_force = force && !followed.forced && !followed.accepted;
            if now < followed.retry_at && !first_force {
                wake = wake.min(followed.retry_at);
                continue;
            }
            followed.asked = true;
            followed.forced = force;
            let grace_seconds = cap.filter(|cap| *cap < pod.grace.as_secs());
            return PlanStep::Remove(Removal {
                pod: pod.clone(),
                force,
                grace_seconds: grace_seconds.map(|cap| u32::try_from(cap).unwrap_or(u32::MAX)),
            });
        }
        PlanStep::Wait(wake)
    }

    /// Records the answer to the removal of the pod with this identity.
    pub fn answered(&mut self, uid: &str, answer: Answer, now: Duration) {
        let left = self.end.saturating_sub(now);
        if let Answer::Overloaded { retry_after } = &answer {
            // A server that asks for more than the time left gets one more request before the end.
            let pause = retry_after
                .unwrap_or_else(|| back_off(self.overloaded))
                .min(BACK_OFF_MAX)
                .min(left / 2);
            self.overloaded = self.overloaded.saturating_add(1);
            self.resume_at = self.resume_at.max(now + pause);
        } else {
            self.overloaded = 0;
        }
        let Some(followed) = self.pods.get_mut(uid) else {
            return;
        };
        followed.asked = false;
        match answer {
            Answer::Accepted | Answer::Gone => {
                followed.accepted = true;
                followed.blocked = None;
                followed.failures = 0;
                followed.retry_at = now
                    + if answer == Answer::Accepted {
                        EFFECT_TIME
                    } else {
                        GONE_TIME
                    };
            }
            Answer::Overloaded { .. } => {}
            Answer::Budget {
                message,
                retry_after,
            } => {
                let pace = if left < SHORT_TIME {
                    SHORT_PACE
                } else {
                    BUDGET_PACE
                };
                followed.blocked = Some(message);
                followed.retry_at = now
                    + retry_after
                        .unwrap_or_default()
                        .max(pace)
                        .min(BACK_OFF_MAX)
                        .min(left / 2)
                        .max(SHORT_PACE);
            }
            Answer::Failed { message } => {
                followed.retry_at = now + back_off(followed.failures).min(left / 2).max(SHORT_PACE);
                followed.failures = followed.failures.saturating_add(1);
                followed.blocked = Some(message);
            }
        }
    }

    /// The latest end of the drain.
    pub fn end(&self) -> Duration {
        self.end
    }

    /// The progress of the drain.
    pub fn progress(&self) -> Progress {
        let mut progress = Progress::default();
        for followed in self.pods.values() {
            match followed.pod.treatment {
                Treatment::Leave => {}
                Treatment::Hold(reason) => progress
                    .blocked
                    .push((followed.pod.path(), reason.text().to_owned())),
                Treatment::Evict if followed.pod.terminating || followed.accepted => {
                    progress.terminating += 1;
                }
                Treatment::Evict => {
                    progress.waiting += 1;
                    progress.blocked.extend(
                        followed
                            .blocked
                            .clone()
                            .map(|reason| (followed.pod.path(), reason)),
                    );
                }
            }
        }
        progress
    }
}

/// 1, 2, 4, … seconds.
fn back_off(failures: u32) -> Duration {
    Duration::from_secs(1 << failures.min(5)).min(BACK_OFF_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pods::HoldReason;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn pod(uid: &str) -> DrainPod {
        DrainPod {
            uid: uid.into(),
            namespace: "shop".into(),
            name: uid.into(),
            grace: s(30),
            terminating: false,
            treatment: Treatment::Evict,
        }
    }

    fn plan(options: &NodeConfig, time_left: Option<Duration>, pods: &[DrainPod]) -> Plan {
        let mut plan = Plan::new(options, time_left);
        plan.set_pods(pods.iter().cloned());
        plan
    }

    fn removal(plan: &mut Plan, now: Duration) -> Removal {
        match plan.next(now) {
            PlanStep::Remove(removal) => removal,
            step => panic!("expected a removal at {now:?}, found {step:?}"),
        }
    }

    fn budget() -> Answer {
        Answer::Budget {
            message: "budget web".into(),
            retry_after: None,
        }
    }

    #[test]
    fn nothing_is_drained_before_the_pods_are_known() {
        let mut plan = Plan::new(&NodeConfig::default(), Some(s(100)));
        assert_eq!(plan.next(s(0)), PlanStep::Wait(s(95)));
        assert_eq!(plan.next(s(95)), PlanStep::Held);
        plan.set_pods([]);
        assert_eq!(plan.next(s(1)), PlanStep::Drained);
    }

    #[test]
    fn a_pod_is_evicted_once_and_waited_for() {
        let mut plan = plan(&NodeConfig::default(), Some(s(900)), &[pod("a")]);
        assert_eq!(
            removal(&mut plan, s(0)),
            Removal {
                pod: pod("a"),
                force: false,
                grace_seconds: None
            }
        );
        assert_eq!(plan.next(s(0)), PlanStep::Wait(s(895)));
        plan.answered("a", Answer::Accepted, s(1));
        assert_eq!(
            plan.progress(),
            Progress {
                terminating: 1,
                ..Progress::default()
            }
        );
        plan.set_pods([DrainPod {
            terminating: true,
            ..pod("a")
        }]);
        assert_eq!(
            plan.next(s(40)),
            PlanStep::Wait(s(895)),
            "a terminating pod is not asked to end again"
        );
        plan.set_pods([]);
        assert_eq!(plan.next(s(41)), PlanStep::Drained);
    }

    #[test]
    fn an_eviction_without_effect_is_asked_for_again() {
        let mut plan = plan(&NodeConfig::default(), Some(s(900)), &[pod("a")]);
        removal(&mut plan, s(0));
        plan.answered("a", Answer::Accepted, s(0));
        assert_eq!(plan.next(s(1)), PlanStep::Wait(EFFECT_TIME));
        removal(&mut plan, EFFECT_TIME);
    }

    #[test]
    fn a_budget_is_asked_again_at_a_steady_pace_and_faster_near_the_end() {
        let mut plan = plan(&NodeConfig::default(), Some(s(105)), &[pod("a")]);
        for time in [0, 5, 10] {
            removal(&mut plan, s(time));
            plan.answered("a", budget(), s(time));
            assert_eq!(plan.next(s(time)), PlanStep::Wait(s(time + 5)));
        }
        assert_eq!(
            plan.progress().blocked,
            [("shop/a".to_owned(), "budget web".to_owned())]
        );
        removal(&mut plan, s(50));
        plan.answered("a", budget(), s(50));
        assert_eq!(plan.next(s(50)), PlanStep::Wait(s(51)));
        removal(&mut plan, s(51));
        plan.answered(
            "a",
            Answer::Budget {
                message: String::new(),
                retry_after: Some(s(10)),
            },
            s(51),
        );
        assert_eq!(
            plan.next(s(51)),
            PlanStep::Wait(s(61)),
            "the server's pause counts"
        );
        assert_eq!(plan.next(s(100)), PlanStep::Held);
    }

    #[test]
    fn overload_pauses_the_evictions_of_all_pods() {
        let mut plan = plan(&NodeConfig::default(), Some(s(900)), &[pod("a"), pod("b")]);
        removal(&mut plan, s(0));
        plan.answered(
            "a",
            Answer::Overloaded {
                retry_after: Some(s(7)),
            },
            s(0),
        );
        assert_eq!(plan.next(s(0)), PlanStep::Wait(s(7)));
        removal(&mut plan, s(7));
        plan.answered("a", Answer::Overloaded { retry_after: None }, s(7));
        assert_eq!(
            plan.next(s(7)),
            PlanStep::Wait(s(9)),
            "the second time in a row"
        );
        removal(&mut plan, s(9));
        plan.answered(
            "a",
            Answer::Overloaded {
                retry_after: Some(s(3600)),
            },
            s(9),
        );
        assert_eq!(plan.next(s(9)), PlanStep::Wait(s(39)));
        assert_eq!(plan.progress().blocked, []);
    }

    #[test]
    fn failures_of_one_pod_do_not_delay_another() {
        let mut plan = plan(&NodeConfig::default(), Some(s(900)), &[pod("a"), pod("b")]);
        assert_eq!(removal(&mut plan, s(0)).pod, pod("a"));
        plan.answered(
            "a",
            Answer::Failed {
                message: "forbidden".into(),
            },
            s(0),
        );
        assert_eq!(removal(&mut plan, s(0)).pod, pod("b"));
        plan.answered("b", Answer::Accepted, s(0));
        for (time, next) in [(1, 3), (3, 7), (7, 15)] {
            assert_eq!(removal(&mut plan, s(time)).pod, pod("a"));
            plan.answered(
                "a",
                Answer::Failed {
                    message: "forbidden".into(),
                },
                s(time),
            );
            assert_eq!(plan.next(s(time)), PlanStep::Wait(s(next)));
        }
    }

    #[test]
    fn grace_is_capped_by_the_deadline_only() {
        let slow = DrainPod {
            grace: s(3600),
            ..pod("a")
        };
        let mut known = plan(
            &NodeConfig::default(),
            Some(s(905)),
            std::slice::from_ref(&slow),
        );
        assert_eq!(removal(&mut known, s(100)).grace_seconds, Some(800));
        let mut unknown = plan(&NodeConfig::default(), None, std::slice::from_ref(&slow));
        assert_eq!(removal(&mut unknown, s(100)).grace_seconds, None);
        let mut enough = plan(&NodeConfig::default(), Some(s(905)), &[pod("a")]);
        assert_eq!(removal(&mut enough, s(870)).grace_seconds, None);
        let mut late = plan(
            &NodeConfig::default(),
            Some(Duration::from_millis(1200)),
            &[pod("a")],
        );
        assert_eq!(
            removal(&mut late, Duration::from_millis(900)).grace_seconds,
            Some(1),
            "never 0: that kills at once"
        );
    }

    #[test]
    fn force_deletes_what_budgets_keep_before_the_end() {
        let options = NodeConfig {
            at_deadline: AtDeadline::Force,
            ..NodeConfig::default()
        };
        let mut plan = plan(&options, Some(s(305)), &[pod("a"), pod("b")]);
        assert!(!removal(&mut plan, s(0)).force);
        plan.answered("a", budget(), s(0));
        removal(&mut plan, s(0));
        plan.answered("b", budget(), s(238));
        assert_eq!(
            plan.next(s(238)),
            PlanStep::Remove(Removal {
                pod: pod("a"),
                force: false,
                grace_seconds: None
            })
        );
        assert_eq!(plan.next(s(239)), PlanStep::Wait(s(240)));
        let forced = removal(&mut plan, s(240));
        assert_eq!(
            (forced.pod.name.as_str(), forced.force, forced.grace_seconds),
            ("b", true, None)
        );
    }

    #[test]
    fn a_refused_deletion_is_not_repeated_at_once() {
        let options = NodeConfig {
            at_deadline: AtDeadline::Force,
            ..NodeConfig::default()
        };
        let mut plan = plan(&options, Some(s(305)), &[pod("a")]);
        assert!(removal(&mut plan, s(250)).force);
        plan.answered(
            "a",
            Answer::Failed {
                message: "forbidden".into(),
            },
            s(250),
        );
        assert_eq!(plan.next(s(250)), PlanStep::Wait(s(251)));
    }

    #[test]
    fn short_notice_leaves_half_of_it_to_budgets() {
        let options = NodeConfig {
            at_deadline: AtDeadline::Force,
            ..NodeConfig::default()
        };
        let mut plan = plan(&options, Some(s(25)), &[pod("a")]);
        let first = removal(&mut plan, s(0));
        assert_eq!((first.force, first.grace_seconds), (false, Some(20)));
        plan.answered("a", budget(), s(9));
        assert_eq!(
            removal(&mut plan, s(10)),
            Removal {
                pod: pod("a"),
                force: true,
                grace_seconds: Some(10)
            }
        );
        plan.answered("a", Answer::Accepted, s(10));
        assert_eq!(plan.next(s(20)), PlanStep::Held, "it is not gone in time");
    }

    #[test]
    fn pods_that_hold_are_waited_for_until_the_end() {
        let held = DrainPod {
            treatment: Treatment::Hold(HoldReason::EmptyDir),
            ..pod("data")
        };
        let mut plan = plan(
            &NodeConfig::default(),
            Some(s(900)),
            &[held.clone(), pod("web")],
        );
        assert_eq!(removal(&mut plan, s(0)).pod.name, "web");
        plan.answered("web", Answer::Accepted, s(0));
        plan.set_pods([held]);
        assert_eq!(plan.next(s(1)), PlanStep::Wait(s(895)));
        assert_eq!(plan.progress().blocked[0].0, "shop/data");
        assert_eq!(plan.next(s(895)), PlanStep::Held);
        plan.set_pods([]);
        assert_eq!(plan.next(s(895)), PlanStep::Drained);
    }

    #[test]
    fn a_new_pod_of_the_same_name_is_another_pod() {
        let mut plan = plan(&NodeConfig::default(), Some(s(900)), &[pod("a")]);
        removal(&mut plan, s(0));
        plan.answered("a", Answer::Accepted, s(0));
        let new = DrainPod {
            uid: "other".into(),
            ..pod("a")
        };
        plan.set_pods([new.clone()]);
        assert_eq!(removal(&mut plan, s(1)).pod, new);
    }

    #[test]
    fn only_some_requests_are_on_their_way_at_a_time() {
        let pods: Vec<_> = (0..20)
            .map(|number| pod(&format!("p{number:02}")))
            .collect();
        let mut plan = plan(&NodeConfig::default(), Some(s(900)), &pods);
        for _ in 0..REQUESTS_MAX {
            removal(&mut plan, s(0));
        }
        assert_eq!(plan.next(s(0)), PlanStep::Wait(s(895)));
        plan.answered("p03", Answer::Accepted, s(0));
        assert_eq!(removal(&mut plan, s(0)).pod.name, "p08");
    }
}
