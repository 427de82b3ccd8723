//! Clocks that are wrong, and clocks that jump: FIELD-FAULTS 31.

use scheduled_events_core::{Action, Policy, Preparation, Rule, UnixMillis};

use crate::common::{Host, Setup, event};

const DAY_MS: i64 = 86_400_000;

/// When the clock jumps: with a restart, so that times of a snapshot are involved.
#[derive(Clone, Copy, Debug)]
enum Jump {
    BeforeItIsDue,
    AfterAFailure,
}

/// The steps of a maintenance, each with the number of the poll that it follows. The caller's clock jumps once by this much, and
/// the time of day is known from the service.
fn maintenance(when: Jump, jump_ms: i64) -> Vec<(usize, String)> {
    let policy = Policy::new(&[Rule {
        prepare_before: Some(300),
        ..Rule::new(Action::Prepare)
    }])
    .unwrap();
    let mut host = Host::<4>::new(Setup::new(policy));
    let mut steps = Vec::new();
    let announced = [event("a").not_before(900)];
    let jump = |host: &mut Host<4>| {
        host.restart();
        host.now = UnixMillis(host.now.0 + jump_ms);
        host.session.set_time_of_day_ahead(-jump_ms);
    };
    for poll in 0..2_000 {
        match poll {
            100 if matches!(when, Jump::BeforeItIsDue) => jump(&mut host),
            0..1_000 => {}
            // The event is over after its start.
            _ => {
                host.serve(&[]);
                steps.extend(host.take_steps().into_iter().map(|step| (poll, step)));
                continue;
            }
        }
        host.serve(&announced);
        let new = host.take_steps();
        let is_due = new.iter().any(|step| step.starts_with("prepare a"));
        steps.extend(new.into_iter().map(|step| (poll, step)));
        if is_due {
            // The first attempt fails, and is tried again by the caller's clock.
            if steps
                .iter()
                .filter(|(_, step)| step.starts_with("prepare a"))
                .count()
                == 1
            {
                host.prepared("a", Preparation::Failed);
                if matches!(when, Jump::AfterAFailure) {
                    jump(&mut host);
                }
            } else {
                host.ready("a");
            }
            steps.extend(host.take_steps().into_iter().map(|step| (poll, step)));
        }
    }
    steps
}

#[test]
fn fault_31_a_clock_that_jumps_by_a_day_changes_no_decision() {
    for when in [Jump::BeforeItIsDue, Jump::AfterAFailure] {
        let expected = maintenance(when, 0);
        let at = |word: &str| {
            let found = expected.iter().find(|(_, step)| step.starts_with(word));
            found.unwrap_or_else(|| panic!("{word}: {expected:?}")).0
        };
        assert!(at("prepare a") < at("post a"), "{expected:?}");
        assert!(at("post a") < at("recover a"), "{expected:?}");
        for days in [1, -1] {
            assert_eq!(
                maintenance(when, days * DAY_MS),
                expected,
                "{when:?} {days}"
            );
        }
    }
}
