//! Timing in turns: every call is timed in every round, in rotating order, so that disturbances affect all alike.

use std::hint::black_box;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Rounds of a measurement: an odd number, so that the median is a measured value.
pub const ROUNDS: usize = 45;

/// A call to time. Its result is unused, but has to be computed.
pub type Timed<'a> = Box<dyn FnMut() -> u64 + 'a>;

/// Nanoseconds per call: for each timed call, one value a round.
pub struct Times(Vec<Vec<f64>>);

impl Times {
    /// The median time of one call, in nanoseconds.
    pub fn median(&self, index: usize) -> f64 {
        median(self.0[index].clone())
    }

    /// How many times longer one call takes than another: the median of the rounds' ratios.
    pub fn ratio(&self, index: usize, to: usize) -> f64 {
        median(
            self.0[index]
                .iter()
                .zip(&self.0[to])
                .map(|(one, other)| one / other)
                .collect(),
        )
    }
}

/// Times all calls. Together they take about `budget`, or one call each in every round if that is longer.
pub fn take_turns(timed: &mut [Timed<'_>], budget: Duration) -> Times {
    let slice = budget.as_nanos() as f64 / (ROUNDS * timed.len().max(1)) as f64;
    // The first calls warm caches and branch predictors, and show how many calls fill a slice.
    let calls: Vec<u32> = timed
        .iter_mut()
        .map(|call| {
            let mut calls = 1;
            loop {
                let one = time(call, calls);
                if one * f64::from(calls) >= slice / 4.0 || calls >= 1 << 20 {
                    return (slice / one.max(1.0)).clamp(1.0, 1e6) as u32;
                }
                calls *= 4;
            }
        })
        .collect();
    let mut all = vec![Vec::with_capacity(ROUNDS); timed.len()];
    for round in 0..ROUNDS {
        for turn in 0..timed.len() {
            let index = (turn + round) % timed.len();
            all[index].push(time(&mut timed[index], calls[index]));
        }
    }
    Times(all)
}

/// Nanoseconds per call, in processor time of this thread: other programs do not count.
fn time(call: &mut Timed<'_>, calls: u32) -> f64 {
    let begun = processor_time();
    for _ in 0..calls {
        black_box(call());
    }
    processor_time().saturating_sub(begun).as_nanos() as f64 / f64::from(calls)
}

fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(
        time.tv_sec.try_into().unwrap_or_default(),
        time.tv_nsec.try_into().unwrap_or_default(),
    )
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
