//! The life cycle of an interruptible workload and the eviction tables, row by row. Comments name the sections and
//! paragraphs of Microsoft's guidance for interruptible workloads on Spot VMs from which a row was read.

use scheduled_events_core::spot::{
    Allocation, Charges, EvictionCause, EvictionPolicy, EvictionType, MaxPrice, Phase, Replacement,
    SPOT_TRANSITIONS, Signal, SpotInput, SpotState,
};

/// Every transition that the life cycle has. All other pairs have none.
const TRANSITIONS: [(Phase, Signal, Phase); 17] = [
    // "Application states", Start: after the warm-up state is completed, transition into the processing state.
    (Phase::Warmup, Signal::WarmedUp, Phase::Processing),
    // Shutdown: in the processing state an eviction event is triggered; the application changes its state to evicted.
    (Phase::Processing, Signal::Notice, Phase::Evicted),
    // Advice stops nothing: the workload saves a checkpoint.
    (Phase::Processing, Signal::Advised, Phase::Processing),
    // "No SLAs": machines can lose their capacity at any time, so also before and after processing.
    (Phase::Warmup, Signal::Notice, Phase::Evicted),
    (Phase::Recover, Signal::Notice, Phase::Evicted),
    (Phase::Resume, Signal::Notice, Phase::Evicted),
    // Shutdown: it gracefully shuts down.
    (Phase::Evicted, Signal::Stopped, Phase::Shutdown),
    // Scheduled Events: an event that is gone before it started was cancelled.
    (Phase::Evicted, Signal::Withdrawn, Phase::Processing),
    (Phase::Shutdown, Signal::Withdrawn, Phase::Recover),
    // Recover: the workload is redeployed or recreated; it deals with a prior forced shutdown.
    (Phase::Shutdown, Signal::Restarted, Phase::Recover),
    (Phase::Processing, Signal::Restarted, Phase::Recover),
    (Phase::Evicted, Signal::Restarted, Phase::Recover),
    (Phase::Recover, Signal::Restarted, Phase::Recover),
    (Phase::Resume, Signal::Restarted, Phase::Recover),
    (Phase::Warmup, Signal::Restarted, Phase::Warmup),
    // Resume: about to continue after a best effort to recover the context.
    (Phase::Recover, Signal::Recovered, Phase::Resume),
    // Resume: transition into a warm-up state to ensure that the workload is healthy.
    (Phase::Resume, Signal::Resumed, Phase::Warmup),
];

#[test]
fn the_life_cycle_has_these_transitions_and_no_others() {
    for phase in Phase::ALL {
        for signal in Signal::ALL {
            let expected = TRANSITIONS
                .iter()
                .find(|(from, with, _)| (*from, *with) == (phase, signal));
            assert_eq!(
                phase.next(signal),
                expected.map(|(.., to)| *to),
                "{phase} {signal}"
            );
        }
    }
}

#[test]
fn from_every_phase_the_workload_can_process_again() {
    for phase in Phase::ALL {
        let mut reached = vec![phase];
        let mut next = 0;
        while let Some(from) = reached.get(next).copied() {
            next += 1;
            let more = Signal::ALL
                .into_iter()
                .filter_map(|signal| from.next(signal));
            reached.extend(more.filter(|to| !reached.contains(to)).collect::<Vec<_>>());
        }
        assert!(reached.contains(&Phase::Processing), "{phase}");
    }
}

#[test]
fn an_evicted_workload_passes_through_recover_resume_and_warm_up_before_it_processes() {
    let signals = [
        Signal::Notice,
        Signal::Stopped,
        Signal::Restarted,
        Signal::Recovered,
        Signal::Resumed,
        Signal::WarmedUp,
    ];
    let mut phase = Phase::Processing;
    let phases = signals.map(|signal| {
        phase = phase.next(signal).expect("a transition");
        phase.word()
    });
    assert_eq!(
        phases,
        [
            "evicted",
            "shutdown",
            "recover",
            "resume",
            "warm-up",
            "processing"
        ]
    );
    assert_eq!(
        Phase::ALL
            .into_iter()
            .filter(|phase| phase.processes())
            .count(),
        2
    );
}

#[test]
fn the_eviction_type_decides_when_and_the_policy_what_happens() {
    // "Eviction type": capacity only; price or capacity, "even if capacity exists".
    let is_evicted_for =
        |kind: EvictionType| EvictionCause::ALL.map(|cause| kind.is_evicted_for(cause));
    assert_eq!(
        EvictionCause::ALL,
        [EvictionCause::Capacity, EvictionCause::Price]
    );
    assert_eq!(is_evicted_for(EvictionType::CapacityOnly), [true, false]);
    assert_eq!(is_evicted_for(EvictionType::PriceOrCapacity), [true, true]);

    // "Stop/Deallocate policy", paragraphs 2 to 4.
    let stopped = EvictionPolicy::Deallocate.effect();
    assert_eq!(
        (stopped.state, stopped.state.charges()),
        (SpotState::Stopped, Charges::Disks)
    );
    assert!(stopped.keeps_data_disks && stopped.keeps_local_checkpoints && stopped.occupies_cores);
    assert_eq!(stopped.keeps_static_addresses, Some(true));
    assert_eq!(stopped.replacement, Replacement::Reallocate);

    // "Delete policy", paragraphs 1 and 2; "Application states", Shutdown, last sentence; "Replace VMs", Deleted VM.
    let deleted = EvictionPolicy::Delete.effect();
    assert_eq!(
        (deleted.state, deleted.state.charges()),
        (SpotState::Deleted, Charges::Nothing)
    );
    assert!(
        !deleted.keeps_data_disks && !deleted.keeps_local_checkpoints && !deleted.occupies_cores
    );
    assert_eq!(deleted.keeps_static_addresses, None);
    assert_eq!(deleted.replacement, Replacement::Recreate);
}

/// "Spot VM states": every combination of its columns, with the number of the row that holds, from 1.
#[test]
fn each_state_of_a_machine_follows_from_the_first_row_that_matches() {
    let mut used = [0; SPOT_TRANSITIONS.len()];
    for state in [
        None,
        Some(SpotState::Running),
        Some(SpotState::Stopped),
        Some(SpotState::Deleted),
    ] {
        for input in SpotInput::ALL {
            for max_price in MaxPrice::ALL {
                for has_capacity in [false, true] {
                    for policy in EvictionPolicy::ALL {
                        let deletes = usize::from(policy == EvictionPolicy::Delete);
                        let exceeded = max_price == MaxPrice::Exceeded;
                        let expected = match (state, input) {
                            (_, SpotInput::Deploy) if has_capacity && !exceeded => Some(1),
                            (Some(SpotState::Running), SpotInput::Evict) => {
                                match (has_capacity, max_price) {
                                    (true, MaxPrice::Unlimited) => Some(2),
                                    (false, _) => Some(3 + deletes),
                                    (true, MaxPrice::Exceeded) => Some(5 + deletes),
                                    // The guide has no row: there is no cause.
                                    (true, MaxPrice::Sufficient) => None,
                                }
                            }
                            (Some(SpotState::Running), SpotInput::Advise) => Some(10),
                            (Some(SpotState::Stopped), SpotInput::Restart) if exceeded => {
                                Some(7 + deletes)
                            }
                            (Some(SpotState::Stopped), SpotInput::Restart) if has_capacity => {
                                Some(9)
                            }
                            _ => None,
                        };
                        let allocation = Allocation {
                            max_price,
                            has_capacity,
                            policy,
                        };
                        let found = SpotState::after(state, input, allocation);
                        let expected = expected.map(|number: usize| number - 1);
                        assert_eq!(
                            found,
                            expected.map(|index| &SPOT_TRANSITIONS[index]),
                            "{state:?} {input} {allocation:?}"
                        );
                        if let Some(index) = expected {
                            used[index] += 1;
                        }
                    }
                }
            }
        }
    }
    assert!(used.iter().all(|times| *times > 0), "{used:?}");
    for row in SPOT_TRANSITIONS {
        // The table and the description of the policies agree.
        if let (SpotInput::Evict, Some(policy)) = (row.input, row.policy) {
            assert_eq!(row.to, policy.effect().state);
        }
    }
    // The column "Output": what is paid follows from the state.
    assert_eq!(
        SpotState::ALL.map(SpotState::charges),
        [Charges::MachineAndDisks, Charges::Disks, Charges::Nothing]
    );
}
