//! The command's end-to-end tests. They are one program, so that they link once; each module tests one subject.

mod api_versions;
mod approve;
#[cfg(target_os = "linux")]
mod audit;
#[cfg(unix)] // They stop processes and fake the time.
mod clocks;
mod command_line;
mod commands;
mod coverage;
#[cfg(unix)]
mod discover;
mod documentation;
mod documents;
mod field_faults;
#[cfg(unix)]
mod guide;
#[cfg(unix)] // The limits are those of Unix.
mod host_limits;
mod http_faults;
mod install;
#[cfg(unix)]
mod journal;
mod main_job;
#[cfg(unix)]
mod metrics;
mod operator;
mod output;
mod overlaps;
#[cfg(target_os = "linux")]
mod recordings;
mod records;
mod restart;
#[cfg(unix)]
mod run;
mod scenarios_page;
mod security;
#[cfg(unix)]
mod stalled_readers;
#[cfg(unix)] // Users, modes and limits are those of Unix; the unit tests show the rest.
mod state_file;
mod status;
mod support;
#[cfg(unix)]
mod systemd;
mod tables;
mod terminate;
#[cfg(unix)]
mod timeline;
#[cfg(unix)]
mod verdict;
mod wait;

scheduled_events_test_support::nothing_is_left_over!();
