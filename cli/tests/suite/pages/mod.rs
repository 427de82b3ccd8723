//! The pages of the repository: what they state is true, and what is generated is up to date.

mod coverage;
pub(crate) mod documentation;
mod monitoring;
mod records;
mod scenarios_page;
