//! The command `relay` with real files, sockets and processes.

mod audit_file;
mod receiver;
mod support;

mod crashes;
mod delivery;
mod documentation;
mod proxy;
mod secrets;
mod services;
mod webhooks;

scheduled_events_test_support::nothing_is_left_over!();
