//! Who the hub is at Azure: tokens from a managed identity, a workload identity, or the login of the Azure CLI.
//!
//! Tokens are kept in memory until shortly before they expire, and appear in no message.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use azure_core::cloud::CloudConfiguration;
use azure_core::credentials::{AccessToken, Secret, TokenCredential, TokenRequestOptions};
use azure_core::time::OffsetDateTime;
use azure_identity::{
    AzureCliCredential, ClientAssertionCredentialOptions, ManagedIdentityCredential, ManagedIdentityCredentialOptions,
    UserAssignedId, WorkloadIdentityCredential, WorkloadIdentityCredentialOptions,
};
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::transport;
use crate::config::{Cloud, Identity as IdentityConfig, IdentityKind};

/// How long a token may take: the Azure CLI is slow to start.
const TOKEN_TIME: Duration = Duration::from_secs(60);

/// A token that is valid for less than this is replaced.
const LEFT_MIN: Duration = Duration::from_secs(300);

/// Gives tokens.
#[derive(Clone)]
pub struct Identity(Arc<Tokens>);

struct Tokens {
    kind: IdentityKind,
    credential: Option<Arc<dyn TokenCredential>>,
    kept: Mutex<HashMap<String, AccessToken>>,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Identity").field("kind", &self.0.kind).finish_non_exhaustive()
    }
}

impl Identity {
    /// An identity in a cloud. No token is requested yet.
    ///
    /// # Errors
    /// A sentence: what the identity needs from the environment is not there.
    pub fn new(config: &IdentityConfig, cloud: Cloud) -> Result<Self, String> {
        let kind = config.kind;
        let mut options = transport::options()?;
        options.cloud = Some(Arc::new(match cloud {
            Cloud::Public => CloudConfiguration::AzurePublic,
            Cloud::UsGovernment => CloudConfiguration::AzureGovernment,
            Cloud::China => CloudConfiguration::AzureChina,
        }));
        let client_id = config.client_id.clone();
        let problem =
            |error: azure_core::Error| format!("cannot use the {}: {}", words(kind), transport::reason(&error));
        let credential: Option<Arc<dyn TokenCredential>> = match kind {
            IdentityKind::Managed => {
                let user_assigned_id = client_id.map(UserAssignedId::ClientId);
                let options = ManagedIdentityCredentialOptions { user_assigned_id, client_options: options };
                Some(ManagedIdentityCredential::new(Some(options)).map_err(problem)?)
            }
            IdentityKind::Workload => {
                let options = WorkloadIdentityCredentialOptions {
                    credential_options: ClientAssertionCredentialOptions { client_options: options },
                    client_id,
                    ..WorkloadIdentityCredentialOptions::default()
                };
                Some(WorkloadIdentityCredential::new(Some(options)).map_err(problem)?)
            }
            IdentityKind::Az => Some(AzureCliCredential::new(None).map_err(problem)?),
            IdentityKind::Emulator => None,
        };
        Ok(Self(Arc::new(Tokens { kind, credential, kept: Mutex::default() })))
    }

    /// A token for this audience, such as `https://management.azure.com`.
    ///
    /// # Errors
    /// A sentence with what to do.
    pub async fn token(&self, audience: &str) -> Result<Secret, String> {
        let scope = format!("{}/.default", audience.trim_end_matches('/'));
        let token = self.0.get_token(&[&scope], None).await.map_err(|error| {
            let advice = match self.0.kind {
                IdentityKind::Managed => "does this machine have a managed identity? See `az vm identity assign`",
                IdentityKind::Workload => "does the pod have the label azure.workload.identity/use?",
                IdentityKind::Az => "log in with `az login`",
                IdentityKind::Emulator => "",
            };
            format!("the {} gives no token for {audience}: {}; {advice}", words(self.0.kind), transport::reason(&error))
        })?;
        Ok(token.token)
    }

    /// The same for Azure's own crates; `None` if there is nobody to ask.
    pub fn credential(&self) -> Option<Arc<dyn TokenCredential>> {
        self.0.credential.is_some().then(|| self.0.clone() as Arc<dyn TokenCredential>)
    }
}

impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokens").finish_non_exhaustive()
    }
}

#[async_trait]
impl TokenCredential for Tokens {
    async fn get_token(
        &self,
        scopes: &[&str],
        options: Option<TokenRequestOptions<'_>>,
    ) -> azure_core::Result<AccessToken> {
        let Some(credential) = &self.credential else {
            // What an emulator on this machine gets, which nobody else accepts.
            let expires_on = OffsetDateTime::now_utc() + Duration::from_secs(3600);
            return Ok(AccessToken { token: Secret::new("emulator"), expires_on });
        };
        // One request for all that wait for the same token.
        let mut kept = self.kept.lock().await;
        let key = scopes.join(" ");
        if let Some(token) = kept.get(&key).filter(|token| token.expires_on > OffsetDateTime::now_utc() + LEFT_MIN) {
            return Ok(token.clone());
        }
        let token = timeout(TOKEN_TIME, credential.get_token(scopes, options)).await.unwrap_or_else(|_| {
            let why = format!("no token within {} s", TOKEN_TIME.as_secs());
            Err(azure_core::Error::with_message(azure_core::error::ErrorKind::Credential, why))
        })?;
        kept.insert(key, token.clone());
        Ok(token)
    }
}

const fn words(kind: IdentityKind) -> &'static str {
    match kind {
        IdentityKind::Managed => "managed identity",
        IdentityKind::Workload => "workload identity",
        IdentityKind::Az => "Azure CLI",
        IdentityKind::Emulator => "emulator",
    }
}
