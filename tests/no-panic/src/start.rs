// The entry point and panic handler of each program, included by all of them. With the profile `bare`, which aborts on a panic, std
// is not linked: on an operating system the C library starts the program and provides memcpy and similar functions; on bare metal
// the programs are only linked, never run. With other profiles each is an ordinary program, so that it is compiled with everything
// else.

#[cfg(not(panic = "abort"))]
fn main() -> std::process::ExitCode {
    std::process::ExitCode::from(u8::from(!run()))
}

#[cfg(all(panic = "abort", not(target_os = "none")))]
#[link(name = "c")]
unsafe extern "C" {}

#[cfg(all(panic = "abort", not(target_os = "none")))]
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

#[cfg(panic = "abort")]
#[panic_handler]
fn panicked(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        core::hint::spin_loop();
    }
}
