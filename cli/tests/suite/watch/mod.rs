//! `watch`: its work, its commands and files, and its robustness. `main_job` is the place to start.

#[cfg(target_os = "linux")]
mod audit;
mod blind;
#[cfg(unix)] // They stop processes and fake the time.
mod clocks;
mod commands;
mod first_answer;
#[cfg(unix)] // The limits are those of Unix.
mod host_limits;
#[cfg(unix)]
mod journal;
mod main_job;
#[cfg(unix)]
mod metrics;
mod overlaps;
#[cfg(target_os = "linux")]
mod recordings;
#[cfg(unix)]
mod reload;
mod restart;
#[cfg(unix)]
mod stalled_readers;
#[cfg(unix)] // Users, modes and limits are those of Unix; the unit tests show the rest.
mod state_file;
#[cfg(unix)]
mod systemd;
mod terminate;
