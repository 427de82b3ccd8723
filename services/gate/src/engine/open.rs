//! The engine of a configuration.

#[cfg(feature = "blob")]
use super::blob;
#[cfg(feature = "kubernetes")]
use super::kubernetes;
use super::{Engine, etcd, folder};
use crate::config::{Config, EngineKind};

/// Opens the engine of a configuration.
///
/// # Errors
/// A sentence: this build does not have the engine, or its settings are invalid.
#[allow(clippy::unused_async)] // Some engines must look for their credential.
pub async fn open(config: &Config) -> Result<Box<dyn Engine>, String> {
    let Some(engine) = config.engine else {
        return Err(
            "the configuration has no `engine`, which the gate needs: set it to etcd, blob, kubernetes or folder"
                .into(),
        );
    };
    match engine {
        EngineKind::Etcd => {
            let etcd = config.etcd.as_ref().ok_or("there is no table `etcd`")?;
            Ok(Box::new(etcd::EtcdEngine::new(etcd)?))
        }
        EngineKind::Folder => {
            let folder = config.folder.as_ref().ok_or("there is no table `folder`")?;
            Ok(Box::new(folder::FolderEngine::new(&folder.path)))
        }
        #[cfg(feature = "kubernetes")]
        EngineKind::Kubernetes => {
            let namespace = config.kubernetes.namespace.clone();
            let client = scheduled_events_common::kubernetes::connect().await;
            Ok(Box::new(kubernetes::KubernetesEngine::new(
                client.map_err(|error| error.to_string())?,
                namespace,
            )))
        }
        #[cfg(feature = "blob")]
        EngineKind::Blob => {
            let blob = config.blob.as_ref().ok_or("there is no table `blob`")?;
            Ok(Box::new(blob::BlobEngine::new(blob)?))
        }
        // Only the engines that this build leaves out.
        #[allow(unreachable_patterns)]
        engine @ (EngineKind::Blob | EngineKind::Kubernetes) => {
            Err(format!("this build has no engine `{engine:?}`").to_lowercase())
        }
    }
}
