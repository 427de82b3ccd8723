//! Access tokens for Azure: from a managed identity, a workload identity, or the login of the Azure
//! CLI.
//!
//! Tokens are kept in memory until they expire, and appear in no message. Shortly before that, the
//! next one is requested in the background: no request waits for a token while there is a valid
//! one.

use std::collections::HashMap;
use std::error::Error;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use azure_core::cloud::CloudConfiguration;
use azure_core::credentials::{AccessToken, Secret, TokenCredential, TokenRequestOptions};
use azure_core::http::ClientOptions;
use azure_core::time::OffsetDateTime;
use azure_identity::{
    AzureCliCredential, ClientAssertionCredentialOptions, ManagedIdentityCredential,
    ManagedIdentityCredentialOptions, UserAssignedId, WorkloadIdentityCredential,
    WorkloadIdentityCredentialOptions,
};
use scheduled_events_common::http::HttpError;
use tokio::time::timeout;

use super::transport;
use crate::config::{Cloud, Identity as IdentityConfig, IdentityKind};

/// How long a token may take: the Azure CLI is slow to start.
const TOKEN_TIME: Duration = Duration::from_secs(60);

/// A token that is valid for less than this is replaced.
const LEFT_MIN: Duration = Duration::from_secs(300);

/// Provides tokens.
#[derive(Clone)]
pub struct Identity(Arc<Tokens>);

struct Tokens {
    source: Source,
    scopes: Mutex<HashMap<String, Arc<Scope>>>,
}

/// The token for a scope.
#[derive(Default)]
struct Scope {
    kept: Mutex<Option<AccessToken>>,
    /// Locked while the next one is requested: one request serves all callers that wait for the
    /// same token.
    request: Arc<tokio::sync::Mutex<()>>,
}

/// The source of tokens.
#[derive(Clone)]
struct Source {
    config: IdentityConfig,
    options: ClientOptions,
    /// The tenant and the file of a workload identity, if they are not in the environment.
    workload: Option<(String, PathBuf)>,
}

/// Why an identity has no token.
#[derive(Debug)]
#[non_exhaustive]
pub enum IdentityError {
    /// HTTP cannot be set up.
    Http(HttpError),
    /// The environment lacks a setting that the identity needs.
    Unusable {
        /// The source of its tokens.
        kind: IdentityKind,
        /// The error of Azure's crate.
        error: azure_core::Error,
    },
    /// The source of tokens gives none, or does not answer.
    NoToken {
        /// The source of tokens.
        kind: IdentityKind,
        /// The service for which the token was requested.
        audience: String,
        /// The error of Azure's crate.
        error: azure_core::Error,
    },
}

impl fmt::Display for IdentityError {
    /// A sentence with a remedy.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http(error) => error.fmt(f),
            Self::Unusable { kind, error } => write!(
                f,
                "cannot use the {}: {}",
                words(*kind),
                transport::reason(error)
            ),
            Self::NoToken {
                kind,
                audience,
                error,
            } => {
                let advice = match kind {
                    IdentityKind::Managed => {
                        "does this machine have a managed identity? See `az vm identity assign`"
                    }
                    IdentityKind::Workload => {
                        "does the pod have the label azure.workload.identity/use?"
                    }
                    IdentityKind::Az => "log in with `az login`",
                    IdentityKind::Emulator => "",
                };
                write!(
                    f,
                    "the {} gives no token for {audience}: {}; {advice}",
                    words(*kind),
                    transport::reason(error)
                )
            }
        }
    }
}

impl Error for IdentityError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Http(error) => error.source(),
            Self::Unusable { error, .. } | Self::NoToken { error, .. } => Some(error),
        }
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity")
            .field("kind", &self.kind())
            .finish_non_exhaustive()
    }
}

impl Identity {
    /// An identity in a cloud. No token is requested yet.
    ///
    /// # Errors
    /// HTTP cannot be set up, or the environment lacks a setting that the identity needs.
    pub fn new(config: &IdentityConfig, cloud: Cloud) -> Result<Self, IdentityError> {
        let options = transport::options().map_err(IdentityError::Http)?;
        Self::with(config, cloud, options, None)
    }

    /// The same with an HTTP client, and with settings that a workload identity does not take from
    /// the environment.
    fn with(
        config: &IdentityConfig,
        cloud: Cloud,
        mut options: ClientOptions,
        workload: Option<(String, PathBuf)>,
    ) -> Result<Self, IdentityError> {
        options.cloud = Some(Arc::new(match cloud {
            Cloud::Public => CloudConfiguration::AzurePublic,
            Cloud::UsGovernment => CloudConfiguration::AzureGovernment,
            Cloud::China => CloudConfiguration::AzureChina,
        }));
        let source = Source {
            config: config.clone(),
            options,
            workload,
        };
        let kind = config.kind;
        source
            .credential()
            .map_err(|error| IdentityError::Unusable { kind, error })?;
        Ok(Self(Arc::new(Tokens {
            source,
            scopes: Mutex::default(),
        })))
    }

    fn kind(&self) -> IdentityKind {
        self.0.source.config.kind
    }

    /// A token for this audience, such as `https://management.azure.com`.
    ///
    /// # Errors
    /// [`IdentityError::NoToken`].
    pub async fn token(&self, audience: &str) -> Result<Secret, IdentityError> {
        let token = self.get_token(&[&scope_of(audience)], None).await;
        token
            .map(|token| token.token)
            .map_err(|error| IdentityError::NoToken {
                kind: self.kind(),
                audience: audience.to_owned(),
                error,
            })
    }

    /// Forgets a token that a service refuses: `token` if it is given, otherwise the cached one for
    /// this audience. The next request obtains another one.
    pub fn forget(&self, audience: &str, token: Option<&Secret>) {
        let scope = lock(&self.0.scopes).get(&scope_of(audience)).cloned();
        if let Some(scope) = scope {
            lock(&scope.kept).take_if(|kept| token.is_none_or(|token| kept.token == *token));
        }
    }

    /// The credential for Azure's own crates; `None` if there is no source of tokens.
    pub fn credential(&self) -> Option<Arc<dyn TokenCredential>> {
        (self.kind() != IdentityKind::Emulator)
            .then(|| Arc::new(self.clone()) as Arc<dyn TokenCredential>)
    }
}

fn scope_of(audience: &str) -> String {
    format!("{}/.default", audience.trim_end_matches('/'))
}

#[async_trait]
impl TokenCredential for Identity {
    async fn get_token(
        &self,
        scopes: &[&str],
        _options: Option<TokenRequestOptions<'_>>,
    ) -> azure_core::Result<AccessToken> {
        let key = scopes.join(" ");
        let scope = lock(&self.0.scopes).entry(key.clone()).or_default().clone();
        let Some(token) = scope.valid() else {
            let _this_one = scope.request.lock().await;
            return match scope.valid() {
                Some(token) => Ok(token),
                None => self.0.source.request(&key, &scope).await,
            };
        };
        if token.expires_on <= OffsetDateTime::now_utc() + LEFT_MIN
            && let Ok(this_one) = scope.request.clone().try_lock_owned()
        {
            let source = self.0.source.clone();
            tokio::spawn(async move {
                // Its failure is reported once there is no valid token.
                let _ = source.request(&key, &scope).await;
                drop(this_one);
            });
        }
        Ok(token)
    }
}

impl Scope {
    fn valid(&self) -> Option<AccessToken> {
        lock(&self.kept)
            .clone()
            .filter(|token| token.expires_on > OffsetDateTime::now_utc())
    }
}

impl Source {
    /// A credential of Azure's crate; `None` if there is no source of tokens. It caches tokens
    /// itself, and blocks all scopes while it requests one, so each credential serves one request.
    fn credential(&self) -> azure_core::Result<Option<Arc<dyn TokenCredential>>> {
        let (options, client_id) = (self.options.clone(), self.config.client_id.clone());
        Ok(Some(match self.config.kind {
            IdentityKind::Managed => {
                let user_assigned_id = client_id.map(UserAssignedId::ClientId);
                let options = ManagedIdentityCredentialOptions {
                    user_assigned_id,
                    client_options: options,
                };
                ManagedIdentityCredential::new(Some(options))?
            }
            IdentityKind::Workload => {
                let (tenant_id, token_file_path) = self.workload.clone().unzip();
                let credential_options = ClientAssertionCredentialOptions {
                    client_options: options,
                };
                WorkloadIdentityCredential::new(Some(WorkloadIdentityCredentialOptions {
                    credential_options,
                    client_id,
                    tenant_id,
                    token_file_path,
                }))?
            }
            IdentityKind::Az => AzureCliCredential::new(None)?,
            IdentityKind::Emulator => return Ok(None),
        }))
    }

    /// Requests a token, and caches it.
    async fn request(&self, key: &str, scope: &Scope) -> azure_core::Result<AccessToken> {
        let token = match self.credential()? {
            Some(credential) => {
                let scopes = [key];
                timeout(TOKEN_TIME, credential.get_token(&scopes, None))
                    .await
                    .unwrap_or_else(|_| {
                        let why = format!("no token within {} s", TOKEN_TIME.as_secs());
                        Err(azure_core::Error::with_message(
                            azure_core::error::ErrorKind::Credential,
                            why,
                        ))
                    })?
            }
            // The token for an emulator on this machine, which no other service accepts.
            None => AccessToken::new(
                Secret::new("emulator"),
                OffsetDateTime::now_utc() + Duration::from_secs(3600),
            ),
        };
        lock(&scope.kept).replace(token.clone());
        Ok(token)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
pub(crate) mod tests {
    use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

    use azure_core::http::headers::Headers;
    use azure_core::http::{
        AsyncRawResponse, HttpClient, Request, RetryOptions, StatusCode, Transport,
    };

    use super::*;

    /// Imitates Microsoft Entra ID and the metadata service: it records each request, and returns a
    /// token.
    #[derive(Debug)]
    pub(crate) struct Issuer {
        requests: Mutex<Vec<(String, String)>>,
        /// How many seconds its tokens are valid.
        pub(crate) valid: AtomicI64,
        /// Whether it leaves requests without an answer, other than those for storage.
        pub(crate) hangs: AtomicBool,
        /// Whether it gives no tokens.
        pub(crate) refuses: AtomicBool,
    }

    impl Issuer {
        pub(crate) fn new() -> Arc<Self> {
            Arc::new(Self {
                requests: Mutex::default(),
                valid: AtomicI64::new(86400),
                hangs: AtomicBool::default(),
                refuses: AtomicBool::default(),
            })
        }

        pub(crate) fn count(&self) -> usize {
            lock(&self.requests).len()
        }

        /// A managed identity that gets its tokens here.
        pub(crate) fn identity(self: &Arc<Self>) -> Identity {
            let config = IdentityConfig {
                kind: IdentityKind::Managed,
                client_id: Some("the-client".into()),
            };
            Identity::with(&config, Cloud::Public, self.options(), None).expect("an identity")
        }

        fn options(self: &Arc<Self>) -> ClientOptions {
            let (transport, retry) = (Some(Transport::new(self.clone())), RetryOptions::none());
            ClientOptions {
                transport,
                retry,
                ..ClientOptions::default()
            }
        }
    }

    #[async_trait]
    impl HttpClient for Issuer {
        async fn execute_request(&self, request: &Request) -> azure_core::Result<AsyncRawResponse> {
            let body: azure_core::Bytes = request.body().into();
            let body = String::from_utf8(body.to_vec()).expect("text");
            let url = request.url().to_string();
            if self.hangs.load(Ordering::Relaxed) && !url.contains("storage") {
                std::future::pending::<()>().await;
            }
            lock(&self.requests).push((url, body));
            let (valid, number) = (self.valid.load(Ordering::Relaxed), self.count());
            let expires_on = OffsetDateTime::now_utc().unix_timestamp() + valid;
            let token = format!(
                r#"{{"access_token":"token-{number}","expires_in":{valid},"expires_on":"{expires_on}","resource":"r","token_type":"Bearer"}}"#
            );
            let status = if self.refuses.load(Ordering::Relaxed) {
                StatusCode::BadRequest
            } else {
                StatusCode::Ok
            };
            Ok(AsyncRawResponse::from_bytes(status, Headers::new(), token))
        }
    }

    /// Requests a token twice in a cloud, and returns the HTTP requests that this took.
    async fn ask(kind: IdentityKind, cloud: Cloud) -> Vec<(String, String)> {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), "the-assertion").expect("written");
        let config = IdentityConfig {
            kind,
            client_id: Some("the-client".into()),
        };
        let issuer = Issuer::new();
        let workload = Some(("the-tenant".to_owned(), file.path().to_owned()));
        let identity =
            Identity::with(&config, cloud, issuer.options(), workload).expect("an identity");
        for _ in 0..2 {
            assert_eq!(
                identity
                    .token(cloud.management())
                    .await
                    .expect("a token")
                    .secret(),
                "token-1"
            );
        }
        let requests = lock(&issuer.requests);
        requests.clone()
    }

    #[tokio::test]
    async fn a_workload_identity_gets_its_token_where_its_cloud_gives_them() {
        for (cloud, host, audience) in [
            (
                Cloud::Public,
                "login.microsoftonline.com",
                "management.azure.com",
            ),
            (
                Cloud::UsGovernment,
                "login.microsoftonline.us",
                "management.usgovcloudapi.net",
            ),
            (
                Cloud::China,
                "login.chinacloudapi.cn",
                "management.chinacloudapi.cn",
            ),
        ] {
            let requests = ask(IdentityKind::Workload, cloud).await;
            let [(url, body)] = requests.as_slice() else {
                panic!("found {requests:?}, expected one request")
            };
            assert_eq!(*url, format!("https://{host}/the-tenant/oauth2/v2.0/token"));
            for part in [
                "client_assertion=the-assertion",
                "client_id=the-client",
                &format!("{audience}%2F.default"),
            ] {
                assert!(body.contains(part), "{body} has no {part}");
            }
        }
    }

    /// In the environment of other Azure services, a managed identity gets its token elsewhere.
    const OTHER_SERVICES: [&str; 4] = [
        "IDENTITY_ENDPOINT",
        "IDENTITY_HEADER",
        "IMDS_ENDPOINT",
        "MSI_ENDPOINT",
    ];

    #[tokio::test]
    async fn a_managed_identity_gets_its_token_from_the_metadata_service() {
        if OTHER_SERVICES
            .iter()
            .any(|name| std::env::var_os(name).is_some())
        {
            let name = "a_managed_identity_gets_its_token_from_the_metadata_service";
            let mut again =
                std::process::Command::new(std::env::current_exe().expect("this program"));
            for name in OTHER_SERVICES {
                again.env_remove(name);
            }
            let output = scheduled_events_test_support::wait::output(again.arg(name));
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(
                output.status.success() && text.contains("1 passed"),
                "{text}"
            );
            return;
        }
        for cloud in [Cloud::Public, Cloud::UsGovernment, Cloud::China] {
            let requests = ask(IdentityKind::Managed, cloud).await;
            let [(url, _)] = requests.as_slice() else {
                panic!("found {requests:?}, expected one request")
            };
            assert!(
                url.starts_with("http://169.254.169.254/metadata/identity/oauth2/token?"),
                "{url}"
            );
            let audience = cloud.management().trim_start_matches("https://");
            assert!(
                url.contains(audience) && url.contains("client_id=the-client"),
                "{url}"
            );
        }
    }

    #[tokio::test]
    async fn a_request_that_hangs_delays_nobody_who_has_a_valid_token_or_needs_another_one() {
        let issuer = Issuer::new();
        let identity = issuer.identity();
        let token = async |audience: &str| {
            let token = timeout(Duration::from_secs(10), identity.token(audience))
                .await
                .expect("it does not wait");
            token.expect("a token").secret().to_owned()
        };
        let management = Cloud::Public.management();
        // It is due to be replaced.
        issuer.valid.store(200, Ordering::Relaxed);
        assert_eq!(token(management).await, "token-1");
        issuer.hangs.store(true, Ordering::Relaxed);
        for _ in 0..3 {
            assert_eq!(token(management).await, "token-1");
            tokio::task::yield_now().await;
        }
        assert_eq!(token("https://storage.azure.com").await, "token-2");
    }

    #[tokio::test]
    async fn a_token_is_replaced_before_it_expires() {
        let issuer = Issuer::new();
        let identity = issuer.identity();
        let management = Cloud::Public.management();
        issuer.valid.store(200, Ordering::Relaxed);
        identity.token(management).await.expect("a token");
        issuer.valid.store(86400, Ordering::Relaxed);
        for _ in 0..100 {
            identity.token(management).await.expect("a token");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(
            (
                identity.token(management).await.expect("a token").secret(),
                issuer.count()
            ),
            ("token-2", 2)
        );
    }
}
