//! The one boundary that every entry point passes.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::status::schedev_status;

/// What an entry point's body comes to; `Err` carries the end of an iteration too.
pub(crate) type Result<T = ()> = core::result::Result<T, schedev_status>;

/// Runs an entry point's body. A panic, which core promises not to have, ends here and not in C.
///
/// What the body has changed when it panics stays behind as it is. That is memory-safe, since nothing here relies on
/// more than Rust's own guarantees, and the status tells the caller to start the object anew.
pub(crate) fn boundary(body: impl FnOnce() -> Result) -> schedev_status {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => schedev_status::SCHEDEV_OK,
        Ok(Err(status)) => status,
        Err(panic) => {
            // Dropping the payload could panic again; it is never more than a message.
            core::mem::forget(panic);
            schedev_status::SCHEDEV_ERROR_INTERNAL
        }
    }
}

/// The same for functions that return a value: `otherwise` where the body fails.
pub(crate) fn value_boundary<T>(otherwise: T, body: impl FnOnce() -> Result<T>) -> T {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(value)) => value,
        Ok(Err(_)) => otherwise,
        Err(panic) => {
            core::mem::forget(panic);
            otherwise
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_a_status() {
        assert_eq!(boundary(|| panic!("on purpose")), schedev_status::SCHEDEV_ERROR_INTERNAL);
        assert_eq!(value_boundary(7, || panic!("on purpose")), 7);
        assert_eq!(boundary(|| Err(schedev_status::SCHEDEV_END)), schedev_status::SCHEDEV_END);
    }
}
