//! The commands of the gate: what they do, and what they print.

mod ask;
mod check;
mod delete_register;
mod free;
mod probe;
mod run;
mod status;

pub use ask::ask;
pub use check::check;
pub use delete_register::delete_register;
pub use free::free;
pub use probe::probe;
pub use run::run;
pub use status::status;
