//! What identifies this machine and its boot: the state of another machine is not this one's.

use std::fs;
use std::sync::mpsc::Sender;
use std::thread;

use super::message::Message;
use crate::imds::Imds;
use crate::limits::NAME_TIMEOUT;

/// Requests the machine's `vmId` on a thread of its own, which answers with a [`Message::MachineId`].
pub(super) fn request_machine_id(imds: &Imds, responses: &Sender<Message>) {
    let (imds, sender) = (imds.clone(), responses.clone());
    let started = thread::Builder::new().spawn(move || {
        let _ = sender.send(Message::MachineId(imds.vm_id(NAME_TIMEOUT).ok()));
    });
    if started.is_err() {
        let _ = responses.send(Message::MachineId(None));
    }
}

/// The id of this boot. Linux has one; elsewhere it is empty.
pub(super) fn boot_id() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
}
