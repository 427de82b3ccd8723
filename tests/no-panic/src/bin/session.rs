//! Links the session, and with it all of core.
#![cfg_attr(panic = "abort", no_std, no_main)]

use core::hint::black_box;

include!("../start.rs");

fn run() -> bool {
    bare::session(
        black_box(bare::SAMPLE),
        black_box(&["westno_0"]),
        black_box(bare::NOW),
    )
}
