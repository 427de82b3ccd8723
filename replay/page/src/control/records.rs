//! The lines that clients log and post, unchanged.

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use futures_util::StreamExt as _;
use serde_json::{Value, json};

use super::Control;
use super::refusal::Refusal;
use crate::journal::RECORD_MAX;

/// Adds each line of the body to the journal when it arrives. The body may last as long as the
/// client; only a line is limited.
pub(super) async fn post(
    State(control): State<Control>,
    Path((key, machine)): Path<(String, String)>,
    body: Body,
) -> Result<Json<Value>, Refusal> {
    if !control.keys.opens_records(&key) {
        return Err(Refusal(
            StatusCode::UNAUTHORIZED,
            "the key for records is wrong: copy the address from the page".into(),
        ));
    }
    let (mut added, mut refused) = (0_u64, 0_u64);
    let mut line = Vec::new();
    let mut add = |line: &[u8]| {
        if line.iter().all(u8::is_ascii_whitespace) {
            return Ok(());
        }
        let run = control.player.current();
        let Some(number) = run.machine(&machine) else {
            return Err(Refusal(
                StatusCode::NOT_FOUND,
                format!("there is no machine {machine:?}"),
            ));
        };
        if run.journal.record(number, line) {
            added += 1;
        } else {
            refused += 1;
        }
        Ok(())
    };
    let mut chunks = body.into_data_stream();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| Refusal(StatusCode::BAD_REQUEST, error.to_string()))?;
        let mut rest = &chunk[..];
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            // One byte too many is kept of a line that is too long, so that it is refused.
            let part = &rest[..end.min(RECORD_MAX + 1)];
            line.extend_from_slice(part);
            add(&line)?;
            line.clear();
            rest = &rest[end + 1..];
        }
        let free = (RECORD_MAX + 1).saturating_sub(line.len());
        line.extend_from_slice(&rest[..rest.len().min(free)]);
    }
    add(&line)?;
    Ok(Json(json!({"added": added, "refused": refused})))
}
