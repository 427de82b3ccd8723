//! Links what an agent with its own loop needs: reader, tracker, policy, approval.
#![cfg_attr(panic = "abort", no_std, no_main)]

use core::hint::black_box;

include!("../start.rs");

fn run() -> bool {
    bare::approve(
        black_box(bare::SAMPLE),
        black_box(&["westno_0"]),
        black_box(bare::NOW),
    )
}
