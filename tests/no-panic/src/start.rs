// How a program starts without std, included by each of them. Where there is an operating system, its C library starts
// it, and lends nothing but memcpy and its like; on bare metal nothing is needed to look at what was linked.

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
