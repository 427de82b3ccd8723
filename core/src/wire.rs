//! What a client sends to the metadata service (`docs/inside/wire.md`, section 1): paths, version and header.
//!
//! The command, the C header and the Python module take these from here.
//!
//! ```
//! use scheduled_events_core::wire;
//!
//! let url = format!("{}{}?api-version={}", wire::ENDPOINT, wire::PATH, wire::API_VERSION);
//! assert_eq!(url, "http://169.254.169.254/metadata/scheduledevents?api-version=2020-07-01");
//! ```

/// The address of the metadata service on every Azure virtual machine in a virtual network, without a path.
pub const ENDPOINT: &str = "http://169.254.169.254";

/// The path of the document, for GET, and of approvals, for POST. `?api-version=` and a version follow.
pub const PATH: &str = "/metadata/scheduledevents";

/// The newest API version that is generally available.
pub const API_VERSION: &str = "2020-07-01";

/// The API version from which on documents have advice, in preview: not every service knows it.
pub const ADVICE_API_VERSION: &str = "2024-07-09";

/// The oldest API version, whose resource names start with an underscore: `_web_0` for the machine `web_0`.
pub const UNDERSCORED_API_VERSION: &str = "2017-03-01";

/// The path and the query of the machine's own name, as the `Resources` of its events spell it: one line of text.
pub const NAME_PATH: &str = "/metadata/instance/compute/name?api-version=2021-02-01&format=text";

/// The path and the query of the machine's `vmId`, which a clone of its disk does not share: one line of text.
pub const VM_ID_PATH: &str = "/metadata/instance/compute/vmId?api-version=2021-02-01&format=text";

/// The name of the header that every request needs.
pub const HEADER_NAME: &str = "Metadata";

/// The value of that header.
pub const HEADER_VALUE: &str = "true";
