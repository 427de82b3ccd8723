//! The replay server of `scheduled-events` with a page to watch and control it.
//!
//! The page shows the requests of the clients under test, controls the scenario while it plays, and
//! has a verdict on each client. [`scheduled_events_replay`] serves the machines; this crate adds
//! the page, and the control that the page uses.
//!
//! | File | Content |
//! |---|---|
//! | `args` | the options |
//! | `settings` | the scenario to play and its settings: from options, from a shared link, from the page |
//! | `journal` | the entries that the page shows |
//! | `run` | a replay server with its journal; starting the next run |
//! | `catalog` | scenarios and kinds of fault to choose from |
//! | `action` | the page's actions on a run |
//! | `control` | the control's port: `guard` refuses foreign requests, `routes` answers, `assets` are the page's files |
//!
//! The control listens on loopback only. See `docs/use/replay-page.md`.

#![forbid(unsafe_code)]

mod action;
mod args;
mod catalog;
mod control;
mod journal;
mod run;
mod settings;
mod verdicts;

use std::error::Error;
use std::ffi::OsString;
use std::io::{self, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser as _;
use tokio::net::TcpListener;

use args::Args;
use control::Control;
use run::Player;

/// Runs the command with these arguments, the first of which is the program's name, and returns its
/// exit code.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let args = match Args::try_parse_from(arguments) {
        Ok(args) => args,
        Err(error) => {
            // There is no other way to report a message that cannot be written.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    match serve(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

/// All errors of this program end it with their sentence.
fn serve(args: &Args) -> Result<(), Box<dyn Error>> {
    let settings = args.settings()?;
    let player = Arc::new(Player::new(settings, args.listen, args.outside())?);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start: {error}"))?;
    runtime.block_on(async {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, args.port));
        let listener = TcpListener::bind(address).await.map_err(|error| {
            let advice = match error.kind() {
                io::ErrorKind::AddrInUse => {
                    "; another program uses this port, --port 0 takes a free one"
                }
                _ => "",
            };
            format!("cannot listen on {address} for the page: {error}{advice}")
        })?;
        let port = listener
            .local_addr()
            .map_err(|error| format!("cannot listen on {address}: {error}"))?
            .port();
        let control = Control::new(Arc::clone(&player), port)?;
        print_addresses(&player, &control)
            .map_err(|error| format!("cannot write the addresses: {error}"))?;
        if args.open {
            let link = control.link_for_browser();
            if let Err(error) = open::that_detached(link) {
                eprintln!(
                    "warning: cannot start a browser: {error}; open the page's address yourself"
                );
            }
        }
        control.serve(listener, stopped()).await;
        Ok(())
    })
}

/// The machines' addresses as `scheduled-events replay` prints them, and the page's.
fn print_addresses(player: &Player, control: &Control) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(player.current().server.addresses().as_bytes())?;
    writeln!(out, "page at {}", control.link())?;
    out.flush()
}

/// Ends when a signal asks the program to stop.
async fn stopped() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        if let Ok(mut terminate) = signal(SignalKind::terminate()) {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminate.recv() => {}
            }
            return;
        }
    }
    let _ = tokio::signal::ctrl_c().await;
}

#[cfg(test)]
scheduled_events_test_support::nothing_is_left_over!();
