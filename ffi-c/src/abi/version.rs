//! The version.

use std::ffi::{CStr, c_char};

/// The major version of this header.
pub const SCHEDEV_VERSION_MAJOR: u32 = 0;
/// The minor version of this header.
pub const SCHEDEV_VERSION_MINOR: u32 = 1;
/// The patch version of this header.
pub const SCHEDEV_VERSION_PATCH: u32 = 0;

const VERSION: &CStr =
    match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(version) => version,
        Err(_) => panic!("the version contains a NUL"),
    };

/// Returns the version of the library at run time, such as "0.1.0". SCHEDEV_VERSION_STRING is the version of the header.
///
/// @return a static string.
#[unsafe(no_mangle)]
pub extern "C" fn schedev_version_string() -> *const c_char {
    VERSION.as_ptr()
}

/// Returns the version of the library at run time, as SCHEDEV_VERSION_NUMBER counts it.
///
/// @return 10000 * major + 100 * minor + patch.
#[unsafe(no_mangle)]
pub extern "C" fn schedev_version_number() -> u32 {
    SCHEDEV_VERSION_MAJOR * 10_000 + SCHEDEV_VERSION_MINOR * 100 + SCHEDEV_VERSION_PATCH
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_requests_are_those_of_core() {
        use scheduled_events_core::wire;
        let header = include_str!("../../../include/scheduled_events.h");
        for (name, value) in [
            ("ENDPOINT", wire::ENDPOINT),
            ("PATH", wire::PATH),
            ("API_VERSION", wire::API_VERSION),
            ("ADVICE_API_VERSION", wire::ADVICE_API_VERSION),
            ("NAME_PATH", wire::NAME_PATH),
            ("VM_ID_PATH", wire::VM_ID_PATH),
            ("HEADER_NAME", wire::HEADER_NAME),
            ("HEADER_VALUE", wire::HEADER_VALUE),
        ] {
            assert!(
                header.contains(&format!("#define SCHEDEV_{name} \"{value}\"\n")),
                "{name} is not {value:?}"
            );
        }
    }

    #[test]
    fn the_constants_equal_the_crate_version() {
        let numbers =
            format!("{SCHEDEV_VERSION_MAJOR}.{SCHEDEV_VERSION_MINOR}.{SCHEDEV_VERSION_PATCH}");
        assert_eq!(numbers, env!("CARGO_PKG_VERSION"));
        assert_eq!(VERSION.to_str().unwrap(), env!("CARGO_PKG_VERSION"));
    }
}
