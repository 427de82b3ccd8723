//! The client of the Kubernetes API, for nodes and for Leases.

use std::env;
use std::fmt;
use std::time::Duration;

use kube::config::{InClusterError, KubeConfigOptions, KubeconfigError};
use kube::{Client, Config, Error};

use crate::address::without_secrets;
use crate::http::{install_tls, reason};

/// The time limit of a connection attempt.
const CONNECT_TIME: Duration = Duration::from_secs(3);

/// How long a server may be silent within an answer. A watch ends and starts again more often than
/// that.
pub const SILENCE_MAX: Duration = Duration::from_secs(40);

/// Why there is no client.
#[derive(Debug)]
#[non_exhaustive]
pub enum ConnectError {
    /// The credential of the pod cannot be used.
    ServiceAccount(InClusterError),
    /// The user's kubeconfig cannot be used.
    Kubeconfig(KubeconfigError),
    /// The kubeconfig forbids to verify certificates.
    SkipsVerification,
    /// The client cannot be set up.
    Setup(Error),
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ServiceAccount(error) => {
                write!(f, "cannot use the pod's service account: {}", reason(error))
            }
            Self::Kubeconfig(error) => write!(
                f,
                "this is no pod, and there is no kubeconfig that can be used (set KUBECONFIG): {}",
                reason(error)
            ),
            Self::SkipsVerification => f.write_str(
                "the kubeconfig has insecure-skip-tls-verify, but certificates are always verified: \
                    give certificate-authority instead",
            ),
            Self::Setup(error) => {
                write!(f, "cannot set up the Kubernetes client: {}", reason(error))
            }
        }
    }
}

impl std::error::Error for ConnectError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::ServiceAccount(error) => Some(error),
            Self::Kubeconfig(error) => Some(error),
            Self::SkipsVerification => None,
            Self::Setup(error) => Some(error),
        }
    }
}

/// A client with the credential of the pod, or of the user's kubeconfig.
///
/// # Errors
/// There is no credential, or it is of a kind that this program does not use.
pub async fn connect() -> Result<Client, ConnectError> {
    install_tls();
    let in_cluster =
        env::var_os("KUBERNETES_SERVICE_HOST").is_some() && env::var_os("KUBECONFIG").is_none();
    let mut config = if in_cluster {
        Config::incluster().map_err(ConnectError::ServiceAccount)?
    } else {
        let config = Config::from_kubeconfig(&KubeConfigOptions::default()).await;
        config.map_err(ConnectError::Kubeconfig)?
    };
    if config.accept_invalid_certs {
        return Err(ConnectError::SkipsVerification);
    }
    // No request goes through a proxy, least of all because of an environment variable.
    config.proxy_url = None;
    config.connect_timeout = Some(CONNECT_TIME);
    config.read_timeout = Some(SILENCE_MAX);
    config.write_timeout = Some(SILENCE_MAX);
    Client::try_from(config).map_err(ConnectError::Setup)
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
