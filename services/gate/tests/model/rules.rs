//! Removes each rule of the protocol, and finds an invariant that breaks: breadth first, until the
//! first violation.

use std::time::{Duration, Instant};

use stateright::{Checker, Model, UniformChooser};

use crate::GateModel;
use crate::state::{Rule, Setup};

/// A rule, and an invariant that breaks without it.
struct Case {
    rule: Rule,
    broken: &'static [&'static str; 1],
    setup: Setup,
    search: Search,
}

/// How to search for a broken invariant.
#[derive(Clone, Copy)]
enum Search {
    /// In all states, nearest first.
    Breadth,
    /// By random walks, with a fixed seed.
    Random,
}

#[test]
fn each_rule_is_needed() {
    // An invariant that two machines and one event break also breaks with more of them.
    let pair = || Setup {
        events: vec![vec![0, 1]],
        groups: vec![(vec![0, 1], 2)],
        crashes: 1,
        not_before: false,
        ..Setup::two_machines()
    };
    let apart = || Setup {
        atomic: false,
        ..pair()
    };
    let each = Setup::an_event_each;
    let changes = |changes| Setup {
        changes,
        crashes: 1,
        not_before: false,
        ..Setup::one_event()
    };
    let three = || Setup {
        atomic: false,
        crashes: 0,
        not_before: false,
        ..Setup::three_machines()
    };
    let breadth = |rule, broken, setup| Case {
        rule,
        broken,
        setup,
        search: Search::Breadth,
    };
    let cases = [
        breadth(Rule::Swaps, &["S1"], apart()),
        breadth(Rule::Swaps, &["S2"], apart()),
        breadth(Rule::Swaps, &["S3"], apart()),
        Case {
            rule: Rule::Swaps,
            broken: &["S4"],
            setup: three(),
            search: Search::Random,
        },
        breadth(Rule::AllMarks, &["S1"], pair()),
        breadth(Rule::AllMarks, &["S3"], pair()),
        breadth(Rule::Withdrawal, &["S2"], pair()),
        breadth(Rule::Withdrawal, &["S3"], pair()),
        breadth(Rule::Rounds, &["S2"], changes(1)),
        breadth(Rule::VoidDecision, &["S3"], changes(0)),
        breadth(Rule::PostsAreOver, &["S3"], changes(0)),
        breadth(
            Rule::ConfirmedDecision,
            &["S3"],
            Setup {
                stale_reads: true,
                atomic: false,
                ..changes(0)
            },
        ),
        breadth(Rule::Newcomers, &["S3"], Setup::one_joins()),
        breadth(Rule::SilentMarks, &["S2"], Setup::cut_off()),
        breadth(Rule::EarlierMarks, &["S2"], Setup::cut_off()),
        breadth(Rule::NoExpiry, &["S4"], each()),
        breadth(Rule::NoExpiry, &["S5"], each()),
        breadth(
            Rule::SilenceCounts,
            &["S4"],
            Setup {
                deaths: 1,
                ..each()
            },
        ),
        breadth(
            Rule::LateCounts,
            &["S4"],
            Setup {
                last_call: true,
                ..each()
            },
        ),
        breadth(Rule::KeptUntilRecovery, &["S4"], each()),
        breadth(Rule::KeptUntilRecovery, &["S5"], each()),
        breadth(Rule::SilenceFirst, &["S5"], each()),
        breadth(Rule::LeavingTakenBack, &["S5"], leaving()),
        breadth(
            Rule::OwnDocument,
            &["S5"],
            Setup {
                losses: 1,
                ..each()
            },
        ),
        breadth(
            Rule::TakeOver,
            &["L1"],
            Setup {
                deaths: 1,
                ends_unseen: true,
                ..Setup::two_machines()
            },
        ),
        breadth(
            Rule::LastCall,
            &["L2"],
            Setup {
                last_call: true,
                ..each()
            },
        ),
        breadth(Rule::Next, &["L3"], overtaking()),
        breadth(Rule::Advice, &["S6"], advised()),
        breadth(Rule::OlderStore, &["S3"], Setup::restored()),
        breadth(Rule::Copies, &["S3"], Setup::copied()),
        breadth(
            Rule::NoGhosts,
            &["no ghosts"],
            Setup {
                losses: 1,
                ..each()
            },
        ),
    ];
    for case in cases {
        case.check();
    }
}

/// A machine that was about to leave but stays is in another event after that.
fn leaving() -> Setup {
    let events = vec![vec![0], vec![0, 1]];
    Setup {
        events,
        terminates: true,
        deaths: 1,
        ..Setup::an_event_each()
    }
}

/// There is advice for one of two machines, and an event for the other.
fn advised() -> Setup {
    Setup {
        advice: true,
        ..Setup::an_event_each()
    }
}

/// The third machine keeps the events of the first two waiting, until it is forgotten.
fn overtaking() -> Setup {
    Setup {
        machines: 3,
        groups: vec![(vec![0, 1, 2], 1)],
        deaths: 1,
        ..Setup::an_event_each()
    }
}

impl Case {
    /// Checks that the invariant breaks without the rule.
    fn check(self) {
        let started = Instant::now();
        let (rule, property) = (self.rule, self.broken[0]);
        let setup = Setup {
            without: Some(rule),
            ..self.setup
        };
        let checker = GateModel::new(setup, 1, self.broken)
            .checker()
            .threads(2)
            .timeout(Duration::from_secs(300));
        let (path, states) = match self.search {
            Search::Breadth => {
                let checker = checker.spawn_bfs().join();
                (checker.discovery(property), checker.unique_state_count())
            }
            Search::Random => {
                let checker = checker.spawn_simulation(1, UniformChooser).join();
                (checker.discovery(property), checker.unique_state_count())
            }
        };
        let path = path
            .unwrap_or_else(|| panic!("without {rule:?}: {property} was not found to be broken"));
        let (path, seconds) = (path.into_actions(), started.elapsed().as_secs_f32());
        println!(
            "without {rule:?}: {property} is broken after {} actions; {states} states, {seconds:.1} s",
            path.len()
        );
        if std::env::var_os("SHOW_PATHS").is_some() {
            for action in &path {
                println!("    {action:?}");
            }
        }
    }
}
