//! The clients under test: the COMMAND of `replay`, started once for each machine.

use std::ffi::OsString;
use std::io;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use crate::args::ENDPOINT_VARIABLE;
use crate::startup::command_in_group;
use scheduled_events::hooks::ProcessTree;
use scheduled_events_replay::Machine;
use scheduled_events_replay::verdict::ClientExit;

/// The variable that names the machine.
pub(crate) const MACHINE_VARIABLE: &str = "SCHEDULED_EVENTS_MACHINE";

/// How long a client may run after it was asked to terminate, until it is killed.
const GRACE: Duration = Duration::from_secs(10);

/// The clients, and the progress of stopping them.
pub(crate) struct Clients {
    clients: Vec<Client>,
    /// When they were asked to terminate.
    stopped: Option<Instant>,
}

struct Client {
    tree: ProcessTree,
    status: Option<ExitStatus>,
    /// Whether it was asked to terminate, so that its exit status is meaningless.
    stopped: bool,
}

impl Clients {
    /// Starts the command for each machine, with these variables and the machine's own. If one
    /// cannot be started, those before it are killed.
    pub(crate) fn start(
        words: &[OsString],
        machines: &[Machine],
        variables: &[(&str, String)],
    ) -> io::Result<Self> {
        let mut clients = Self {
            clients: Vec::new(),
            stopped: None,
        };
        for machine in machines {
            clients
                .clients
                .push(Client::start(words, machine, variables)?);
        }
        Ok(clients)
    }

    /// The numbers of the clients that have ended since the last call.
    pub(crate) fn ended(&mut self) -> Vec<usize> {
        let mut ended = Vec::new();
        for (number, client) in self
            .clients
            .iter_mut()
            .enumerate()
            .filter(|(_, client)| client.status.is_none())
        {
            client.status = client.tree.ended();
            if client.status.is_some() {
                ended.push(number);
            }
        }
        ended
    }

    /// How a client has ended.
    pub(crate) fn exit(&self, number: usize) -> Option<ClientExit> {
        let client = self.clients.get(number)?;
        let status = client.status?;
        Some(if client.stopped {
            ClientExit::Stopped
        } else {
            ClientExit::ByItself(status)
        })
    }

    pub(crate) fn all_ended(&self) -> bool {
        self.clients.iter().all(|client| client.status.is_some())
    }

    /// The first failure among the exit statuses of clients that ended by themselves.
    pub(crate) fn failure(&self) -> Option<ExitStatus> {
        let by_themselves = self.clients.iter().filter(|client| !client.stopped);
        by_themselves
            .filter_map(|client| client.status)
            .find(|status| !status.success())
    }

    /// Asks the clients that still run to terminate, and kills them when their grace is over.
    pub(crate) fn stop(&mut self) {
        let is_first = self.stopped.is_none();
        let is_over = self.stopped.get_or_insert_with(Instant::now).elapsed() > GRACE;
        for client in self
            .clients
            .iter_mut()
            .filter(|client| client.status.is_none())
        {
            // It may have ended by itself since the last look at it.
            if client.tree.ended().is_some() {
                continue;
            }
            client.stopped = true;
            if is_first {
                client.tree.terminate();
            } else if is_over {
                client.tree.kill();
            }
        }
    }
}

impl Client {
    fn start(
        words: &[OsString],
        machine: &Machine,
        variables: &[(&str, String)],
    ) -> io::Result<Self> {
        let mut command = command_in_group(words)?;
        command
            .env(ENDPOINT_VARIABLE, machine.url())
            .env(MACHINE_VARIABLE, &machine.name);
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        Ok(Self {
            tree: ProcessTree::start(command)?,
            status: None,
            stopped: false,
        })
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if self.status.is_none() {
            self.tree.kill();
        }
        // Processes that a client left running would continue after the report.
        self.tree.kill_rest();
    }
}

#[cfg(all(test, unix))]
mod tests {
    use scheduled_events_replay::{Scenario, Server, ServerConfig};

    use super::*;

    #[test]
    fn a_client_that_ended_right_before_it_would_be_stopped_has_ended_by_itself() {
        let scenario = Scenario::builtin("preempt").expect("a built-in name");
        let config = ServerConfig::new(scenario).without_verdict();
        let server = Server::start(config).expect("a port");
        let words = ["sh", "-c", "exit 3"].map(OsString::from);
        let mut clients = Clients::start(&words, server.machines(), &[]).expect("a client");
        while clients.clients[0].tree.ended().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        clients.stop();
        assert_eq!(clients.ended(), [0]);
        let exit = clients.exit(0).expect("an exit").to_string();
        assert_eq!(exit, "the command ended with exit status: 3");
        assert!(clients.failure().is_some());
    }
}
