//! Slack, by an incoming webhook.
//!
//! Event text is in blocks of plain text, in which Slack reads no markup and no mentions. The
//! characters that have a meaning everywhere in Slack are escaped in addition.

use std::time::Duration;

use serde_json::{Value, json};

use super::chat::Service;
use crate::message::{details, headline};
use crate::record::Record;

/// Slack accepts about one message a second.
pub(super) const SLACK: Service = Service {
    pause: Duration::from_secs(1),
    message,
    classify: |_, _| None,
};

/// The longest text of a block, in characters. Slack's limit is 3000.
const TEXT_MAX: usize = 2900;

fn message(record: &Record, machine: &str) -> Value {
    let headline = escape(&headline(record, machine));
    let lines: Vec<_> = details(record)
        .iter()
        .map(|(name, value)| format!("{name}: {value}"))
        .collect();
    let mut blocks = vec![json!({ "type": "section", "text": plain_text(&headline) })];
    if !lines.is_empty() {
        let text = plain_text(&escape(&lines.join("\n")));
        blocks.push(json!({ "type": "context", "elements": [text] }));
    }
    // Notifications show `text`.
    json!({ "text": headline, "blocks": blocks, "unfurl_links": false, "unfurl_media": false })
}

fn plain_text(text: &str) -> Value {
    // A truncated escape would only be shown literally.
    let text: String = text.chars().take(TEXT_MAX).collect();
    json!({ "type": "plain_text", "text": text, "emoji": false })
}

/// Escapes the characters that begin and end links and mentions.
fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
