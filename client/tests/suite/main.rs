//! The client's end-to-end tests. They are one program, so that they link once; each module tests one subject.

mod clocks;
mod command_line;
mod commands;
mod documentation;
mod documents;
mod field_faults;
mod http_faults;
mod main_job;
mod overlaps;
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
