//! An empty program, whose size is subtracted from the others'.
#![cfg_attr(panic = "abort", no_std, no_main)]

use core::hint::black_box;

include!("../start.rs");

fn run() -> bool {
    black_box(true)
}
