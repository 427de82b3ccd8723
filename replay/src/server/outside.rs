//! A server outside its machines: the settings of its control plane, and the thread that fills the
//! queue.

use std::time::{Duration, Instant};

use crate::control_plane::delivery::Schedule;
use crate::control_plane::queue::QueueAddress;
use crate::service::Service;

/// How often the thread that delivers checks whether the server stops.
const TICK: Duration = Duration::from_millis(250);

/// A server's services outside its machines: Azure Resource Manager and Azure Resource Graph, at an
/// address of their own, and Event Grid, which fills a queue.
///
/// ```
/// use scheduled_events_replay::{ControlPlane, Scenario, Server, ServerConfig};
///
/// let scenario = Scenario::builtin("user-reboot").ok_or("a built-in name")?;
/// let server = Server::start(ServerConfig::new(scenario).vm_name("db").control_plane(ControlPlane::default()))?;
/// let url = server.control_plane().ok_or("a control plane")?;
/// let mut answer = ureq::post(format!("{url}/providers/Microsoft.ResourceGraph/resources?api-version=2024-04-01"))
///     .header("Authorization", "Bearer anything")
///     .send(r#"{"query": "resources | project id, name"}"#)?;
/// let answer: serde_json::Value = serde_json::from_str(&answer.body_mut().read_to_string()?)?;
/// assert_eq!(answer["data"][0]["name"], "db");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ControlPlane {
    /// The queue for a message about each change of an event. The server creates it if it is
    /// missing. With a queue, the scenario starts with the server.
    pub queue: Option<QueueAddress>,
}

impl ControlPlane {
    /// Sets [`queue`](Self::queue).
    ///
    /// ```
    /// use scheduled_events_replay::ControlPlane;
    ///
    /// let control_plane = ControlPlane::default().queue("http://127.0.0.1:10001/devstoreaccount1/events".parse()?);
    /// assert!(control_plane.queue.is_some());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn queue(mut self, address: QueueAddress) -> Self {
        self.queue = Some(address);
        self
    }
}

/// Delivers messages, until the server stops.
pub(super) fn deliver(queue: &QueueAddress, service: &Service) {
    let mut schedule = Schedule::default();
    while !service.is_stopping() {
        let due = schedule
            .next_due()
            .map_or(TICK, |due| due.saturating_duration_since(Instant::now()));
        for mail in service.collect_mail(due.min(TICK)) {
            schedule.accept(mail, Instant::now());
        }
        while let Some(letter) = schedule
            .take_due(Instant::now())
            .filter(|_| !service.is_stopping())
        {
            let result = queue.send(letter.content.as_bytes());
            let is_delivered = result.is_ok();
            service.report_message(letter.report(result.err().map(|error| error.to_string())));
            if !is_delivered {
                schedule.retry(letter, Instant::now());
            }
        }
    }
}
