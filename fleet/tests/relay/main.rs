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
