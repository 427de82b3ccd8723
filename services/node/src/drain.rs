//! The command `drain`: cordons the node and evicts its pods.

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Duration;

use futures_util::stream::FuturesUnordered;
use futures_util::{Stream, StreamExt};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::jiff::Timestamp;
use kube::runtime::watcher::{self, Event, watcher};
use kube::runtime::{WatchStreamExt, watcher::Error as WatchError};
use tokio::time::Instant;

use crate::api::{NodeApi, NodeError};
use crate::conditions::{BY_LAST_CALL, DrainStage, WantedCondition, of_drain};
use crate::config::Config;
use crate::config::{NodeConfig, OnAdvice};
use crate::event::HookEvent;
use crate::name::node_name;
use crate::plan::{Plan, PlanStep, Progress};
use crate::pods::{DrainPod, PodRules};
use crate::record::{Cordon, cordon_of, take_out};
use crate::reporter::Reporter;
use crate::{boot_id, print};
use scheduled_events_common::failure::Failure;
use scheduled_events_common::http;

/// How often a watch starts again, so that a silent server is noticed.
const WATCH_SECONDS: u32 = 30;
/// The least time between two changes of what people see on the Node.
const SHOW_PACE: Duration = Duration::from_secs(5);
/// The pause after a failed request about the node.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Drains the node for the event on standard input.
///
/// # Errors
/// The node is not drained in time; or the event or the node's name is invalid or missing.
pub async fn run(config: &Config, node: Option<&str>) -> Result<(), Failure> {
    let name = node_name(node, config).await.map_err(Failure::usage)?;
    let event = HookEvent::from_stdin().map_err(Failure::usage)?;
    if event
        .as_ref()
        .is_some_and(|event| event.mine == Some(false))
    {
        let advice = "its preparation is no reason to drain this machine's node (use a rule with scope \"mine\")";
        return Err(Failure::usage(format!(
            "the event does not name this machine: {advice}"
        )));
    }
    let on_advice = event
        .as_ref()
        .filter(|event| event.is_advice())
        .map(|_| config.node.on_advice);
    if on_advice == Some(OnAdvice::Ignore) {
        print(&format!(
            "node {name}: stays in service, because `node.on_advice` ignores advice"
        ));
        return Ok(());
    }
    let api = NodeApi::connect(&name).await.map_err(Failure::usage)?;
    Drain::new(api, config.node.clone(), event)?.run().await
}

/// Whether the watcher prepares although its gate has not answered yes.
fn is_last_call() -> bool {
    std::env::var_os("SCHEDULED_EVENTS_LAST_CALL").is_some()
}

/// The time until the event starts. The watcher's value takes precedence: its clock may be better
/// than this machine's.
fn time_left(said: Option<&str>, start: Option<Timestamp>, now: Timestamp) -> Option<Duration> {
    let of_clock =
        |start: Timestamp| Duration::try_from(start.duration_since(now)).unwrap_or_default();
    let said = said
        .and_then(|seconds| seconds.parse().ok())
        .map(Duration::from_secs);
    start.map(|start| said.unwrap_or_else(|| of_clock(start)))
}

struct Drain {
    api: NodeApi,
    options: NodeConfig,
    event: Option<HookEvent>,
    plan: Plan,
    begin: Instant,
}

impl Drain {
    fn new(api: NodeApi, options: NodeConfig, event: Option<HookEvent>) -> Result<Self, Failure> {
        // Advice never starts.
        let is_advice = event.as_ref().is_some_and(HookEvent::is_advice);
        let start = event
            .as_ref()
            .map(HookEvent::start)
            .transpose()
            .map_err(Failure::usage)?
            .flatten()
            .filter(|_| !is_advice);
        // From here on a monotonic clock measures the time, however the wall clock is set.
        let said = std::env::var("SCHEDULED_EVENTS_SECONDS_LEFT").ok();
        let plan = Plan::new(
            &options,
            time_left(said.as_deref(), start, Timestamp::now()),
        );
        Ok(Self {
            api,
            options,
            event,
            plan,
            begin: Instant::now(),
        })
    }

    async fn run(mut self) -> Result<(), Failure> {
        let name = self.api.name().to_owned();
        let node = self.cordon().await?;
        let is_advice = self.event.as_ref().is_some_and(HookEvent::is_advice);
        let about = self.event.as_ref().map_or_else(
            || "drained by hand".to_owned(),
            |event| {
                if event.is_advice() {
                    return format!(
                        "{} {} is advice: this machine may be evicted",
                        event.type_word(),
                        event.event_id.escape_debug()
                    );
                }
                let not_before = event.not_before.as_deref().unwrap_or("at an unknown time");
                let last_call = if is_last_call() { BY_LAST_CALL } else { "" };
                format!(
                    "{} {} not before {not_before}{last_call}",
                    event.type_word(),
                    event.event_id.escape_debug()
                )
            },
        );
        let reporter = Reporter::start(self.api.clone(), node);
        if is_advice && self.options.on_advice == OnAdvice::Cordon {
            let cause = self.event.as_ref().map_or("Other", HookEvent::type_word);
            reporter.conditions(vec![WantedCondition::pending(true, cause, &about)]);
            reporter.event(
                false,
                "ScheduledEventAdvised",
                &format!("Cordoned: {about}"),
            );
            reporter.finish().await;
            return Ok(());
        }
        let cause = self.event.as_ref().map_or("Manual", HookEvent::type_word);
        let mut conditions = vec![WantedCondition::pending(true, cause, &about)];
        conditions.extend(self.conditions(DrainStage::Begun, &about));
        reporter.conditions(conditions);
        reporter.event(false, "ScheduledEventDrain", &format!("Draining: {about}"));
        let drained = self.evict(&reporter).await;
        let result = if drained {
            reporter.progress("drained");
            reporter.conditions(self.conditions(DrainStage::Drained, &about));
            reporter.event(false, "ScheduledEventDrained", &about);
            print(&format!("node {name}: drained"));
            Ok(())
        } else {
            let text = format!("not drained in time: {}", describe(&self.plan.progress()));
            reporter.progress(&text);
            reporter.conditions(self.conditions(DrainStage::Failed, &text));
            reporter.event(true, "ScheduledEventDrainFailed", &text);
            Err(Failure::refused(format!("node {name}: {text}")))
        };
        reporter.finish().await;
        result
    }

    fn conditions(&self, stage: DrainStage, message: &str) -> Vec<WantedCondition> {
        of_drain(
            &self.options.conditions,
            stage,
            self.event.as_ref(),
            message,
        )
    }

    /// Takes the node out of service, and returns its new state.
    async fn cordon(&self) -> Result<Node, Failure> {
        let boot_id = boot_id();
        let boot_id = boot_id.as_deref();
        let name = self.api.name();
        let mut printed = String::new();
        loop {
            let changed = async {
                let node = self.api.get().await?;
                let now = Timestamp::now().strftime("%FT%TZ").to_string();
                let Some(patch) =
                    take_out(&node, self.event.as_ref(), &self.options, &now, boot_id)
                else {
                    return Ok((node, false));
                };
                let before = cordon_of(&node);
                Ok((self.api.patch(&patch).await?, before == Cordon::None))
            };
            let failure = match changed.await {
                Ok((node, cordoned)) => {
                    match cordon_of(&node) {
                        Cordon::Others(manager) => {
                            let manager = manager.as_deref().unwrap_or("somebody else");
                            print(&format!(
                                "node {name}: {} has cordoned it, and it will stay so",
                                manager.escape_debug()
                            ));
                        }
                        _ if cordoned => print(&format!("node {name}: cordoned")),
                        _ => print(&format!("node {name}: still cordoned")),
                    }
                    return Ok(node);
                }
                // The kubelet may register it again.
                Err(NodeError::NotFound) => {
                    format!("there is no node {name}: use --node, NODE_NAME or `node.name`")
                }
                Err(NodeError::Refused(message)) => {
                    return Err(Failure::refused(format!(
                        "cannot cordon node {name}: {message}"
                    )));
                }
                Err(error @ (NodeError::Conflict | NodeError::Failed(_))) => error.to_string(),
            };
            if failure != printed {
                print(&format!("cannot cordon node {name} yet: {failure}"));
                printed.clone_from(&failure);
            }
            if self.begin.elapsed() + RETRY_PAUSE >= self.plan.end() {
                return Err(Failure::refused(format!(
                    "cannot cordon node {name} in time: {failure}"
                )));
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }

    /// Evicts until no pod is left, or until the deadline. Returns whether no pod is left.
    async fn evict(&mut self, reporter: &Reporter) -> bool {
        let selector =
            watcher::Config::default().fields(&format!("spec.nodeName={}", self.api.name()));
        let mut changes =
            pin!(watcher(self.api.pods(), selector.timeout(WATCH_SECONDS)).default_backoff());
        let rules = PodRules::new(&self.options, self.event.as_ref().map(HookEvent::type_word));
        let mut pods = PodSet::default();
        let mut answers = FuturesUnordered::new();
        let (mut shown, mut printed) = (Shown::default(), String::new());
        loop {
            let wait = match self.plan.next(self.begin.elapsed()) {
                PlanStep::Remove(removal) => {
                    let api = self.api.clone();
                    answers.push(async move {
                        let answer = api.remove(&removal).await;
                        (removal, answer)
                    });
                    continue;
                }
                PlanStep::Wait(until) => until,
                PlanStep::Drained => return true,
                PlanStep::Held => return false,
            };
            self.show(reporter, &mut shown);
            // The next change of what people see is due, too.
            let wait = shown.due.map_or(wait, |due| wait.min(due));
            tokio::select! {
                change = next_change(&mut changes) => {
                    match change {
                        Ok(event) => {
                            // An attempt to read all of them begins with another event.
                            if matches!(event, Event::InitDone | Event::Apply(_)) {
                                printed.clear();
                            }
                            pods.apply(event, rules);
                        }
                        Err(error) => {
                            // It is tried again, and said once.
                            let failure = http::reason(&error);
                            if failure != printed {
                                print(&format!("cannot follow the pods: {}", failure.escape_debug()));
                                printed = failure;
                            }
                        }
                    }
                    if pods.complete {
                        self.plan.set_pods(pods.pods.values().cloned());
                    }
                }
                Some((removal, answer)) = answers.next(), if !answers.is_empty() => {
                    self.plan.answered(&removal.pod.uid, answer, self.begin.elapsed());
                }
                () = tokio::time::sleep_until(self.begin + wait) => {}
            }
        }
    }

    /// Prints the progress when it changes, and shows it on the Node.
    fn show(&self, reporter: &Reporter, shown: &mut Shown) {
        let text = describe(&self.plan.progress());
        if text == shown.text || text.is_empty() {
            shown.due = None;
            return;
        }
        let now = self.begin.elapsed();
        if let Some(last) = shown.last.filter(|last| now < *last + SHOW_PACE) {
            shown.due = Some(last + SHOW_PACE);
            return;
        }
        print(&format!("node {}: {text}", self.api.name()));
        reporter.progress(&text);
        *shown = Shown {
            text,
            last: Some(now),
            due: None,
        };
    }
}

/// The last progress that the Node showed.
#[derive(Default)]
struct Shown {
    text: String,
    last: Option<Duration>,
    due: Option<Duration>,
}

/// The pods of the node, as the watch reports them.
#[derive(Default)]
struct PodSet {
    pods: BTreeMap<String, DrainPod>,
    initial: BTreeMap<String, DrainPod>,
    complete: bool,
}

impl PodSet {
    fn apply(&mut self, event: Event<Pod>, rules: PodRules) {
        let entry = |pod: &Pod| {
            let pod = DrainPod::of(pod, rules);
            (pod.uid.clone(), pod)
        };
        match event {
            Event::Init => self.initial.clear(),
            Event::InitApply(pod) => self.initial.extend([entry(&pod)]),
            Event::InitDone => {
                self.pods = std::mem::take(&mut self.initial);
                self.complete = true;
            }
            Event::Apply(pod) => self.pods.extend([entry(&pod)]),
            Event::Delete(pod) => {
                self.pods.remove(&pod.metadata.uid.unwrap_or_default());
            }
        }
    }
}

async fn next_change(
    changes: &mut (impl Stream<Item = Result<Event<Pod>, WatchError>> + Unpin),
) -> Result<Event<Pod>, WatchError> {
    match changes.next().await {
        Some(change) => change,
        // The stream has no end.
        None => std::future::pending().await,
    }
}

/// The progress in words, with at most three reasons.
fn describe(progress: &Progress) -> String {
    let mut parts = Vec::new();
    if progress.terminating > 0 {
        parts.push(format!("{} pods are ending", progress.terminating));
    }
    if progress.waiting > 0 {
        parts.push(format!("{} pods wait for their eviction", progress.waiting));
    }
    let reasons = progress
        .blocked
        .iter()
        .take(3)
        .map(|(pod, reason)| format!("{} {reason}", pod.escape_debug()));
    parts.extend(reasons);
    if progress.blocked.len() > 3 {
        parts.push(format!("and {} more", progress.blocked.len() - 3));
    }
    parts.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drain_has_the_time_that_the_watcher_says_whatever_the_clock_says() {
        let now: Timestamp = "2026-03-16T12:00:00Z".parse().expect("a time");
        let start = Some(now + Duration::from_secs(900));
        let seconds =
            |said: Option<&str>, start| time_left(said, start, now).map(|left| left.as_secs());
        assert_eq!(seconds(Some("840"), start), Some(840));
        assert_eq!(
            seconds(Some("840"), Some(now - Duration::from_secs(86_400))),
            Some(840),
            "a day ahead"
        );
        assert_eq!(seconds(None, start), Some(900));
        assert_eq!(seconds(Some("soon"), start), Some(900));
        assert_eq!(seconds(None, Some(now - Duration::from_secs(9))), Some(0));
        assert_eq!(seconds(Some("840"), None), None, "drained by hand");
    }
}
