//! The panic boundary around every function of the ABI.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::status::schedev_status::{self, SCHEDEV_ERROR_INTERNAL, SCHEDEV_OK};

/// The result of a function's body. `Err` is any status but `SCHEDEV_OK`, the end of an iteration included.
pub(crate) type Result<T = ()> = core::result::Result<T, schedev_status>;

/// Runs the body of a function that returns a status. A panic becomes `SCHEDEV_ERROR_INTERNAL`.
///
/// Core does not panic; this is the second line of defence, because a panic must not unwind into C. An object that was
/// being changed stays valid Rust, with unspecified contents: the status asks the caller to initialise it again.
pub(crate) fn boundary(body: impl FnOnce() -> Result) -> schedev_status {
    value_boundary(SCHEDEV_ERROR_INTERNAL, || {
        Ok(body().err().unwrap_or(SCHEDEV_OK))
    })
}

/// Runs the body of a function that returns a value; the result is `default` if the body fails or panics.
pub(crate) fn value_boundary<T>(default: T, body: impl FnOnce() -> Result<T>) -> T {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(value)) => value,
        Ok(Err(_)) => default,
        Err(panic) => {
            // Dropping the payload could panic again. It is at most a message.
            core::mem::forget(panic);
            default
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_a_status() {
        assert_eq!(boundary(|| panic!("on purpose")), SCHEDEV_ERROR_INTERNAL);
        assert_eq!(value_boundary(7, || panic!("on purpose")), 7);
    }

    #[test]
    fn an_error_is_the_result() {
        assert_eq!(
            boundary(|| Err(schedev_status::SCHEDEV_END)),
            schedev_status::SCHEDEV_END
        );
        assert_eq!(value_boundary(7, || Err(schedev_status::SCHEDEV_END)), 7);
        assert_eq!(boundary(|| Ok(())), SCHEDEV_OK);
    }
}
