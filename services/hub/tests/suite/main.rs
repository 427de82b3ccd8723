//! The hub as it runs: the process, a real Azurite as its queue, and Azure's control plane as an
//! emulator.

mod agents;
mod commands;
mod control;
mod emulator;
mod fixture;
mod gate;
mod hostile;
mod odd_messages;
mod operator;
mod record;
mod restart;
mod rows;
mod scale;
mod secrets;
mod stand_by;
mod story;

scheduled_events_test_support::nothing_is_left_over!();
