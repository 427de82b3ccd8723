//! Turns: everybody is timed in every round, in an order that rotates, so that what disturbs one disturbs all.

use std::hint::black_box;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Rounds of a measurement: an odd number, so that a median is one that was seen.
pub const ROUNDS: usize = 45;

/// Something that is timed. What it gives is looked at by nobody, but has to be made.
pub type Contender<'a> = Box<dyn FnMut() -> u64 + 'a>;

/// What came out: nanoseconds a call, round by round, for each contender.
pub struct Times(Vec<Vec<f64>>);

impl Times {
    /// The median time of one, in nanoseconds.
    pub fn median(&self, contender: usize) -> f64 {
        median(self.0[contender].clone())
    }

    /// How many times longer one takes than another: the median of what each round says.
    pub fn ratio(&self, contender: usize, to: usize) -> f64 {
        median(self.0[contender].iter().zip(&self.0[to]).map(|(one, other)| one / other).collect())
    }
}

/// Times everybody; all together take about `budget`, or a call each in every round where that is longer.
pub fn take_turns(contenders: &mut [Contender<'_>], budget: Duration) -> Times {
    let slice = budget.as_nanos() as f64 / (ROUNDS * contenders.len().max(1)) as f64;
    // Some calls first: they warm caches and branch predictors, and tell how many calls fill a slice.
    let calls: Vec<u32> = contenders
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
    let mut times = vec![Vec::with_capacity(ROUNDS); contenders.len()];
    for round in 0..ROUNDS {
        for turn in 0..contenders.len() {
            let contender = (turn + round) % contenders.len();
            times[contender].push(time(&mut contenders[contender], calls[contender]));
        }
    }
    Times(times)
}

/// Nanoseconds a call. Processor time of this thread: what other programs take meanwhile does not count.
fn time(call: &mut Contender<'_>, calls: u32) -> f64 {
    let begun = processor_time();
    for _ in 0..calls {
        black_box(call());
    }
    processor_time().saturating_sub(begun).as_nanos() as f64 / f64::from(calls)
}

fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap_or_default(), time.tv_nsec.try_into().unwrap_or_default())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
