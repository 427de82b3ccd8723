//! The list of them.

use super::{Competitor, c, core, jiter, serde};

/// All competitors, core first, and a line for each that is missing, with how to install it.
pub fn all() -> (Vec<Competitor>, Vec<&'static str>) {
    let mut competitors = vec![core::COMPETITOR, core::TWICE];
    competitors.extend(serde::COMPETITORS);
    competitors.push(jiter::COMPETITOR);
    let mut absent = Vec::new();
    c::list(&mut competitors, &mut absent);
    (competitors, absent)
}
