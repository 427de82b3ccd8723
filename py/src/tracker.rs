//! `Tracker`: the changes between documents.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyList;
use scheduled_events::imds::{API_VERSION, names_for};
use scheduled_events::limits::EVENTS_MAX;
use scheduled_events::watch;
use scheduled_events_core::record::{EventMembers, Record};
use scheduled_events_core::{EventId, Text, Tracker, VmNames};

use crate::convert::{Arg, Moment, Names};
use crate::document::PyDocument;
use crate::errors;
use crate::ids::EventIdArgument;
use crate::words::Fields;

/// Remembers the events of the last document, and reports what the next one changes.
///
/// Give it documents only: a failed poll or an empty body ends no event. It holds 1024 events.
#[pyclass(frozen, name = "Tracker", module = "scheduled_events")]
pub(crate) struct PyTracker {
    state: Mutex<State>,
    vm_names: Names,
    api_version: String,
}

struct State {
    core: Box<Tracker<EVENTS_MAX>>,
    /// What the last observation returned.
    ignored: usize,
}

impl PyTracker {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl PyTracker {
    #[new]
    #[pyo3(signature = (vm_names=None, *, api_version=Arg(API_VERSION.to_owned())),
           text_signature = "(vm_names=None, *, api_version='2020-07-01')")]
    fn new(vm_names: Option<Names>, api_version: Arg<String>) -> Self {
        let state = Mutex::new(State {
            core: Box::new(Tracker::with_seed(watch::seed())),
            ignored: 0,
        });
        Self {
            state,
            vm_names: vm_names.unwrap_or_default(),
            api_version: api_version.0,
        }
    }

    /// Apply a document and return the changes since the last one. Raises CapacityError, and then changes nothing.
    ///
    /// Give it documents only: a failed poll or an empty body ends no event.
    #[pyo3(signature = (document, now=None))]
    fn observe<'py>(
        &self,
        py: Python<'py>,
        document: Arg<Bound<'py, PyDocument>>,
        now: Option<Moment>,
    ) -> PyResult<Bound<'py, PyList>> {
        let now = Moment::or_now(now);
        let document = document.0.get().core(py)?;
        let names = self.vm_names.borrowed();
        let names = names_for(&names, &self.api_version);
        let mut records = Vec::new();
        let observed = {
            let State { core, ignored } = &mut *self.lock();
            let observed = core.observe(&document, names, now, |change, event| {
                let mut events = document.events();
                let newest =
                    events.find(|newest| EventId::new(&newest.event_id()) == *event.event_id());
                let newest =
                    newest.map(|newest| EventMembers::from_event(&newest, VmNames::UNKNOWN));
                let event = EventMembers::from_tracked(event).with_newest(newest);
                records.push(Fields::of(&Record::Change { change, event }.at(now)));
            });
            observed.map(|count| *ignored = count)
        };
        observed.map_err(|full| errors::capacity(py, full.needed, EVENTS_MAX))?;
        let changes = records.into_iter().map(|record| record.record(py));
        PyList::new(py, changes.collect::<PyResult<Vec<_>>>()?)
    }

    /// How many events of the last document were ignored because an earlier event has the same id.
    ///
    /// Those among the first 64 ids are not counted: ``Document.events`` leaves them out, and they are problems.
    #[getter]
    fn ignored(&self) -> usize {
        self.lock().ignored
    }

    /// Note that an approval of this event succeeded, which distinguishes ``ended`` from ``cancelled``.
    fn approved(&self, event_id: EventIdArgument) -> bool {
        self.lock()
            .core
            .approved(&EventId::new(&Text::plain(&event_id.0)))
    }

    /// How many events are tracked.
    fn __len__(&self) -> usize {
        self.lock().core.len()
    }

    #[allow(clippy::unused_self)] // Python calls it as a method.
    fn __bool__(&self) -> bool {
        true
    }

    fn __repr__(&self) -> String {
        format!("<Tracker of {} events>", self.__len__())
    }
}
