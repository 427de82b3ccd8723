//! Registers in a container of Azure Blob storage: a blob for each register.
//!
//! A write has `If-None-Match: *` or `If-Match: ETag`, which the storage service checks atomically,
//! so the engine needs no blob lease. The credential is the managed identity, the workload identity
//! of a pod on AKS, or a SAS token; never an account's key.

use std::cell::RefCell;
use std::collections::HashMap;
use std::future::Future;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::{Stream, StreamExt, TryStreamExt, stream};
use object_store::azure::{AzureConfigKey, AzureCredential, MicrosoftAzure, MicrosoftAzureBuilder};
use object_store::client::{
    ClientOptions, HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpService,
};
use object_store::path::Path;
use object_store::{
    CredentialProvider, Error, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutOptions,
    RetryConfig, UpdateVersion,
};
use tokio::time::Instant;

use super::clock::{Clock, StoreClock};
use super::{
    Aged, Engine, EngineError, OpenError, Reply, Revision, StoreTime, Swap, VALUE_MAX, Versioned,
    damaged,
};
use crate::config::BlobConfig;
use scheduled_events_common::address::{self, shown};
use scheduled_events_common::http;
use scheduled_events_common::secret::{SecretFile, without_echo};

/// How long one request may take.
const REQUEST_TIME: Duration = Duration::from_secs(4);

/// How many blobs of a list are read at once.
const READS_AT_ONCE: usize = 16;

/// The greatest age of a value in a list of registers with their ages.
const VALUE_KEPT: Duration = Duration::from_secs(10 * 60);

/// The well-known key of the account of Azurite, the emulator. It is public.
pub const EMULATOR_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// A register that was not written for this long has a current value.
const STABLE_AFTER: Duration = Duration::from_secs(60);

/// The environment variables that AKS sets for a pod with a workload identity.
const WORKLOAD_IDENTITY: [(&str, AzureConfigKey); 4] = [
    ("AZURE_CLIENT_ID", AzureConfigKey::ClientId),
    ("AZURE_TENANT_ID", AzureConfigKey::AuthorityId),
    (
        "AZURE_FEDERATED_TOKEN_FILE",
        AzureConfigKey::FederatedTokenFile,
    ),
    ("AZURE_AUTHORITY_HOST", AzureConfigKey::AuthorityHost),
];

/// Registers in a container.
#[derive(Debug)]
pub struct BlobEngine {
    store: MicrosoftAzure,
    /// The container, for messages: the library does not always name it.
    container: String,
    sas: Option<Sas>,
    /// The last values of [`Engine::list_aged`], by key: each with its revision, and when it was
    /// read.
    values: RefCell<HashMap<String, (Versioned, Instant)>>,
    /// The clock of the service, as the `Date` of its answers shows it.
    clock: Arc<StoreClock>,
}

/// Creates the HTTP client of this process: without proxy and redirects.
#[derive(Debug)]
struct Connector(Arc<StoreClock>);

/// Reads the clock in each answer.
#[derive(Debug)]
struct Dated {
    client: HttpClient,
    clock: Arc<StoreClock>,
}

/// The future of a call of [`HttpService`].
type Calling<'a> = Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'a>>;

impl HttpService for Dated {
    fn call<'a, 'b>(&'a self, request: HttpRequest) -> Calling<'b>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(async move {
            let response = self.client.execute(request).await?;
            // The service that issues tokens has a clock of its own.
            if response.headers().contains_key("x-ms-version") {
                self.clock.saw_headers(response.headers());
            }
            Ok(response)
        })
    }
}

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        let client = http::client(REQUEST_TIME);
        let client = client.map_err(|why| Error::Generic {
            store: "blob",
            source: why.into(),
        })?;
        Ok(HttpClient::new(Dated {
            client: HttpClient::new(client),
            clock: self.0.clone(),
        }))
    }
}

/// A SAS token, read for each request, so that a new one needs no restart.
#[derive(Clone, Debug)]
struct Sas(SecretFile);

impl Sas {
    /// The token's members.
    fn members(&self) -> Result<Vec<(String, String)>, OpenError> {
        let secret = self
            .0
            .read()
            .map_err(|error| OpenError::Secret("blob.sas_file", error))?;
        let query = secret.reveal().trim_start_matches('?');
        let url = reqwest::Url::parse(&format!("http://localhost/?{query}"))
            .map_err(|error| OpenError::Config(error.to_string()))?;
        let members: Vec<(String, String)> = url.query_pairs().into_owned().collect();
        if ["sv", "sig"].iter().all(|name| {
            members
                .iter()
                .any(|(found, value)| found == name && !value.is_empty())
        }) {
            return Ok(members);
        }
        Err(OpenError::Config("`blob.sas_file` has no SAS token: expected one line such as \"sv=…&sr=c&sp=rwl&se=…&sig=…\"".into()))
    }

    /// The signature, which an answer may repeat.
    fn signature(&self) -> Option<String> {
        let mut members = self.members().ok()?.into_iter();
        let (_, signature) = members.find(|(name, _)| name == "sig")?;
        Some(signature)
    }
}

impl CredentialProvider for Sas {
    type Credential = AzureCredential;

    fn get_credential<'a, 'f>(
        &'a self,
    ) -> Pin<Box<dyn Future<Output = object_store::Result<Arc<AzureCredential>>> + Send + 'f>>
    where
        'a: 'f,
        Self: 'f,
    {
        let credential = self
            .members()
            .map(|members| Arc::new(AzureCredential::SASToken(members)));
        Box::pin(async {
            credential.map_err(|why| Error::Generic {
                store: "blob",
                source: why.into(),
            })
        })
    }
}

impl BlobEngine {
    /// Registers in this container.
    ///
    /// # Errors
    /// The address is not a container's, or the SAS token cannot be read.
    pub fn new(config: &BlobConfig) -> Result<Self, OpenError> {
        let problem = |why: &str| {
            let expected =
                "expected one such as \"https://ACCOUNT.blob.core.windows.net/CONTAINER\"";
            OpenError::Config(format!(
                "`blob.url` is {:?}: {why}; {expected}",
                shown(&config.url)
            ))
        };
        if config.url.contains('?') {
            return Err(problem(
                "it has a query; a SAS token is in a file that `blob.sas_file` names",
            ));
        }
        let url = address::check(&config.url).map_err(|why| problem(&why.to_string()))?;
        let host = url.host_str().ok_or_else(|| problem("it has no host"))?;
        // A token must not be sent without TLS, except to this machine.
        let is_loopback = host
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback());
        if url.scheme() != "https" && !is_loopback {
            return Err(problem("it is not https"));
        }
        let parts: Vec<_> = url
            .path()
            .split('/')
            .filter(|part| !part.is_empty())
            .collect();
        // In the address of an emulator the account is the first part of the path.
        let (account, container) = match parts[..] {
            [container] if !is_loopback => (host.split('.').next().unwrap_or_default(), container),
            [account, container] if is_loopback => (account, container),
            _ => return Err(problem("it does not name a container")),
        };
        let service = config
            .url
            .trim_end_matches('/')
            .trim_end_matches(container)
            .trim_end_matches('/');
        let clock = Arc::<StoreClock>::default();
        let mut builder = MicrosoftAzureBuilder::new()
            .with_account(account)
            .with_container_name(container)
            .with_endpoint(service.to_owned())
            .with_http_connector(Connector(clock.clone()))
            // The service refuses a repeated conditional write after a lost reply because the first
            // one was carried out. The library would report a refusal.
            .with_retry(RetryConfig {
                max_retries: 0,
                ..RetryConfig::default()
            });
        let others = [
            ("emulator", config.emulator),
            ("client_id", config.client_id.is_some()),
            ("identity_endpoint", config.identity_endpoint.is_some()),
        ];
        if let Some((other, _)) = others
            .iter()
            .find(|(_, is_set)| config.sas_file.is_some() && *is_set)
        {
            return Err(OpenError::Config(format!(
                "`blob.sas_file` and `blob.{other}` exclude each other: one credential is used"
            )));
        }
        let sas = config.sas_file.clone().map(Sas);
        if let Some(sas) = &sas {
            sas.members()?;
            builder = builder.with_credentials(Arc::new(sas.clone()));
        } else if config.emulator {
            if !is_loopback {
                return Err(problem("an emulator is on this machine"));
            }
            builder = builder.with_access_key(EMULATOR_KEY);
        } else if std::env::var_os("AZURE_FEDERATED_TOKEN_FILE").is_some() {
            for (variable, key) in WORKLOAD_IDENTITY {
                if let Ok(value) = std::env::var(variable) {
                    // AKS ends the authority's address with a slash, and the library appends
                    // another one.
                    builder = builder.with_config(key, value.trim_end_matches('/'));
                }
            }
            builder = builder.with_credential_type("workload_identity");
        } else {
            builder = builder.with_credential_type("managed_identity");
            if let Some(endpoint) = &config.identity_endpoint {
                address::check(endpoint).map_err(|why| {
                    OpenError::Config(format!(
                        "`blob.identity_endpoint` is {:?}: {why}",
                        shown(endpoint)
                    ))
                })?;
                builder = builder.with_msi_endpoint(endpoint);
            }
        }
        if let Some(client_id) = &config.client_id {
            builder = builder.with_client_id(client_id);
        }
        let store = builder.build().map_err(OpenError::Blob)?;
        Ok(Self {
            store,
            container: shown(&config.url),
            sas,
            values: RefCell::default(),
            clock,
        })
    }

    fn problem(&self, key: &str, error: &Error) -> EngineError {
        let signature = self.sas.as_ref().and_then(Sas::signature);
        let secrets: Vec<_> = signature.as_deref().into_iter().collect();
        let why = without_echo(&http::reason(error), &secrets);
        // The service answers with XML of many lines.
        let why: String = why.chars().take(400).collect();
        EngineError(format!(
            "Blob storage at {}, {key}: {}",
            self.container,
            why.escape_debug()
        ))
    }

    /// The blob, including an empty one, which represents a deleted register.
    async fn get(&self, key: &str) -> Result<Option<Versioned>, EngineError> {
        let found = match self.store.get(&Path::from(key)).await {
            Err(Error::NotFound { .. }) => return Ok(None),
            found => found.map_err(|error| self.problem(key, &error))?,
        };
        let etag = found
            .meta
            .e_tag
            .clone()
            .ok_or_else(|| EngineError(format!("the blob {key} has no ETag")))?;
        if found.meta.size > VALUE_MAX as u64 {
            let value = format!("not a register: it has {} bytes", found.meta.size);
            return Ok(Some(Versioned {
                value,
                revision: Revision(etag),
            }));
        }
        let bytes = found
            .bytes()
            .await
            .map_err(|error| self.problem(key, &error))?;
        let value = String::from_utf8(bytes.into());
        let value = value.unwrap_or_else(|error| damaged("not text", error.as_bytes()));
        Ok(Some(Versioned {
            value,
            revision: Revision(etag),
        }))
    }

    /// The blobs of the registers whose keys begin with this. Empty ones are deleted registers.
    async fn blobs(&self, prefix: &str) -> Result<Vec<ObjectMeta>, EngineError> {
        let listed = self
            .store
            .list(Some(&Path::from(prefix.trim_end_matches('/'))));
        let listed: Vec<_> = listed
            .try_collect()
            .await
            .map_err(|error| self.problem(prefix, &error))?;
        let mut found: Vec<_> = listed.into_iter().filter(|meta| meta.size > 0).collect();
        for etag in found
            .iter_mut()
            .filter_map(|meta| meta.e_tag.as_mut())
            .filter(|etag| !etag.starts_with('"'))
        {
            // A list returns them without the quotation marks that every other answer has.
            *etag = format!("\"{etag}\"");
        }
        Ok(found)
    }

    /// The registers with these keys that exist, in any order.
    fn read_all(
        &self,
        keys: impl IntoIterator<Item = String>,
    ) -> impl Stream<Item = Result<(String, Versioned), EngineError>> {
        let reads =
            stream::iter(keys).map(move |key| async move { Ok((self.read(&key).await?, key)) });
        reads
            .buffer_unordered(READS_AT_ONCE)
            .try_filter_map(|(register, key)| async move {
                Ok(register.map(|register| (key, register)))
            })
    }

    async fn put(&self, key: &str, mode: PutMode, value: &str) -> Result<Swap, EngineError> {
        let options = PutOptions {
            mode,
            ..PutOptions::default()
        };
        match self
            .store
            .put_opts(&Path::from(key), value.to_owned().into(), options)
            .await
        {
            Ok(written) => {
                let etag = written
                    .e_tag
                    .ok_or_else(|| EngineError(format!("the blob {key} has no ETag")))?;
                Ok(Swap::Done(Revision(etag)))
            }
            Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => Ok(Swap::Conflict),
            Err(error) => Err(self.problem(key, &error)),
        }
    }
}

impl Engine for BlobEngine {
    fn read<'a>(&'a self, key: &'a str) -> Reply<'a, Option<Versioned>> {
        Box::pin(async move {
            Ok(self
                .get(key)
                .await?
                .filter(|register| !register.value.is_empty()))
        })
    }

    fn swap<'a>(
        &'a self,
        key: &'a str,
        expected: Option<&'a Revision>,
        value: &'a str,
    ) -> Reply<'a, Swap> {
        Box::pin(async move {
            if let Some(revision) = expected {
                return self.put(key, update(revision), value).await;
            }
            if let Swap::Done(revision) = self.put(key, PutMode::Create, value).await? {
                return Ok(Swap::Done(revision));
            }
            match self.get(key).await? {
                Some(deleted) if deleted.value.is_empty() => {
                    self.put(key, update(&deleted.revision), value).await
                }
                _ => Ok(Swap::Conflict),
            }
        })
    }

    /// Makes the blob empty: the library has no conditional delete. A lifecycle rule of the storage
    /// account can delete empty blobs later.
    fn delete<'a>(&'a self, key: &'a str, expected: &'a Revision) -> Reply<'a, bool> {
        Box::pin(async move { Ok(self.put(key, update(expected), "").await? != Swap::Conflict) })
    }

    fn list<'a>(&'a self, prefix: &'a str) -> Reply<'a, Vec<(String, Versioned)>> {
        Box::pin(async move {
            let keys = self
                .blobs(prefix)
                .await?
                .into_iter()
                .map(|meta| meta.location.to_string());
            let mut found: Vec<_> = self.read_all(keys).try_collect().await?;
            found.sort_by(|(a, _), (b, _)| a.cmp(b));
            Ok(found)
        })
    }

    fn clock(&self) -> Option<Clock> {
        self.clock.now()
    }

    /// A list has no contents, and reading every machine's register each time would take as many
    /// requests as there are machines. So this reuses values: a register that is written again and
    /// again changes only its heartbeat.
    fn list_aged<'a>(&'a self, prefix: &'a str) -> Reply<'a, Vec<Aged>> {
        Box::pin(async move {
            let blobs: HashMap<String, ObjectMeta> = self
                .blobs(prefix)
                .await?
                .into_iter()
                .map(|meta| (meta.location.to_string(), meta))
                .collect();
            let (now, written) = (self.clock.now(), |meta: &ObjectMeta| {
                StoreTime::from(SystemTime::from(meta.last_modified))
            });
            self.values.borrow_mut().retain(|key, (value, read_at)| {
                if !key.starts_with(prefix) {
                    return true;
                }
                let Some(meta) = blobs.get(key) else {
                    return false;
                };
                let is_stable = now
                    .and_then(|clock| clock.now.since(written(meta)))
                    .is_none_or(|age| age >= STABLE_AFTER);
                meta.e_tag.as_ref() == Some(&value.revision.0)
                    || !is_stable && read_at.elapsed() < VALUE_KEPT
            });
            let new: Vec<_> = blobs
                .keys()
                .filter(|key| !self.values.borrow().contains_key(*key))
                .cloned()
                .collect();
            let mut reads = pin!(self.read_all(new));
            let mut result = Ok(());
            while let Some(read) = reads.next().await {
                match read {
                    Ok((key, register)) => {
                        self.values
                            .borrow_mut()
                            .insert(key, (register, Instant::now()));
                    }
                    // A value that was read is not read again.
                    Err(error) => result = result.and(Err(error)),
                }
            }
            result?;
            let values = self.values.borrow();
            let mut found = Vec::new();
            for (key, meta) in blobs {
                let written = Some(written(&meta));
                // A register that was deleted since the list was read has no value.
                if let (Some(etag), Some((value, _))) = (meta.e_tag, values.get(&key)) {
                    let register = Versioned {
                        value: value.value.clone(),
                        revision: Revision(etag),
                    };
                    found.push(Aged {
                        key,
                        register,
                        written,
                    });
                }
            }
            found.sort_by(|a, b| a.key.cmp(&b.key));
            Ok(found)
        })
    }
}

fn update(revision: &Revision) -> PutMode {
    PutMode::Update(UpdateVersion {
        e_tag: Some(revision.0.clone()),
        version: None,
    })
}
