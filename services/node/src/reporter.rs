//! What people see on the Node: condition, annotation and Events. Reporting runs beside the work,
//! and neither delays it nor fails it.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

use crate::api::NodeApi;
use crate::conditions::WantedCondition;
use crate::print;

/// How long a command waits at its end for reports that are not sent yet.
const FLUSH_TIME: Duration = Duration::from_secs(2);

enum Report {
    Conditions(Vec<WantedCondition>),
    Progress(String),
    Event {
        warning: bool,
        reason: &'static str,
        text: String,
    },
}

/// Sends reports in the order of the calls.
pub struct Reporter {
    sender: UnboundedSender<Report>,
    task: JoinHandle<()>,
}

impl Reporter {
    /// Starts a reporter for this node, as last read.
    pub fn start(api: NodeApi, mut node: Node) -> Self {
        let (sender, mut reports) = unbounded_channel();
        let task = tokio::spawn(async move {
            while let Some(report) = reports.recv().await {
                let (what, result) = match report {
                    Report::Conditions(wanted) => (
                        "set the conditions",
                        api.set_conditions(&node, &wanted).await.map(|changed| {
                            node = changed.unwrap_or_else(|| node.clone());
                        }),
                    ),
                    Report::Progress(text) => ("annotate the node", api.show_progress(&text).await),
                    Report::Event {
                        warning,
                        reason,
                        text,
                    } => (
                        "publish an Event",
                        api.publish(&node, warning, reason, &text).await,
                    ),
                };
                if let Err(error) = result {
                    print(&format!("node {}: cannot {what}: {error}", api.name()));
                }
            }
        });
        Self { sender, task }
    }

    /// Sets conditions.
    pub fn conditions(&self, wanted: Vec<WantedCondition>) {
        self.send(Report::Conditions(wanted));
    }

    /// Shows the progress of the work.
    pub fn progress(&self, text: &str) {
        self.send(Report::Progress(text.into()));
    }

    /// Publishes an Event.
    pub fn event(&self, warning: bool, reason: &'static str, text: &str) {
        self.send(Report::Event {
            warning,
            reason,
            text: text.into(),
        });
    }

    fn send(&self, report: Report) {
        // The task ends only with this object.
        let _ = self.sender.send(report);
    }

    /// Waits a limited time until everything is reported.
    pub async fn finish(self) {
        drop(self.sender);
        let _ = tokio::time::timeout(FLUSH_TIME, self.task).await;
    }
}
