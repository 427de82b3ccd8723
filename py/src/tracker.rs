//! `Tracker`: what changed between documents.

use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyList;
use scheduled_events::imds::names_for;
use scheduled_events::limits::EVENTS_MAX;
use scheduled_events_core::record::{EventMembers, Record};
use scheduled_events_core::{EventId, Text, Tracker as CoreTracker};

use crate::convert::{Moment, Names};
use crate::document::Document;
use crate::{errors, words};

/// Remembers the events of the last document, and tells what the next one changes.
///
/// Give it documents only: a failed poll, an empty body or a 304 says nothing, so it ends nothing. It holds 1024
/// events.
#[pyclass(frozen, module = "scheduled_events")]
pub(crate) struct Tracker {
    core: Mutex<Box<CoreTracker<EVENTS_MAX>>>,
    vm_names: Names,
    api_version: String,
}

#[pymethods]
impl Tracker {
    #[new]
    #[pyo3(signature = (vm_names=None, *, api_version="2020-07-01"))]
    fn new(vm_names: Option<Names>, api_version: &str) -> Self {
        let core = Mutex::new(Box::new(CoreTracker::new()));
        Self { core, vm_names: vm_names.unwrap_or_default(), api_version: api_version.to_owned() }
    }

    /// Takes a document and gives the changes since the last one: a list of Change.
    ///
    /// Raises CapacityError, and changes nothing, when the document holds more events than there is room for.
    #[pyo3(signature = (document, now=None))]
    fn observe<'py>(
        &self,
        py: Python<'py>,
        document: &Bound<'py, Document>,
        now: Option<Moment>,
    ) -> PyResult<Bound<'py, PyList>> {
        let now = Moment::or_now(now);
        let document = document.get().core(py)?;
        let names = self.vm_names.borrowed();
        let names = names_for(&names, &self.api_version);
        let mut records = Vec::new();
        let mut tracker = self.core.lock().unwrap_or_else(PoisonError::into_inner);
        let observed = tracker.observe(&document, names, now, |change, event| {
            let record = Record::Change { change, event: EventMembers::from_tracked(event) };
            records.push(serde_json::to_value(record.at(now)).unwrap_or_default());
        });
        drop(tracker);
        observed.map_err(|full| errors::capacity(py, full.needed, EVENTS_MAX))?;
        let changes: PyResult<Vec<_>> = records.iter().map(|record| words::record(py, record)).collect();
        PyList::new(py, changes?)
    }

    /// Notes that an approval of this event succeeded, by which ``cancelled`` and ``ended`` are told apart.
    fn approved(&self, event_id: &str) -> bool {
        let event_id = EventId::new(&Text::plain(event_id));
        self.core.lock().unwrap_or_else(PoisonError::into_inner).approved(&event_id)
    }

    /// How many events are tracked.
    fn __len__(&self) -> usize {
        self.core.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    #[allow(clippy::unused_self)] // Python asks an object.
    fn __bool__(&self) -> bool {
        true
    }

    fn __repr__(&self) -> String {
        format!("<Tracker of {} events>", self.__len__())
    }
}
