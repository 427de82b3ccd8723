//! The engine of a configuration.

use std::error::Error;
use std::path::PathBuf;
use std::{fmt, io};

use scheduled_events_common::http::{self, HttpError};
#[cfg(feature = "kubernetes")]
use scheduled_events_common::kubernetes::ConnectError;
use scheduled_events_common::secret::SecretError;

#[cfg(feature = "blob")]
use super::blob;
#[cfg(feature = "kubernetes")]
use super::kubernetes;
use super::{Engine, etcd, folder};
use crate::config::{Config, EngineKind};

/// Why an engine cannot be opened.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// The configuration is invalid: a sentence.
    Config(String),
    /// This build leaves out the engine.
    NotBuilt(EngineKind),
    /// A file that the configuration names cannot be read.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// A file that the configuration names has no certificates, or no key.
    Certificate {
        /// What is wrong with the file.
        what: String,
        /// The error of the TLS library.
        error: reqwest::Error,
    },
    /// The secret file that this key of the configuration names cannot be used.
    Secret(&'static str, SecretError),
    /// The HTTP client cannot be set up.
    Http(HttpError),
    /// The client of Blob storage cannot be set up.
    #[cfg(feature = "blob")]
    Blob(object_store::Error),
    /// The credential of the Kubernetes API cannot be used.
    #[cfg(feature = "kubernetes")]
    Kubernetes(ConnectError),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(why) => f.write_str(why),
            Self::NotBuilt(engine) => {
                let engine = format!("{engine:?}").to_lowercase();
                write!(f, "this build has no engine `{engine}`")
            }
            Self::Unreadable { path, error } => {
                write!(f, "cannot read {}: {error}", path.display())
            }
            Self::Certificate { what, error } => write!(f, "{what}: {}", http::reason(error)),
            Self::Secret(key, error) => write!(f, "`{key}`: {error}"),
            Self::Http(error) => error.fmt(f),
            #[cfg(feature = "blob")]
            Self::Blob(error) => write!(f, "cannot set up Blob storage: {}", http::reason(error)),
            #[cfg(feature = "kubernetes")]
            Self::Kubernetes(error) => error.fmt(f),
        }
    }
}

impl Error for OpenError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Config(_) | Self::NotBuilt(_) => None,
            Self::Unreadable { error, .. } => Some(error),
            Self::Certificate { error, .. } => Some(error),
            Self::Secret(_, error) => Some(error),
            Self::Http(error) => error.source(),
            #[cfg(feature = "blob")]
            Self::Blob(error) => Some(error),
            #[cfg(feature = "kubernetes")]
            Self::Kubernetes(error) => error.source(),
        }
    }
}

/// Opens the engine of a configuration.
///
/// # Errors
/// This build does not have the engine, or its settings cannot be used.
#[allow(clippy::unused_async)] // Some engines must look for their credential.
pub async fn open(config: &Config) -> Result<Box<dyn Engine>, OpenError> {
    let no_table = |name: &str| OpenError::Config(format!("there is no table `{name}`"));
    let engine = config.engine.ok_or_else(|| {
        OpenError::Config(
            "the configuration has no `engine`, which the gate needs: set it to etcd, blob, kubernetes or folder"
                .into(),
        )
    })?;
    match engine {
        EngineKind::Etcd => {
            let etcd = config.etcd.as_ref().ok_or_else(|| no_table("etcd"))?;
            Ok(Box::new(etcd::EtcdEngine::new(etcd)?))
        }
        EngineKind::Folder => {
            let folder = config.folder.as_ref().ok_or_else(|| no_table("folder"))?;
            Ok(Box::new(folder::FolderEngine::new(&folder.path)))
        }
        #[cfg(feature = "kubernetes")]
        EngineKind::Kubernetes => {
            let namespace = config.kubernetes.namespace.clone();
            let client = scheduled_events_common::kubernetes::connect().await;
            Ok(Box::new(kubernetes::KubernetesEngine::new(
                client.map_err(OpenError::Kubernetes)?,
                namespace,
            )))
        }
        #[cfg(feature = "blob")]
        EngineKind::Blob => {
            let blob = config.blob.as_ref().ok_or_else(|| no_table("blob"))?;
            Ok(Box::new(blob::BlobEngine::new(blob)?))
        }
        // Only the engines that this build leaves out.
        #[allow(unreachable_patterns)]
        engine @ (EngineKind::Blob | EngineKind::Kubernetes) => Err(OpenError::NotBuilt(engine)),
    }
}
