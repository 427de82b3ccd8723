//! Tests of a server that imitates the service for several machines.

use super::*;

fn two() -> Server {
    start(
        builtin("terminate-pair")
            .vm_name("pool_7")
            .machines(2)
            .fault("get.status:503@2".parse().expect("a fault")),
    )
}

fn ask(address: SocketAddr, target: &str) -> Response {
    raw(
        address,
        head("GET", target, "Connection: close\r\n").as_bytes(),
    )
}

#[test]
fn machines_share_documents_and_have_names_addresses_and_faults_of_their_own() {
    let server = two();
    let [one, other] = server.machines() else {
        panic!("{:?}", server.machines())
    };
    assert_eq!(
        (one.name.as_str(), other.name.as_str()),
        ("pool_7", "pool_8")
    );
    assert_eq!((one.addr, one.url()), (server.addr(), server.url()));
    assert_eq!(ask(one.addr, NAME).text(), "pool_7");
    assert_eq!(ask(other.addr, NAME).text(), "pool_8");
    let first = ask(one.addr, EVENTS).json();
    assert_eq!(first, ask(other.addr, EVENTS).json());
    // The second poll of each machine meets the fault.
    assert_eq!(
        (ask(one.addr, EVENTS).status, ask(one.addr, EVENTS).status),
        (503, 200)
    );
    assert_eq!(
        (
            ask(other.addr, EVENTS).status,
            ask(other.addr, EVENTS).status
        ),
        (503, 200)
    );
    let machines: Vec<_> = server
        .requests()
        .iter()
        .map(|request| request.machine)
        .collect();
    assert_eq!(machines, [0, 1, 0, 1, 0, 0, 1, 1]);
}

#[test]
fn machines_have_the_ports_after_the_first_one() {
    // Another program may take one of them in between, so several ranges are tried.
    let found = (0..50).find_map(|_| {
        let free = TcpListener::bind("127.0.0.1:0")
            .expect("a port")
            .local_addr()
            .expect("an address");
        Server::start(steady().without_verdict().listen(free).machines(3))
            .ok()
            .map(|server| (free, server))
    });
    let (first, server) = found.expect("three ports in a row");
    let ports: Vec<_> = server
        .machines()
        .iter()
        .map(|machine| machine.addr.port())
        .collect();
    assert_eq!(ports, [first.port(), first.port() + 1, first.port() + 2]);
    let last = Server::start(
        steady()
            .listen("127.0.0.1:65535".parse().expect("an address"))
            .machines(2),
    );
    assert_eq!(
        last.expect_err("no port is left").kind(),
        ErrorKind::InvalidInput
    );
}

#[test]
fn two_hundred_machines_are_served() {
    let server = start(builtin("scale-in").speed(600.0).machines(200));
    thread::scope(|scope| {
        for half in server.machines().chunks(50) {
            scope.spawn(move || {
                for machine in half {
                    assert_eq!(ask(machine.addr, NAME).text(), machine.name);
                    assert_eq!(ask(machine.addr, EVENTS).status, 200);
                }
            });
        }
    });
}

#[test]
fn the_end_of_a_run_waits_for_what_clients_sent_that_have_ended() {
    let server = start(steady());
    for _ in 0..30 {
        let mut stream = connect(server.addr());
        stream
            .write_all(head("GET", EVENTS, "").as_bytes())
            .expect("send");
    }
    server.settle();
    assert_eq!(server.requests().len(), 30);
}
