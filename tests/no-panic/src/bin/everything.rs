//! Calls every public function of core. On an operating system, exit status 0 means that the results are as expected.
#![cfg_attr(panic = "abort", no_std, no_main)]

use core::hint::black_box;

use bare::{NOW, SAMPLE, approve, parse, session, the_rest};

include!("../start.rs");

fn run() -> bool {
    let names = black_box(&["westno_0"]);
    let sample = black_box(SAMPLE);
    #[cfg(feature = "deliberate-panic")]
    bare::panic_on_purpose(sample, black_box(NOW.0));
    for (text, number) in [
        ("", 0),
        ("2018-04-12T16:58:30.1458776Z", -1),
        ("\u{e9}\"\\", i64::MIN),
        ("b", i64::MAX),
    ] {
        the_rest(sample, black_box(text), names, black_box(number));
        the_rest(
            black_box(text).as_bytes(),
            black_box(text),
            names,
            black_box(number),
        );
    }
    parse(sample)
        && approve(sample, names, black_box(NOW))
        && session(sample, names, black_box(NOW))
}
