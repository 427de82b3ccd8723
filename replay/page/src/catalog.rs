//! The choices for the page: the built-in scenarios and the kinds of fault.

use scheduled_events_replay::{Scenario, fault};
use serde_json::{Value, json};

/// The built-in scenarios with their text, and the kinds of fault with their syntax.
pub(crate) fn catalog() -> Value {
    let scenarios: Vec<_> = Scenario::builtins()
        .map(|(name, about)| json!({"name": name, "about": about, "text": Scenario::builtin_source(name)}))
        .collect();
    let faults: Vec<_> = fault::KINDS
        .iter()
        .map(|(syntax, about)| json!({"syntax": syntax, "about": about}))
        .collect();
    json!({"scenarios": scenarios, "faults": faults, "seed_max": crate::settings::SEED_MAX})
}
