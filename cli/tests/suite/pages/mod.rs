//! The pages of the repository: their statements are true, and generated pages are up to date.

mod coverage;
pub(crate) mod documentation;
mod monitoring;
mod records;
mod scenarios_page;
