//! Commands that only show something, each in a file of its own. `document` prints a document, for
//! several of them; `policy_source` prints a policy as source code, for `check --as c`.

mod check;
mod config;
mod discover;
mod document;
mod list;
mod policy_source;
mod status;
mod timeline;
mod wait;

pub(crate) use check::check;
pub(crate) use config::config;
pub(crate) use discover::discover;
pub(crate) use list::list;
pub(crate) use status::status;
pub(crate) use timeline::timeline;
pub(crate) use wait::wait;
