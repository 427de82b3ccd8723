//! The page's files, which are part of the program. They hold no secret, so they need no token.

/// Path, type and content of each file.
pub(super) const ASSETS: [(&str, &str, &str); 10] = [
    (
        "/",
        "text/html; charset=utf-8",
        include_str!("../../web/index.html"),
    ),
    (
        "/page.css",
        "text/css; charset=utf-8",
        include_str!("../../web/page.css"),
    ),
    (
        "/icon.svg",
        "image/svg+xml",
        include_str!("../../web/icon.svg"),
    ),
    ("/main.js", JAVASCRIPT, include_str!("../../web/main.js")),
    ("/api.js", JAVASCRIPT, include_str!("../../web/api.js")),
    ("/dom.js", JAVASCRIPT, include_str!("../../web/dom.js")),
    ("/model.js", JAVASCRIPT, include_str!("../../web/model.js")),
    (
        "/timeline.js",
        JAVASCRIPT,
        include_str!("../../web/timeline.js"),
    ),
    (
        "/panels.js",
        JAVASCRIPT,
        include_str!("../../web/panels.js"),
    ),
    ("/forms.js", JAVASCRIPT, include_str!("../../web/forms.js")),
];

const JAVASCRIPT: &str = "text/javascript; charset=utf-8";
