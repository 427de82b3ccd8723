//! Which version this is.

use std::ffi::{CStr, c_char};

/// The major version of this header.
pub const SCHEDEV_VERSION_MAJOR: u32 = 0;
/// The minor version of this header.
pub const SCHEDEV_VERSION_MINOR: u32 = 1;
/// The patch version of this header.
pub const SCHEDEV_VERSION_PATCH: u32 = 0;

const VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
    Ok(version) => version,
    Err(_) => panic!("the version has a NUL"),
};

/// The version of the library that is linked, such as "0.1.0". Compare it with SCHEDEV_VERSION_STRING, the version of
/// the header, where a program is to run with the library that it was compiled for.
///
/// @return a constant text that ends with NUL.
#[unsafe(no_mangle)]
pub extern "C" fn schedev_version_string() -> *const c_char {
    VERSION.as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_constants_are_the_crates_version() {
        let numbers = format!("{SCHEDEV_VERSION_MAJOR}.{SCHEDEV_VERSION_MINOR}.{SCHEDEV_VERSION_PATCH}");
        assert_eq!(numbers, env!("CARGO_PKG_VERSION"));
        assert_eq!(VERSION.to_str().unwrap(), env!("CARGO_PKG_VERSION"));
    }
}
