//! `discover`: the lease files of each DHCP client, in `cli/tests/leases`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, SystemTime};

use crate::support::{Folder, run, unprivileged};

const LEASES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/leases");

#[test]
fn the_lease_of_each_client_is_found() {
    let mut clients = 0;
    for entry in fs::read_dir(LEASES).expect("the folder") {
        let folder = entry.expect("an entry").path();
        if !folder.is_dir() {
            continue;
        }
        clients += 1;
        let found = run(&["discover", "--root", folder.to_str().expect("a plain path")]);
        if folder.ends_with("none") {
            assert_eq!(
                (found.code, found.stdout.as_str()),
                (Some(1), ""),
                "{folder:?}"
            );
            assert!(found.stderr.contains(
                "has DHCP option 245; in a virtual network, the address is http://169.254.169.254"
            ));
        } else {
            assert_eq!(
                (found.code, found.stdout.as_str()),
                (Some(0), "http://168.63.129.16\n"),
                "{folder:?}"
            );
        }
    }
    assert_eq!(clients, 7);
}

#[test]
fn the_newest_lease_wins_and_links_are_left_out() {
    let folder = Folder::new();
    let leases = folder.as_path().join("run/systemd/netif/leases");
    fs::create_dir_all(&leases).expect("a folder");
    for (name, address, age) in [
        ("2", "0a000002", 20),
        ("3", "0a000003", 10),
        ("4", "0a000004", 30),
    ] {
        let path = leases.join(name);
        fs::write(&path, format!("OPTION_245={address}\n")).expect("a file");
        let time = SystemTime::now() - Duration::from_secs(age);
        fs::File::options()
            .write(true)
            .open(&path)
            .and_then(|file| file.set_modified(time))
            .expect("a time");
    }
    fs::write(folder.path("elsewhere"), "OPTION_245=0a000005\n").expect("a file");
    std::os::unix::fs::symlink(folder.path("elsewhere"), leases.join("5")).expect("a link");
    let found = run(&["discover", "--root", &folder.path("")]).with_code(0);
    assert_eq!(found.stdout, "http://10.0.0.3\n");
    assert!(
        found.stderr.contains("which is older, has http://10.0.0.2"),
        "{}",
        found.stderr
    );
    assert!(!found.stderr.contains("10.0.0.5"), "{}", found.stderr);
}

#[test]
fn a_file_that_others_can_write_is_reported() {
    let folder = Folder::new();
    let leases = folder.as_path().join("var/lib/dhcp");
    fs::create_dir_all(&leases).expect("a folder");
    let path = leases.join("dhclient.leases");
    fs::write(&path, "lease {\n  option unknown-245 a8:3f:81:10;\n}\n").expect("a file");
    let is_root = unprivileged("1").len() > 1;
    for (mode, is_roots) in [
        (0o644, is_root),
        (0o600, is_root),
        (0o664, false),
        (0o646, false),
    ] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("a mode");
        let found = run(&["discover", "--root", &folder.path("")]).with_code(0);
        let warned = found
            .stderr
            .contains("does not belong to root alone; using it needs --allow-endpoint");
        assert_eq!(warned, !is_roots, "{mode:o}: {}", found.stderr);
    }
}
