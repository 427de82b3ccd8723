//! The options of `scheduled-events-page`. They read as those of `scheduled-events replay`.

use std::net::SocketAddr;

use clap::Parser;
use scheduled_events_replay::server::MAX_MACHINES;
use scheduled_events_replay::{ControlPlane, Fault, QueueAddress};

use crate::settings::{Settings, SettingsError};

/// Serve a scenario as Azure's metadata service would, with a page to watch and control it
///
/// The page shows what each client does and which rules of the wire contract it breaks, and injects
/// faults and events.
#[derive(Debug, Parser)]
#[allow(clippy::doc_markdown)] // The doc comments are help texts for terminals.
#[command(name = "scheduled-events-page", version)]
pub(crate) struct Args {
    /// Name of a built-in scenario, path of a scenario file or of an audit file of `watch --audit`,
    /// or a link that the page shares
    #[arg(value_name = "SCENARIO|FILE|LINK", default_value = "user-reboot")]
    scenario: String,
    /// Open the page in the browser
    #[arg(long)]
    pub(crate) open: bool,
    /// Port of the page on 127.0.0.1; 0 takes a free port
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub(crate) port: u16,
    /// Address that the first machine's client sends requests to; port 0 takes a free port
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0", value_parser = address)]
    pub(crate) listen: SocketAddr,
    /// Speed factor: 60 turns minutes into seconds
    #[arg(long, value_name = "X", value_parser = speed)]
    speed: Option<f64>,
    /// Name of the first machine [default: WestNO_0]
    #[arg(long, value_name = "NAME")]
    vm_name: Option<String>,
    /// Serve the same documents to N machines, each at an address of its own that serves its name
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_MACHINES)))]
    machines: Option<u32>,
    /// The same number gives the events the same EventIds [default: different ones each time]
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
    /// Misbehave (repeatable), as `scheduled-events replay --fault` does: `status:503@2-4`,
    /// `post.reset@1`
    #[arg(long, value_name = "KIND[:ARG][@FROM-TO]")]
    fault: Vec<Fault>,
    /// Serve Azure Resource Manager and Azure Resource Graph as well, at an address of their own
    /// (in preview at Azure)
    #[arg(long)]
    control_plane: bool,
    /// Send Event Grid's messages to this queue, as `scheduled-events replay --control-plane-queue`
    /// does. Implies --control-plane
    #[arg(long, value_name = "URL")]
    control_plane_queue: Option<QueueAddress>,
}

impl Args {
    /// The settings to play. Options take precedence over a link.
    pub(crate) fn settings(&self) -> Result<Settings, SettingsError> {
        let mut settings = Settings::load(&self.scenario)?;
        settings.speed = self.speed.unwrap_or(settings.speed);
        settings.machines = self.machines.unwrap_or(settings.machines);
        settings.seed = self.seed.unwrap_or(settings.seed);
        if let Some(name) = &self.vm_name {
            settings.vm_name.clone_from(name);
        }
        settings
            .faults
            .extend(self.fault.iter().map(ToString::to_string));
        Ok(settings)
    }

    /// The services outside the machines, if there are any. Links leave them out: the queue is on
    /// this machine, or has a secret.
    pub(crate) fn outside(&self) -> Option<ControlPlane> {
        match self.control_plane_queue.clone() {
            Some(queue) => Some(ControlPlane::default().queue(queue)),
            None => self.control_plane.then(ControlPlane::default),
        }
    }
}

fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse()
        .map_err(|_| "expected an IP address and a port, such as 127.0.0.1:0".to_owned())
}

fn speed(text: &str) -> Result<f64, String> {
    let speed = text
        .parse()
        .ok()
        .filter(|speed: &f64| speed.is_finite() && *speed > 0.0);
    speed.ok_or_else(|| "expected a number greater than 0, such as 60".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    fn settings(arguments: &[&str]) -> Result<Settings, String> {
        let arguments = ["scheduled-events-page"].iter().chain(arguments);
        Args::try_parse_from(arguments)
            .map_err(|error| error.to_string())?
            .settings()
            .map_err(|error| error.to_string())
    }

    #[test]
    fn the_options_are_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn options_take_precedence_over_a_link() {
        let link = "http://127.0.0.1:9/#scenario=preempt&speed=20&seed=7&machines=3&vm_name=a_1&fault=reset";
        let plain = settings(&[link]).expect("a link");
        assert_eq!(
            (plain.name.as_str(), plain.speed, plain.seed, plain.machines),
            ("preempt", 20.0, 7, 3)
        );
        let other =
            settings(&[link, "--speed", "2", "--seed", "8", "--fault", "empty@1"]).expect("a link");
        assert_eq!((other.speed, other.seed, other.machines), (2.0, 8, 3));
        assert_eq!(other.faults, ["reset", "empty@1"]);
    }

    #[test]
    fn wrong_values_are_refused_with_advice() {
        for (arguments, expected) in [
            (&["--speed", "0"][..], "a number greater than 0"),
            (&["--listen", "here"], "an IP address and a port"),
            (&["--machines", "1001"], "1..=1000"),
            (&["--fault", "emty"], "did you mean `empty`"),
            (&["prempt"], "did you mean \"preempt\""),
        ] {
            let message = settings(arguments).unwrap_err();
            assert!(message.contains(expected), "{message}");
        }
    }
}
