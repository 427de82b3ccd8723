//! The client of the Kubernetes API, for nodes and for Leases.

use std::env;
use std::time::Duration;

use kube::config::KubeConfigOptions;
use kube::{Client, Config, Error};

use crate::address::without_secrets;
use crate::http::{install_tls, reason};

/// The time limit of a connection attempt.
const CONNECT_TIME: Duration = Duration::from_secs(3);

/// How long a server may be silent within an answer. A watch ends and starts again more often than
/// that.
pub const SILENCE_MAX: Duration = Duration::from_secs(40);

/// A client with the credential of the pod, or of the user's kubeconfig.
///
/// # Errors
/// A sentence: there is no credential, or it is of a kind that this program does not use.
pub async fn connect() -> Result<Client, String> {
    install_tls();
    let in_cluster =
        env::var_os("KUBERNETES_SERVICE_HOST").is_some() && env::var_os("KUBECONFIG").is_none();
    let mut config = if in_cluster {
        Config::incluster()
            .map_err(|error| format!("cannot use the pod's service account: {}", reason(&error)))?
    } else {
        let config = Config::from_kubeconfig(&KubeConfigOptions::default()).await;
        config.map_err(|error| {
            format!(
                "this is no pod, and there is no kubeconfig that can be used (set KUBECONFIG): {}",
                reason(&error)
            )
        })?
    };
    if config.accept_invalid_certs {
        return Err(
            "the kubeconfig has insecure-skip-tls-verify, but certificates are always verified: \
                    give certificate-authority instead"
                .into(),
        );
    }
    // No request goes through a proxy, least of all because of an environment variable.
    config.proxy_url = None;
    config.connect_timeout = Some(CONNECT_TIME);
    config.read_timeout = Some(SILENCE_MAX);
    config.write_timeout = Some(SILENCE_MAX);
    Client::try_from(config)
        .map_err(|error| format!("cannot set up the Kubernetes client: {}", reason(&error)))
}

/// The HTTP status of a refusal; `None` if the server was not reached.
pub fn status_code(error: &Error) -> Option<u16> {
    match error {
        Error::Api(status) => Some(status.code),
        _ => None,
    }
}

/// The error in one line.
pub fn describe(error: &Error) -> String {
    match error {
        Error::Api(status) => format!(
            "{} ({})",
            without_secrets(&status.message).escape_debug(),
            status.code
        ),
        error => reason(error),
    }
}
