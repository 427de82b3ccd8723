//! The command's end-to-end tests. They are one program, so that they link once; each module tests
//! one subject.

mod advice;
mod api_versions;
mod command_line;
mod config;
#[cfg(unix)]
mod doctor;
mod field_faults;
#[cfg(unix)]
mod guide;
mod http_faults;
mod look;
mod operate;
mod output;
mod pages;
#[cfg(unix)]
mod rehearsal;
#[cfg(unix)]
mod replay_outside;
#[cfg(unix)]
mod run;
mod security;
mod support;
#[cfg(unix)]
mod verdict;
mod watch;

scheduled_events_test_support::nothing_is_left_over!();
