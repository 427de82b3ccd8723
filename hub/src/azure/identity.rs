//! Who the hub is at Azure: tokens from a managed identity, a workload identity, or the login of the Azure CLI.
//!
//! Tokens are kept in memory until shortly before they expire, and appear in no message.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use azure_core::cloud::CloudConfiguration;
use azure_core::credentials::{AccessToken, Secret, TokenCredential, TokenRequestOptions};
use azure_core::http::ClientOptions;
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
        Self::with(config, cloud, transport::options()?, WorkloadIdentityCredentialOptions::default())
    }

    /// The same with a client for HTTP, and with what a workload identity does not take from the environment.
    fn with(
        config: &IdentityConfig,
        cloud: Cloud,
        mut options: ClientOptions,
        workload: WorkloadIdentityCredentialOptions,
    ) -> Result<Self, String> {
        let kind = config.kind;
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
                    ..workload
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

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use azure_core::http::headers::Headers;
    use azure_core::http::{AsyncRawResponse, HttpClient, Request, RetryOptions, StatusCode, Transport};

    use super::*;

    /// Imitates Microsoft Entra ID and the metadata service: it keeps each request, and returns a token.
    #[derive(Debug, Default)]
    struct Issuer(Mutex<Vec<(String, String)>>);

    #[async_trait]
    impl HttpClient for Issuer {
        async fn execute_request(&self, request: &Request) -> azure_core::Result<AsyncRawResponse> {
            let body: azure_core::Bytes = request.body().into();
            let body = String::from_utf8(body.to_vec()).expect("text");
            self.0.lock().expect("the requests").push((request.url().to_string(), body));
            let token = r#"{"access_token":"a-token","expires_in":86400,"expires_on":"4102444800","resource":"r","token_type":"Bearer"}"#;
            Ok(AsyncRawResponse::from_bytes(StatusCode::Ok, Headers::new(), token))
        }
    }

    /// Asks twice for a token in a cloud. Returns the requests that this took.
    async fn ask(kind: IdentityKind, cloud: Cloud) -> Vec<(String, String)> {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), "the-assertion").expect("written");
        let config = IdentityConfig { kind, client_id: Some("the-client".into()) };
        let issuer = Arc::new(Issuer::default());
        let (transport, retry) = (Some(Transport::new(issuer.clone())), RetryOptions::none());
        let workload = WorkloadIdentityCredentialOptions {
            tenant_id: Some("the-tenant".into()),
            token_file_path: Some(file.path().into()),
            ..WorkloadIdentityCredentialOptions::default()
        };
        let options = ClientOptions { transport, retry, ..ClientOptions::default() };
        let identity = Identity::with(&config, cloud, options, workload).expect("an identity");
        for _ in 0..2 {
            assert_eq!(identity.token(cloud.management()).await.expect("a token").secret(), "a-token");
        }
        let requests = issuer.0.lock().expect("the requests");
        requests.clone()
    }

    #[tokio::test]
    async fn a_workload_identity_gets_its_token_where_its_cloud_gives_them() {
        for (cloud, host, audience) in [
            (Cloud::Public, "login.microsoftonline.com", "management.azure.com"),
            (Cloud::UsGovernment, "login.microsoftonline.us", "management.usgovcloudapi.net"),
            (Cloud::China, "login.chinacloudapi.cn", "management.chinacloudapi.cn"),
        ] {
            let requests = ask(IdentityKind::Workload, cloud).await;
            let [(url, body)] = requests.as_slice() else { panic!("found {requests:?}, expected one request") };
            assert_eq!(*url, format!("https://{host}/the-tenant/oauth2/v2.0/token"));
            for part in ["client_assertion=the-assertion", "client_id=the-client", &format!("{audience}%2F.default")] {
                assert!(body.contains(part), "{body} has no {part}");
            }
        }
    }

    #[tokio::test]
    async fn a_managed_identity_gets_its_token_from_the_metadata_service() {
        for cloud in [Cloud::Public, Cloud::UsGovernment, Cloud::China] {
            let requests = ask(IdentityKind::Managed, cloud).await;
            let [(url, _)] = requests.as_slice() else { panic!("found {requests:?}, expected one request") };
            assert!(url.starts_with("http://169.254.169.254/metadata/identity/oauth2/token?"), "{url}");
            let audience = cloud.management().trim_start_matches("https://");
            assert!(url.contains(audience) && url.contains("client_id=the-client"), "{url}");
        }
    }
}
