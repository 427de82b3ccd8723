//! The frame that every other program has, too: to be subtracted from their sizes.
#![no_std]
#![no_main]

use core::hint::black_box;

include!("../start.rs");

fn run() -> bool {
    black_box(true)
}
