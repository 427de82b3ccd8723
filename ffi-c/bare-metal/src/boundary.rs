//! The boundary around every function of the ABI. Nothing can unwind here, so it only converts results.

use crate::status::schedev_status::{self, SCHEDEV_OK};

/// The result of a function's body. `Err` is any status but `SCHEDEV_OK`, the end of an iteration included.
pub(crate) type Result<T = ()> = core::result::Result<T, schedev_status>;

/// Runs the body of a function that returns a status.
pub(crate) fn boundary(body: impl FnOnce() -> Result) -> schedev_status {
    body().err().unwrap_or(SCHEDEV_OK)
}

/// Runs the body of a function that returns a value; the result is `default` if the body fails.
pub(crate) fn value_boundary<T>(default: T, body: impl FnOnce() -> Result<T>) -> T {
    body().unwrap_or(default)
}
