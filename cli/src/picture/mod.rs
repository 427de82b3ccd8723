//! A maintenance as a picture, for a post-mortem: a lane for each machine, a bar for each event, and what was done about it.
//!
//! `maintenance` reads the records of watchers, one audit file for each machine, and chooses which maintenance is drawn. `svg`
//! draws it.

mod maintenance;
mod svg;

pub(crate) use maintenance::{AuditLane, Maintenance};
pub(crate) use svg::draw;
