// The entry point and panic handler of each program, included by all of them. On an operating system the C library starts
// the program and provides memcpy and similar functions. On bare metal the programs are only linked, never run.

#[cfg(not(target_os = "none"))]
#[link(name = "c")]
unsafe extern "C" {}

#[cfg(not(target_os = "none"))]
#[unsafe(no_mangle)]
extern "C" fn main() -> i32 {
    i32::from(!run())
}

#[cfg(target_os = "none")]
#[unsafe(no_mangle)]
extern "C" fn _start() -> ! {
    core::hint::black_box(run());
    loop {
        core::hint::spin_loop();
    }
}

#[panic_handler]
fn panicked(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}
