//! The imitated API server as a program, for `services/fleet/tests/chaos/run`.

use std::path::PathBuf;

use crate::fake::FakeApi;
use crate::fake::rbac::Right;

#[test]
#[ignore = "it serves until it is killed"]
fn for_ever() {
    let kubeconfig =
        PathBuf::from(std::env::var_os("SERVE_KUBECONFIG").expect("SERVE_KUBECONFIG names a file"));
    let server = FakeApi::start(None::<Vec<Right>>);
    // The file appears only when it is complete.
    let part = kubeconfig.with_extension("part");
    server.write_kubeconfig(&part, true);
    std::fs::rename(&part, &kubeconfig).expect("the kubeconfig");
    loop {
        std::thread::park();
    }
}
