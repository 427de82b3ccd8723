//! Links only the reader: document, events, problems.
#![cfg_attr(panic = "abort", no_std, no_main)]

use core::hint::black_box;

include!("../start.rs");

fn run() -> bool {
    bare::parse(black_box(bare::SAMPLE))
}
