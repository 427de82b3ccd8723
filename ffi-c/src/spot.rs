//! Spot machines: the life cycle of a workload, and what an eviction does.

use std::ffi::{CStr, c_char};

use scheduled_events_core::spot::{
    Allocation, Charges, EvictionCause, EvictionPolicy, EvictionType, MaxPrice, Phase, Replacement,
    Signal, SpotInput, SpotState,
};

use crate::abi::pointers::{Flag, output};
use crate::boundary::{Result, boundary};
use crate::status::schedev_status::{self, SCHEDEV_END, SCHEDEV_ERROR_ARGUMENT};

/// Where an interruptible workload is in its life cycle.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum schedev_spot_phase {
    /// It checks that it is healthy, and processes nothing yet.
    SCHEDEV_SPOT_WARMUP = 1,
    /// It processes, and saves checkpoints regularly.
    SCHEDEV_SPOT_PROCESSING = 2,
    /// An event that stops it is announced: it saves a last checkpoint and stops.
    SCHEDEV_SPOT_EVICTED = 3,
    /// It is stopped, and the machine may go away at any time.
    SCHEDEV_SPOT_SHUTDOWN = 4,
    /// The machine is back: it restores its latest checkpoint.
    SCHEDEV_SPOT_RECOVER = 5,
    /// It is about to continue, through a warm-up.
    SCHEDEV_SPOT_RESUME = 6,
}

/// What moves a workload from one phase to the next.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum schedev_spot_signal {
    /// The warm-up succeeded.
    SCHEDEV_SPOT_SIGNAL_WARMED_UP = 1,
    /// An event that stops the workload was announced.
    SCHEDEV_SPOT_SIGNAL_NOTICE = 2,
    /// The event was cancelled, or is over and the machine still runs.
    SCHEDEV_SPOT_SIGNAL_WITHDRAWN = 3,
    /// The workload has stopped.
    SCHEDEV_SPOT_SIGNAL_STOPPED = 4,
    /// The machine or the program that keeps the workload has started again.
    SCHEDEV_SPOT_SIGNAL_RESTARTED = 5,
    /// The latest checkpoint is restored, if there is one.
    SCHEDEV_SPOT_SIGNAL_RECOVERED = 6,
    /// The workload is about to process again.
    SCHEDEV_SPOT_SIGNAL_RESUMED = 7,
}

/// When a Spot machine is evicted.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum schedev_eviction_type {
    /// Only when there is no excess capacity.
    SCHEDEV_EVICTION_CAPACITY_ONLY = 1,
    /// Also when the price exceeds the maximum price.
    SCHEDEV_EVICTION_PRICE_OR_CAPACITY = 2,
}

/// Why a Spot machine is evicted.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum schedev_eviction_cause {
    /// Azure needs the capacity.
    SCHEDEV_EVICTED_FOR_CAPACITY = 1,
    /// The price exceeds the maximum price.
    SCHEDEV_EVICTED_FOR_PRICE = 2,
}

/// What an eviction does to a Spot machine.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum schedev_eviction_policy {
    /// It is stopped, and can be started again.
    SCHEDEV_EVICTION_POLICY_DEALLOCATE = 1,
    /// It is deleted.
    SCHEDEV_EVICTION_POLICY_DELETE = 2,
}

/// The state of a Spot machine.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum schedev_spot_state {
    /// It runs.
    SCHEDEV_SPOT_MACHINE_RUNNING = 1,
    /// It is stopped and deallocated.
    SCHEDEV_SPOT_MACHINE_STOPPED = 2,
    /// It does not exist any more.
    SCHEDEV_SPOT_MACHINE_DELETED = 3,
}

/// What is done to a Spot machine.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum schedev_spot_input {
    /// An operator creates it.
    SCHEDEV_SPOT_INPUT_DEPLOY = 1,
    /// Azure evicts machines.
    SCHEDEV_SPOT_INPUT_EVICT = 2,
    /// An operator starts it again.
    SCHEDEV_SPOT_INPUT_RESTART = 3,
}

/// A Spot machine's maximum price beside the current one.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum schedev_spot_price {
    /// There is no maximum, which Azure writes as -1.
    SCHEDEV_SPOT_PRICE_UNLIMITED = 1,
    /// The maximum is at least the current price.
    SCHEDEV_SPOT_PRICE_SUFFICIENT = 2,
    /// The maximum is below the current price.
    SCHEDEV_SPOT_PRICE_EXCEEDED = 3,
}

/// What is paid for a Spot machine.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum schedev_spot_charges {
    /// The machine and its disks.
    SCHEDEV_SPOT_PAY_MACHINE_AND_DISKS = 1,
    /// Its disks only.
    SCHEDEV_SPOT_PAY_DISKS = 2,
    /// Nothing.
    SCHEDEV_SPOT_PAY_NOTHING = 3,
}

/// How a Spot machine comes back after an eviction.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum schedev_spot_replacement {
    /// The same machine is allocated again, in its zone and size.
    SCHEDEV_SPOT_REALLOCATE = 1,
    /// Another machine is created, by something outside; in any zone, region or size.
    SCHEDEV_SPOT_RECREATE = 2,
}

/// The number of a core value: its place in core's list, from 1.
fn number<T: Copy + PartialEq>(value: T, all: &[T]) -> u32 {
    all.iter()
        .zip(1..)
        .find(|(known, _)| **known == value)
        .map_or(0, |(_, number)| number)
}

/// The core value of a number.
fn value<T: Copy>(number: u32, all: &[T]) -> Result<T> {
    let index = usize::try_from(number)
        .ok()
        .and_then(|number| number.checked_sub(1));
    index
        .and_then(|index| all.get(index))
        .copied()
        .ok_or(SCHEDEV_ERROR_ARGUMENT)
}

/// What an eviction leaves of a machine, and what the workload may expect afterwards. No eviction keeps compute capacity or IP
/// addresses that are not static.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct schedev_eviction_effect {
    /// The state of the machine afterwards, a schedev_spot_state.
    pub state: u32,
    /// What is paid for it, a schedev_spot_charges.
    pub charges: u32,
    /// How capacity comes back, a schedev_spot_replacement.
    pub replacement: u32,
    /// Whether the data disks remain.
    pub keeps_data_disks: Flag,
    /// Whether a checkpoint on the machine's own file system can be read afterwards.
    pub keeps_local_checkpoints: Flag,
    /// Whether static IP addresses remain, if has_keeps_static_addresses.
    pub keeps_static_addresses: Flag,
    /// Whether keeps_static_addresses is known: the guidance does not state it for a deleted machine.
    pub has_keeps_static_addresses: Flag,
    /// Whether the machine still counts against the subscription's quota of cores.
    pub occupies_cores: Flag,
}

/// Returns the phase of a workload after a signal. The life cycle is that of Microsoft's guidance for interruptible workloads.
///
/// @param phase   the schedev_spot_phase now.
/// @param signal  a schedev_spot_signal.
/// @param next    receives the next schedev_spot_phase.
/// @return SCHEDEV_OK; SCHEDEV_END if the signal has no meaning in this phase, which continues; SCHEDEV_ERROR_ARGUMENT for an
///         unknown phase or signal; SCHEDEV_ERROR_NULL.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_spot_next_phase(
    phase: u32,
    signal: u32,
    next: *mut u32,
) -> schedev_status {
    boundary(|| {
        let output = checked!(output(next));
        let (phase, signal) = (value(phase, &Phase::ALL)?, value(signal, &Signal::ALL)?);
        output.write(number(phase.next(signal).ok_or(SCHEDEV_END)?, &Phase::ALL));
        Ok(())
    })
}

/// The words of the phases, in the order of their numbers.
const PHASES: [&CStr; 6] = [
    c"warm-up",
    c"processing",
    c"evicted",
    c"shutdown",
    c"recover",
    c"resume",
];

/// Returns a schedev_spot_phase as a word, such as "warm-up".
///
/// @param phase  a schedev_spot_phase, or any other number.
/// @return a static string; "unknown" if the number has no word.
#[unsafe(no_mangle)]
pub extern "C" fn schedev_spot_phase_word(phase: u32) -> *const c_char {
    value(phase, &PHASES).unwrap_or(c"unknown").as_ptr()
}

/// Returns what an eviction does to a Spot machine, if its type allows the eviction.
///
/// @param eviction_type  the machine's schedev_eviction_type.
/// @param cause          a schedev_eviction_cause.
/// @param policy         the machine's schedev_eviction_policy.
/// @param effect         receives what is left of the machine.
/// @return SCHEDEV_OK; SCHEDEV_END if a machine of this type is not evicted for this cause; SCHEDEV_ERROR_ARGUMENT for an
///         unknown number; SCHEDEV_ERROR_NULL.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_spot_eviction(
    eviction_type: u32,
    cause: u32,
    policy: u32,
    effect: *mut schedev_eviction_effect,
) -> schedev_status {
    boundary(|| {
        let output = checked!(output(effect));
        let (kind, cause) = (
            value(eviction_type, &EvictionType::ALL)?,
            value(cause, &EvictionCause::ALL)?,
        );
        let effect = value(policy, &EvictionPolicy::ALL)?.effect();
        if !kind.is_evicted_for(cause) {
            return Err(SCHEDEV_END);
        }
        output.write(schedev_eviction_effect {
            state: number(effect.state, &SpotState::ALL),
            charges: number(effect.charges, &Charges::ALL),
            replacement: number(effect.replacement, &Replacement::ALL),
            keeps_data_disks: Flag::new(effect.keeps_data_disks),
            keeps_local_checkpoints: Flag::new(effect.keeps_local_checkpoints),
            keeps_static_addresses: Flag::new(effect.keeps_static_addresses == Some(true)),
            has_keeps_static_addresses: Flag::new(effect.keeps_static_addresses.is_some()),
            occupies_cores: Flag::new(effect.occupies_cores),
        });
        Ok(())
    })
}

/// Returns what becomes of a Spot machine: the table "Spot VM states" of Microsoft's guidance.
///
/// @param state         the schedev_spot_state now; 0 for a machine that does not exist yet.
/// @param input         what is done to it, a schedev_spot_input.
/// @param price         its schedev_spot_price.
/// @param has_capacity  whether there is excess capacity for it.
/// @param policy        its schedev_eviction_policy.
/// @param next          receives the next schedev_spot_state.
/// @param charges       receives the schedev_spot_charges.
/// @return SCHEDEV_OK; SCHEDEV_END if the table has no row: the state stays; SCHEDEV_ERROR_ARGUMENT for an unknown number;
///         SCHEDEV_ERROR_NULL.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn schedev_spot_next_state(
    state: u32,
    input: u32,
    price: u32,
    has_capacity: Flag,
    policy: u32,
    next: *mut u32,
    charges: *mut u32,
) -> schedev_status {
    boundary(|| {
        let (next, charges) = (checked!(output(next)), checked!(output(charges)));
        let state = if state == 0 {
            None
        } else {
            Some(value(state, &SpotState::ALL)?)
        };
        let allocation = Allocation {
            max_price: value(price, &MaxPrice::ALL)?,
            has_capacity: has_capacity.is_on(),
            policy: value(policy, &EvictionPolicy::ALL)?,
        };
        let row = SpotState::after(state, value(input, &SpotInput::ALL)?, allocation)
            .ok_or(SCHEDEV_END)?;
        next.write(number(row.to, &SpotState::ALL));
        charges.write(number(row.charges, &Charges::ALL));
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedev_status::{SCHEDEV_ERROR_NULL, SCHEDEV_OK};

    #[test]
    fn the_numbers_and_words_are_those_of_core() {
        for (phase, word) in Phase::ALL.into_iter().zip(PHASES) {
            assert_eq!(word.to_str(), Ok(phase.word()));
        }
        assert_eq!(
            schedev_spot_phase::SCHEDEV_SPOT_WARMUP as u32,
            number(Phase::Warmup, &Phase::ALL)
        );
        assert_eq!(
            schedev_spot_phase::SCHEDEV_SPOT_PROCESSING as u32,
            number(Phase::Processing, &Phase::ALL)
        );
        assert_eq!(
            schedev_spot_phase::SCHEDEV_SPOT_EVICTED as u32,
            number(Phase::Evicted, &Phase::ALL)
        );
        assert_eq!(
            schedev_spot_phase::SCHEDEV_SPOT_SHUTDOWN as u32,
            number(Phase::Shutdown, &Phase::ALL)
        );
        assert_eq!(
            schedev_spot_phase::SCHEDEV_SPOT_RECOVER as u32,
            number(Phase::Recover, &Phase::ALL)
        );
        assert_eq!(
            schedev_spot_phase::SCHEDEV_SPOT_RESUME as u32,
            number(Phase::Resume, &Phase::ALL)
        );
        assert_eq!(Phase::ALL.len(), 6);
        assert_eq!(
            schedev_spot_signal::SCHEDEV_SPOT_SIGNAL_WARMED_UP as u32,
            number(Signal::WarmedUp, &Signal::ALL)
        );
        assert_eq!(
            schedev_spot_signal::SCHEDEV_SPOT_SIGNAL_NOTICE as u32,
            number(Signal::Notice, &Signal::ALL)
        );
        assert_eq!(
            schedev_spot_signal::SCHEDEV_SPOT_SIGNAL_WITHDRAWN as u32,
            number(Signal::Withdrawn, &Signal::ALL)
        );
        assert_eq!(
            schedev_spot_signal::SCHEDEV_SPOT_SIGNAL_STOPPED as u32,
            number(Signal::Stopped, &Signal::ALL)
        );
        assert_eq!(
            schedev_spot_signal::SCHEDEV_SPOT_SIGNAL_RESTARTED as u32,
            number(Signal::Restarted, &Signal::ALL)
        );
        assert_eq!(
            schedev_spot_signal::SCHEDEV_SPOT_SIGNAL_RECOVERED as u32,
            number(Signal::Recovered, &Signal::ALL)
        );
        assert_eq!(
            schedev_spot_signal::SCHEDEV_SPOT_SIGNAL_RESUMED as u32,
            number(Signal::Resumed, &Signal::ALL)
        );
        assert_eq!(Signal::ALL.len(), 7);
        assert_eq!(
            schedev_eviction_type::SCHEDEV_EVICTION_CAPACITY_ONLY as u32,
            number(EvictionType::CapacityOnly, &EvictionType::ALL)
        );
        assert_eq!(
            schedev_eviction_type::SCHEDEV_EVICTION_PRICE_OR_CAPACITY as u32,
            number(EvictionType::PriceOrCapacity, &EvictionType::ALL)
        );
        assert_eq!(EvictionType::ALL.len(), 2);
        assert_eq!(
            schedev_eviction_cause::SCHEDEV_EVICTED_FOR_CAPACITY as u32,
            number(EvictionCause::Capacity, &EvictionCause::ALL)
        );
        assert_eq!(
            schedev_eviction_cause::SCHEDEV_EVICTED_FOR_PRICE as u32,
            number(EvictionCause::Price, &EvictionCause::ALL)
        );
        assert_eq!(EvictionCause::ALL.len(), 2);
        assert_eq!(
            schedev_eviction_policy::SCHEDEV_EVICTION_POLICY_DEALLOCATE as u32,
            number(EvictionPolicy::Deallocate, &EvictionPolicy::ALL)
        );
        assert_eq!(
            schedev_eviction_policy::SCHEDEV_EVICTION_POLICY_DELETE as u32,
            number(EvictionPolicy::Delete, &EvictionPolicy::ALL)
        );
        assert_eq!(EvictionPolicy::ALL.len(), 2);
        assert_eq!(
            schedev_spot_state::SCHEDEV_SPOT_MACHINE_RUNNING as u32,
            number(SpotState::Running, &SpotState::ALL)
        );
        assert_eq!(
            schedev_spot_state::SCHEDEV_SPOT_MACHINE_STOPPED as u32,
            number(SpotState::Stopped, &SpotState::ALL)
        );
        assert_eq!(
            schedev_spot_state::SCHEDEV_SPOT_MACHINE_DELETED as u32,
            number(SpotState::Deleted, &SpotState::ALL)
        );
        assert_eq!(SpotState::ALL.len(), 3);
        assert_eq!(
            schedev_spot_input::SCHEDEV_SPOT_INPUT_DEPLOY as u32,
            number(SpotInput::Deploy, &SpotInput::ALL)
        );
        assert_eq!(
            schedev_spot_input::SCHEDEV_SPOT_INPUT_EVICT as u32,
            number(SpotInput::Evict, &SpotInput::ALL)
        );
        assert_eq!(
            schedev_spot_input::SCHEDEV_SPOT_INPUT_RESTART as u32,
            number(SpotInput::Restart, &SpotInput::ALL)
        );
        assert_eq!(SpotInput::ALL.len(), 3);
        assert_eq!(
            schedev_spot_price::SCHEDEV_SPOT_PRICE_UNLIMITED as u32,
            number(MaxPrice::Unlimited, &MaxPrice::ALL)
        );
        assert_eq!(
            schedev_spot_price::SCHEDEV_SPOT_PRICE_SUFFICIENT as u32,
            number(MaxPrice::Sufficient, &MaxPrice::ALL)
        );
        assert_eq!(
            schedev_spot_price::SCHEDEV_SPOT_PRICE_EXCEEDED as u32,
            number(MaxPrice::Exceeded, &MaxPrice::ALL)
        );
        assert_eq!(MaxPrice::ALL.len(), 3);
        assert_eq!(
            schedev_spot_charges::SCHEDEV_SPOT_PAY_MACHINE_AND_DISKS as u32,
            number(Charges::MachineAndDisks, &Charges::ALL)
        );
        assert_eq!(
            schedev_spot_charges::SCHEDEV_SPOT_PAY_DISKS as u32,
            number(Charges::Disks, &Charges::ALL)
        );
        assert_eq!(
            schedev_spot_charges::SCHEDEV_SPOT_PAY_NOTHING as u32,
            number(Charges::Nothing, &Charges::ALL)
        );
        assert_eq!(Charges::ALL.len(), 3);
        assert_eq!(
            schedev_spot_replacement::SCHEDEV_SPOT_REALLOCATE as u32,
            number(Replacement::Reallocate, &Replacement::ALL)
        );
        assert_eq!(
            schedev_spot_replacement::SCHEDEV_SPOT_RECREATE as u32,
            number(Replacement::Recreate, &Replacement::ALL)
        );
        assert_eq!(Replacement::ALL.len(), 2);
    }

    #[test]
    fn every_transition_is_cores() {
        for (phase, from) in (0..=7).zip(
            core::iter::once(None)
                .chain(Phase::ALL.map(Some))
                .chain([None]),
        ) {
            for (signal, with) in (0..=8).zip(
                core::iter::once(None)
                    .chain(Signal::ALL.map(Some))
                    .chain([None]),
            ) {
                let mut next = 99;
                // SAFETY: the pointer is to a number.
                let status = unsafe { schedev_spot_next_phase(phase, signal, &raw mut next) };
                let expected = match from.zip(with).map(|(from, with)| from.next(with)) {
                    None => (SCHEDEV_ERROR_ARGUMENT, 99),
                    Some(None) => (SCHEDEV_END, 99),
                    Some(Some(to)) => (SCHEDEV_OK, number(to, &Phase::ALL)),
                };
                assert_eq!((status, next), expected, "{phase} {signal}");
            }
        }
        // SAFETY: NULL is refused.
        let status = unsafe { schedev_spot_next_phase(1, 1, core::ptr::null_mut()) };
        assert_eq!(status, SCHEDEV_ERROR_NULL);
    }

    #[test]
    fn evictions_and_states_are_cores() {
        let mut effect = core::mem::MaybeUninit::<schedev_eviction_effect>::uninit();
        let mut evict = |kind, cause, policy| {
            // SAFETY: the pointer is to memory for an effect, which is read if it was written.
            unsafe {
                let status = schedev_spot_eviction(kind, cause, policy, effect.as_mut_ptr());
                (status, (status == SCHEDEV_OK).then(|| effect.assume_init()))
            }
        };
        assert_eq!(evict(1, 2, 1).0, SCHEDEV_END);
        assert_eq!(evict(3, 1, 1).0, SCHEDEV_ERROR_ARGUMENT);
        let stopped = evict(2, 2, 1).1.expect("an effect");
        assert!(stopped.keeps_data_disks.is_on() && stopped.keeps_static_addresses.is_on());
        let deleted = evict(1, 1, 2).1.expect("an effect");
        assert_eq!(
            (deleted.state, deleted.charges, deleted.replacement),
            (3, 3, 2)
        );
        assert!(!deleted.has_keeps_static_addresses.is_on() && !deleted.occupies_cores.is_on());

        let (mut next, mut charges) = (0, 0);
        let mut after = |state, input, price, has_capacity, policy| {
            let has_capacity = Flag::new(has_capacity);
            // SAFETY: the pointers are to numbers.
            let status = unsafe {
                schedev_spot_next_state(
                    state,
                    input,
                    price,
                    has_capacity,
                    policy,
                    &raw mut next,
                    &raw mut charges,
                )
            };
            (status, next, charges)
        };
        assert_eq!(after(0, 1, 1, true, 1), (SCHEDEV_OK, 1, 1));
        assert_eq!(after(1, 2, 3, true, 2), (SCHEDEV_OK, 3, 3));
        assert_eq!(after(2, 3, 2, false, 1).0, SCHEDEV_END);
        assert_eq!(after(9, 3, 2, false, 1).0, SCHEDEV_ERROR_ARGUMENT);
    }
}
