//! A maintenance as a picture, for a post-mortem: a lane for each machine, and a bar for each event
//! with the actions on it.
//!
//! `maintenance` reads the records of watchers, one audit file for each machine, and selects the
//! maintenance to draw. `svg` draws it.

mod maintenance;
mod svg;

pub(crate) use maintenance::{AuditLane, Maintenance};
pub(crate) use svg::draw;
