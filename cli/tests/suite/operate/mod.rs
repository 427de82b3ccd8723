//! The commands of an operator: approving, and the text for other tools.

mod approve;
mod install;
mod operator;
