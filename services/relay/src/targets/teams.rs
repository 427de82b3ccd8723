//! Microsoft Teams, by a workflow that a webhook starts.
//!
//! A card's `TextRun` has no Markdown, unlike its `TextBlock`.

use std::time::Duration;

use serde_json::{Value, json};

use super::chat::Service;
use crate::message::{details, headline};
use crate::record::Record;
use crate::transport::Outcome;

/// Teams accepts about four messages a second.
pub(super) const TEAMS: Service = Service {
    pause: Duration::from_millis(500),
    message,
    classify,
};

fn message(record: &Record, machine: &str) -> Value {
    let headline = run(&headline(record, machine), true);
    let mut body = vec![json!({ "type": "RichTextBlock", "inlines": [headline] })];
    for (name, value) in details(record) {
        let inlines = [run(&format!("{name}: "), true), run(&value, false)];
        body.push(json!({ "type": "RichTextBlock", "inlines": inlines, "spacing": "None" }));
    }
    let card = json!({
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": body,
    });
    let attachment = json!({
        "contentType": "application/vnd.microsoft.card.adaptive",
        "contentUrl": null,
        "content": card,
    });
    json!({ "type": "message", "attachments": [attachment] })
}

/// The older connectors, which workflows replace, answer with 200 and an error in the body.
fn classify(status: u16, body: &str) -> Option<Outcome> {
    let failed = status == 200 && body.contains("Microsoft Teams endpoint returned HTTP error");
    failed.then(|| {
        Outcome::Later(
            "Teams answers that it could not deliver the message".to_owned(),
            None,
        )
    })
}

fn run(text: &str, is_bold: bool) -> Value {
    // Some elements of cards replace `{{DATE(…)}}` and `{{TIME(…)}}`.
    let text = text.replace("{{", "{ {");
    json!({ "type": "TextRun", "text": text, "weight": if is_bold { "Bolder" } else { "Default" } })
}
