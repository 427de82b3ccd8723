#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| scheduled_events_fuzz::structured::run(data));

/// Without libFuzzer: runs the target over each file named on the command line.
#[cfg(not(fuzzing))]
fn main() -> std::io::Result<()> {
    std::env::args_os().skip(1).try_for_each(|file| {
        std::fs::read(file).map(|data| scheduled_events_fuzz::structured::run(&data))
    })
}
