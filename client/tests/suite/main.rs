//! The client's end-to-end tests, in one program so that they link once. Each module is a subject of its own.

mod clocks;
mod command_line;
mod commands;
mod documents;
mod field_faults;
mod http_faults;
mod main_job;
mod records;
mod replay_server;
mod restart;
mod security;
#[cfg(unix)]
mod stalled_readers;
mod state_file;
mod support;
#[cfg(unix)]
mod systemd;
