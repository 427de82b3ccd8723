//! The name that an option gives this machine, beside that of the metadata service.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use scheduled_events::imds::Imds;
use scheduled_events::limits::NAME_TIMEOUT;

use crate::output::diagnose;
use crate::output::format::printable;

/// When the service is asked for the name, after the start of the watcher: polls are more urgent.
const ASKED_AFTER: Duration = Duration::from_secs(15);

/// When it is asked again if it does not answer.
const ASKED_AGAIN_AFTER: Duration = Duration::from_secs(600);

/// Whether these names, if there are any, have this one. The case of names does not count, and one
/// version of the API writes an underscore before them.
pub(crate) fn is_named(given: &[String], known: &str) -> bool {
    given.is_empty()
        || given
            .iter()
            .any(|name| name.trim_start_matches('_').eq_ignore_ascii_case(known))
}

/// That no given name is this machine's, with what follows from it.
pub(super) fn differs(given: &[String], known: &str) -> String {
    format!(
        "the metadata service calls this machine {}, --vm-name {}: events of {0} count as another machine's",
        printable(known),
        printable(&given.join(", "))
    )
}

/// The names of machines and scale sets in the finding about the name.
pub(super) fn names_in(found: &str) -> Vec<&str> {
    let after = |start: &str, end: &str| found.split_once(start)?.1.split(end).next();
    let plain = found.split_once(": ").map(|(name, _)| name);
    let set = after(" scale set ", ";");
    let known = after(" calls this machine ", ",");
    let plain = plain.filter(|name| !name.contains(' ') && *name != "unknown");
    [plain, known, set].into_iter().flatten().collect()
}

/// Warns once if the metadata service has another name for this machine than those given.
pub(crate) struct NameCheck {
    imds: Imds,
    given: Vec<String>,
    due: Instant,
    /// Whether the service has answered.
    is_done: Arc<AtomicBool>,
}

impl NameCheck {
    /// A check of these names; none if there are none.
    pub(crate) fn new(imds: &Imds, given: &[String]) -> Option<Self> {
        (!given.is_empty()).then(|| Self {
            imds: imds.clone(),
            given: given.to_vec(),
            due: Instant::now() + ASKED_AFTER,
            is_done: Arc::default(),
        })
    }

    /// Asks the service when it is time, from another thread. It is called when a document has
    /// arrived: a service that refuses polls is not asked for more.
    pub(crate) fn on_document(&mut self) {
        if Instant::now() < self.due || self.is_done.load(Ordering::Relaxed) {
            return;
        }
        self.due = Instant::now() + ASKED_AGAIN_AFTER;
        let (imds, given) = (self.imds.clone(), self.given.clone());
        let is_done = Arc::clone(&self.is_done);
        // Without a thread, it is tried again.
        let _ = thread::Builder::new().spawn(move || {
            if let Ok(known) = imds.vm_name(NAME_TIMEOUT) {
                is_done.store(true, Ordering::Relaxed);
                if !is_named(&given, &known) {
                    let text = differs(&given, &known);
                    diagnose("warning", &format!("{text}; leave --vm-name out"));
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_are_found_again_in_the_finding() {
        let differs = differs(&["x".to_owned()], "web_0");
        assert_eq!(names_in(&differs), ["web_0"]);
        assert_eq!(
            names_in("web_0: instance of the uniform scale set web; Resources have …"),
            ["web_0", "web"]
        );
        assert!(names_in("unknown: the metadata service does not answer").is_empty());
        assert!(names_in("the metadata service does not have it: status 404").is_empty());
    }

    #[test]
    fn names_are_compared_without_case_and_underscore() {
        let given = |name: &str| vec!["other".to_owned(), name.to_owned()];
        for (name, is_same) in [("WEB_0", true), ("_web_0", true), ("web-0", false)] {
            assert_eq!(is_named(&given(name), "web_0"), is_same, "{name}");
        }
        assert!(is_named(&[], "web_0"));
    }
}
