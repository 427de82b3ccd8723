//! The control: an HTTP server on a loopback port of its own, for the page alone.
//!
//! `connections` limits the resources of one peer, `guard` decides which requests are answered, by
//! their `keys`, `routes` answers them, and `assets` are the page's files.

mod assets;
mod connections;
mod guard;
mod keys;
mod records;
mod refusal;
mod routes;

use std::sync::Arc;

use crate::run::Player;
use keys::{Keys, NoRandomNumbers};

/// The control of a player.
#[derive(Clone)]
pub(crate) struct Control {
    player: Arc<Player>,
    keys: Arc<Keys>,
}

impl Control {
    pub(crate) fn new(player: Arc<Player>, port: u16) -> Result<Self, NoRandomNumbers> {
        Ok(Self {
            player,
            keys: Arc::new(Keys::new(port)?),
        })
    }

    /// The link that opens the page, for the user who started the program.
    pub(crate) fn link(&self) -> String {
        format!(
            "http://{}/#token={}",
            self.keys.authority(),
            self.keys.token()
        )
    }

    /// A link that opens the page once. Other users of the machine may see it among the arguments
    /// of processes.
    pub(crate) fn link_for_browser(&self) -> String {
        format!(
            "http://{}/#ticket={}",
            self.keys.authority(),
            self.keys.ticket()
        )
    }
}
