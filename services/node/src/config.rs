//! What the drain of a node needs of the configuration file: the table `[node]`, and how to ask about the machine.

use std::time::Duration;

use serde::Deserialize;

use scheduled_events_common::config::{default_metadata, machine, metadata};
use scheduled_events_common::toml_file::{Invalid, duration, invalid};

/// The configuration of one machine. The other keys of the file are the gate's and the relay's, which check them.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct Config {
    /// This machine's name, as in the `Resources` of events. Without it, instance metadata is asked.
    #[serde(default, deserialize_with = "machine")]
    pub machine: Option<String>,
    /// The metadata service.
    #[serde(default = "default_metadata", deserialize_with = "metadata")]
    pub metadata: String,
    /// How the Kubernetes node of this machine is drained.
    #[serde(default)]
    pub node: NodeConfig,
}

impl Config {
    /// Reads a configuration.
    ///
    /// # Errors
    /// The offset of what is wrong, where it has one, and a sentence about it.
    ///
    /// ```
    /// use scheduled_events_node::config::Config;
    ///
    /// let config = Config::parse("node = { timeout = \"20m\" }").unwrap();
    /// assert_eq!(config.node.timeout.as_secs(), 1200);
    /// ```
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        toml::from_str(text).map_err(invalid)
    }
}

/// How to drain the Kubernetes node of this machine.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, default)]
pub struct NodeConfig {
    /// The node's name; by default, the environment variable `NODE_NAME`, or the name derived from
    /// the machine's.
    pub name: Option<String>,
    /// The effect of the taint that the node gets besides being cordoned.
    pub taint: TaintEffect,
    /// The rule for pods with an `emptyDir` volume, whose data an eviction deletes.
    pub empty_dir: EmptyDirRule,
    /// The rule for pods without a controller, which nothing creates again.
    pub unmanaged: PodRule,
    /// The rule for pods that are still on the node at the deadline.
    pub at_deadline: AtDeadline,
    /// With `at_deadline = "force"`: how long before the deadline, at most half of the drain's
    /// time, pods are deleted past their budgets.
    #[serde(deserialize_with = "duration")]
    pub force_before: Duration,
    /// How long before the event's `NotBefore` the deadline is.
    #[serde(deserialize_with = "duration")]
    pub margin: Duration,
    /// How long after the start of the drain the deadline is if `NotBefore` is unknown. With a
    /// known one, a drain may take until then.
    #[serde(deserialize_with = "duration")]
    pub timeout: Duration,
    /// Whether the label `node.kubernetes.io/exclude-from-external-load-balancers` keeps external
    /// load balancers away from the node while it is out of service.
    pub exclude_from_load_balancers: bool,
    /// The conditions that the node gets besides `ScheduledEventPending`, for programs that act on
    /// them.
    pub conditions: Vec<AddedConditions>,
    /// What a drain does for advice, such as a Spot rebalance recommendation.
    pub on_advice: OnAdvice,
    /// How long a recovery waits until the node is ready. After that it fails, and the watcher
    /// repeats it.
    #[serde(deserialize_with = "duration")]
    pub ready_timeout: Duration,
}

/// The effect of the taint.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
pub enum TaintEffect {
    /// No taint.
    #[serde(rename = "none")]
    None,
    /// Only pods with a toleration are scheduled.
    #[default]
    NoSchedule,
    /// New pods are scheduled only if there is no other node.
    PreferNoSchedule,
    /// Kubernetes itself evicts pods without a toleration, ignoring budgets.
    NoExecute,
}

impl TaintEffect {
    /// The effect, in the API's words.
    pub fn word(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::NoSchedule => Some("NoSchedule"),
            Self::PreferNoSchedule => Some("PreferNoSchedule"),
            Self::NoExecute => Some("NoExecute"),
        }
    }
}

/// The rule for certain pods.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum PodRule {
    /// They stay, and the node does not count as drained.
    #[default]
    Hold,
    /// They are evicted.
    Evict,
    /// They stay, and do not count.
    Leave,
}

/// The rule for pods with an `emptyDir` volume.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum EmptyDirRule {
    /// They are evicted for events that erase the machine's local disks in any case, and held for
    /// all others.
    #[default]
    Auto,
    /// [`PodRule::Hold`].
    Hold,
    /// [`PodRule::Evict`].
    Evict,
    /// [`PodRule::Leave`].
    Leave,
}

impl EmptyDirRule {
    /// The rule for an event of this type. Without an event, or for an unknown type, no data would
    /// be lost without a drain.
    pub fn for_event(self, event_type: Option<&str>) -> PodRule {
        match self {
            Self::Auto => match event_type {
                Some("Redeploy" | "Preempt" | "Terminate") => PodRule::Evict,
                _ => PodRule::Hold,
            },
            Self::Hold => PodRule::Hold,
            Self::Evict => PodRule::Evict,
            Self::Leave => PodRule::Leave,
        }
    }
}

/// Conditions that the configuration adds.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
pub enum AddedConditions {
    /// The lifecycle conditions of Kubernetes (KEP-5683): `MaintenancePlanned`, `DrainInProgress`,
    /// `Drained` and `MaintenanceInProgress`.
    #[serde(rename = "lifecycle")]
    Lifecycle,
    /// `Terminating` for a Preempt, for which `OpenShift` deletes the machine.
    Terminating,
    /// `PreemptionScheduled` for a Preempt, for which Karpenter replaces the node.
    PreemptionScheduled,
}

/// The rule for advice: the machine may be evicted soon, or not at all.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum OnAdvice {
    /// Nothing changes.
    #[default]
    Ignore,
    /// The node is cordoned, and pods stay.
    Cordon,
    /// The node is drained as for an event without a start.
    Drain,
}

/// The rule for the deadline.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum AtDeadline {
    /// The drain fails, and the event is not approved.
    #[default]
    Hold,
    /// Pods are deleted past their disruption budgets.
    Force,
}

impl Default for NodeConfig {
    fn default() -> Self {
        Self {
            name: None,
            taint: TaintEffect::default(),
            empty_dir: EmptyDirRule::default(),
            unmanaged: PodRule::default(),
            at_deadline: AtDeadline::default(),
            force_before: Duration::from_secs(60),
            margin: Duration::from_secs(5),
            timeout: Duration::from_secs(14 * 60),
            exclude_from_load_balancers: false,
            conditions: Vec::new(),
            on_advice: OnAdvice::default(),
            ready_timeout: Duration::from_secs(5 * 60),
        }
    }
}
