//! Azure Blob storage: the emulator, and the token of a managed identity.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::rc::Rc;

use scheduled_events_gate::config::BlobConfig;
use scheduled_events_gate::engine::blob::BlobEngine;
use scheduled_events_gate::engine::{Engine, Swap};
use scheduled_events_test_support::wait;

use crate::conformance::conforms;
use crate::fixture::{Azurite, FLEET_COMMAND, block_on, sas};
use crate::three_machines::replay;

fn config(url: &str) -> BlobConfig {
    BlobConfig {
        url: url.to_owned(),
        emulator: false,
        client_id: None,
        sas_file: None,
        identity_endpoint: None,
    }
}

#[test]
fn azurite() {
    let azurite = Azurite::start();
    let engine = BlobEngine::new(&BlobConfig {
        emulator: true,
        ..config(&azurite.url)
    })
    .expect("an engine");
    block_on(conforms(Rc::new(engine)));
}

/// The token is replaced while the engine runs. A refused token does not appear in the error.
#[test]
fn a_sas_token_is_a_credential_and_can_be_replaced() {
    let azurite = Azurite::start();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("sas");
    std::fs::write(&file, format!("?{}\n", sas("rwl"))).expect("written");
    let config = BlobConfig {
        sas_file: Some(file.clone().into()),
        ..config(&azurite.url)
    };
    let engine = BlobEngine::new(&config).expect("an engine");
    block_on(async {
        let Ok(Swap::Done(first)) = engine.swap("groups/web", None, "old").await else {
            panic!("it is written")
        };
        assert!(matches!(
            engine.swap("groups/web", Some(&first), "new").await,
            Ok(Swap::Done(_))
        ));
        assert_eq!(
            engine.swap("groups/web", Some(&first), "late").await,
            Ok(Swap::Conflict)
        );
        assert_eq!(
            engine.list("groups/").await.expect("a list")[0].1.value,
            "new"
        );
    });
    // It allows no write.
    let reader = sas("rl");
    std::fs::write(&file, &reader).expect("written");
    assert!(
        block_on(engine.read("groups/none"))
            .expect("an answer")
            .is_none()
    );
    let error = block_on(engine.swap("groups/none", None, "x"))
        .expect_err("it is refused")
        .to_string();
    assert!(
        error.contains("403") && error.contains(&azurite.url),
        "{error}"
    );
    let signature = "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2U=";
    std::fs::write(
        &file,
        reader.split("&sig=").next().expect("a token").to_owned() + "&sig=" + signature,
    )
    .expect("written");
    let error = block_on(engine.read("groups/none"))
        .expect_err("it is refused")
        .to_string();
    assert!(
        error.contains("403") && !error.contains("c2VjcmV0"),
        "{error}"
    );
    std::fs::write(&file, sas("rwl")).expect("written");
    assert!(matches!(
        block_on(engine.swap("groups/none", None, "x")),
        Ok(Swap::Done(_))
    ));
}

#[test]
fn a_sas_token_is_in_a_file_and_the_only_credential() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |text: &str| {
        let path = folder.path().join(text.len().to_string());
        std::fs::write(&path, text).expect("written");
        Some(path.into())
    };
    let url = "https://account.blob.core.windows.net/fleet";
    let good = BlobConfig {
        sas_file: file("sv=2021-08-06&sig=c2VjcmV0"),
        ..config(url)
    };
    assert!(BlobEngine::new(&good).is_ok());
    for (config, expected) in [
        (
            config(&format!("{url}?sv=2021-08-06&sig=c2VjcmV0")),
            "a SAS token is in a file that `blob.sas_file` names",
        ),
        (
            config(&url.replace("account", "user:c2VjcmV0@account")),
            "https://***@account.blob",
        ),
        (
            BlobConfig {
                sas_file: file("c2VjcmV0"),
                ..config(url)
            },
            "`blob.sas_file` has no SAS token",
        ),
        (
            BlobConfig {
                sas_file: file("sv=c2VjcmV0&sig="),
                ..config(url)
            },
            "`blob.sas_file` has no SAS token",
        ),
        (
            BlobConfig {
                sas_file: Some(folder.path().join("none").into()),
                ..config(url)
            },
            "`blob.sas_file`: cannot read",
        ),
        (
            BlobConfig {
                client_id: Some("x".into()),
                ..good.clone()
            },
            "`blob.sas_file` and `blob.client_id` exclude",
        ),
        (
            BlobConfig {
                emulator: true,
                ..good.clone()
            },
            "`blob.sas_file` and `blob.emulator` exclude",
        ),
    ] {
        let error = BlobEngine::new(&config).expect_err("an error").to_string();
        assert!(
            error.contains(expected) && !error.contains("c2VjcmV0"),
            "{error}\nexpected: {expected}"
        );
    }
}

/// Listing all machines is one request, without another one for each machine. Only a register that
/// was not written for long is read again: it may be the machine's last one.
#[test]
fn a_look_at_ages_does_not_read_again_what_is_written_all_the_time() {
    let azurite = Azurite::start();
    let engine = || {
        BlobEngine::new(&BlobConfig {
            emulator: true,
            ..config(&azurite.url)
        })
        .expect("an engine")
    };
    let (reader, writer) = (engine(), engine());
    block_on(async {
        let Ok(Swap::Done(first)) = writer.swap("machines/a", None, "old").await else {
            panic!("it is written")
        };
        let value = async || {
            reader
                .list_aged("machines/")
                .await
                .expect("an answer")
                .remove(0)
                .register
                .value
        };
        assert_eq!(value().await, "old");
        let Ok(Swap::Done(_)) = writer.swap("machines/a", Some(&first), "new").await else {
            panic!("it is written")
        };
        assert_eq!(value().await, "old", "it was not read");
        assert_eq!(
            reader.list("machines/").await.expect("an answer")[0]
                .1
                .value,
            "new"
        );
    });
}

/// Imitates the storage service, which accepts only a token. Returns the head of the request.
fn storage(listener: &TcpListener) -> String {
    let mut stream = wait::accept(listener);
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("a request");
        head.extend(byte);
    }
    let head = String::from_utf8(head).expect("text");
    let status = if head.contains("Bearer token-of-WestNO_0") {
        "404 Not Found"
    } else {
        "403 Forbidden"
    };
    let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    stream.write_all(answer.as_bytes()).expect("an answer");
    head
}

/// The replay server answers as the metadata service of a machine with a managed identity.
#[test]
fn the_managed_identity_is_asked_for_a_token() {
    let root = tempfile::tempdir().expect("a folder");
    let (_replay, metadata) = replay(root.path());
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let server = std::thread::spawn(move || storage(&listener));
    let config = BlobConfig {
        identity_endpoint: Some(format!("{metadata}/metadata/identity/oauth2/token")),
        client_id: Some("00000000-0000-0000-0000-000000000001".into()),
        ..config(&format!("http://{address}/account/container"))
    };
    let engine = BlobEngine::new(&config).expect("an engine");
    assert_eq!(
        block_on(engine.read("groups/web")).expect("an answer"),
        None
    );
    let head = wait::join(server).to_ascii_lowercase();
    assert!(
        head.starts_with("get /account/container/groups/web "),
        "{head}"
    );
}

/// Imitates the login service and the storage service of a pod on AKS: the answer of the first has
/// the members that Microsoft documents, and the second has no blobs. Returns each request's head
/// and body.
fn login_and_storage(listener: &TcpListener, requests: usize) -> Vec<(String, String)> {
    let mut seen = Vec::new();
    while seen.len() < requests {
        let mut stream = wait::accept(listener);
        let (mut head, mut byte) = (Vec::new(), [0]);
        while !head.ends_with(b"\r\n\r\n") {
            stream.read_exact(&mut byte).expect("a request");
            head.extend(byte);
        }
        let head = String::from_utf8(head).expect("text").to_ascii_lowercase();
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: ")?.parse().ok())
            .unwrap_or(0);
        let mut body = vec![0; length];
        stream.read_exact(&mut body).expect("its body");
        let answer = if head.contains("/oauth2/v2.0/token") {
            r#"{"token_type":"Bearer","expires_in":3599,"ext_expires_in":3599,"access_token":"the-token"}"#
        } else {
            "<?xml version=\"1.0\" encoding=\"utf-8\"?><EnumerationResults><Blobs/><NextMarker/></EnumerationResults>"
        };
        let length = answer.len();
        let answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{answer}"
        );
        stream.write_all(answer.as_bytes()).expect("an answer");
        seen.push((head, String::from_utf8(body).expect("text")));
    }
    seen
}

#[test]
fn a_pod_exchanges_its_federated_token() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let folder = tempfile::TempDir::new().expect("a folder");
    let token_file = folder.path().join("azure-identity-token");
    std::fs::write(&token_file, "federated.token.of-the-pod").expect("written");
    let config = folder.path().join("fleet.toml");
    let text =
        format!("engine = \"blob\"\nblob = {{ url = \"http://{address}/account/container\" }}\n");
    std::fs::write(&config, text).expect("written");
    // A token, then the events, the groups and the machines.
    let server = std::thread::spawn(move || login_and_storage(&listener, 4));
    // The variables that AKS sets in a pod with a workload identity.
    let mut command = std::process::Command::new(FLEET_COMMAND);
    command
        .arg("--config")
        .arg(&config)
        .arg("status")
        .env_clear();
    command.env("AZURE_CLIENT_ID", "11111111-0000-0000-0000-000000000000");
    command.env("AZURE_TENANT_ID", "22222222-0000-0000-0000-000000000000");
    command
        .env("AZURE_FEDERATED_TOKEN_FILE", &token_file)
        .env("AZURE_AUTHORITY_HOST", format!("http://{address}/"));
    let output = wait::output(&mut command);
    assert!(output.status.success(), "{output:?}");
    let seen = wait::join(server);
    let (head, body) = &seen[0];
    assert!(
        head.starts_with("post /22222222-0000-0000-0000-000000000000/oauth2/v2.0/token "),
        "{head}"
    );
    for expected in [
        "client_id=11111111-0000-0000-0000-000000000000",
        "client_assertion=federated.token.of-the-pod",
        "client_assertion_type=urn%3Aietf%3Aparams%3Aoauth%3Aclient-assertion-type%3Ajwt-bearer",
        "grant_type=client_credentials",
        "scope=https%3A%2F%2Fstorage.azure.com%2F.default",
    ] {
        assert!(body.contains(expected), "{body}\nexpected: {expected}");
    }
    for (head, _) in &seen[1..] {
        assert!(
            head.starts_with("get /account/container?")
                && head.contains("authorization: bearer the-token"),
            "{head}"
        );
    }
}

#[test]
fn a_container_is_named_in_full_and_over_tls() {
    for (url, expected) in [
        (
            "http://account.blob.core.windows.net/fleet",
            "it is not https",
        ),
        (
            "https://account.blob.core.windows.net/",
            "it does not name a container",
        ),
        (
            "https://account.blob.core.windows.net/fleet/more",
            "it does not name a container",
        ),
        ("account", "relative URL without a base"),
    ] {
        let error = BlobEngine::new(&config(url))
            .expect_err("an error")
            .to_string();
        assert!(error.contains(expected), "{url}: {error}");
    }
    let emulator = BlobConfig {
        emulator: true,
        ..config("https://account.blob.core.windows.net/fleet")
    };
    assert!(
        BlobEngine::new(&emulator)
            .expect_err("an error")
            .to_string()
            .contains("an emulator is on this machine")
    );
}

#[test]
fn nobody_answers() {
    let config = BlobConfig {
        emulator: true,
        ..config("http://127.0.0.1:1/devstoreaccount1/fleet")
    };
    let engine = BlobEngine::new(&config).expect("an engine");
    block_on(async {
        assert!(engine.read("groups/web").await.is_err());
        let swap = engine.swap("groups/web", None, "x").await;
        assert!(
            !matches!(swap, Ok(Swap::Done(_) | Swap::Conflict)),
            "a refused connection is no answer"
        );
    });
}
