//! Serves the control: the answers to its requests.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::rejection::{BytesRejection, JsonRejection, QueryRejection};
use axum::extract::{DefaultBodyLimit, Query, State};
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use axum::{Json, Router, middleware};
use scheduled_events_replay::verdict::report::ReportFormat;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::assets::ASSETS;
use super::refusal::Refusal;
use super::{Control, connections, guard, records};
use crate::action::Action;
use crate::run::Run;
use crate::settings::from_file;
use crate::{catalog, verdicts};

/// The longest body of a request, in bytes: of a file, an action, which may include the scenario of
/// a file, or a ticket.
const BODY_MAX: usize = 16 << 20;
const TICKET_MAX: usize = 1 << 10;

/// How long a ticket may take to arrive.
const TICKET_WAIT: Duration = Duration::from_secs(15);

/// How long a request waits for new entries. Proxies and browsers give up later.
const UPDATES_WAIT: Duration = Duration::from_secs(50);

/// How long new entries are collected, so that a busy run sends ten answers a second.
const UPDATES_DELAY: Duration = Duration::from_millis(100);

impl Control {
    /// Serves until `stopped` ends.
    pub(crate) async fn serve(self, listener: TcpListener, stopped: impl Future<Output = ()>) {
        // The program does not wait for requests that wait for new entries.
        tokio::select! {
            () = connections::serve(listener, router(self)) => {}
            () = stopped => {}
        }
    }
}

fn router(control: Control) -> Router {
    let api = Router::new()
        .route("/api/catalog", get(|| async { Json(catalog::catalog()) }))
        .route("/api/run", get(describe))
        .route("/api/updates", get(updates))
        .route("/api/verdicts", get(all_verdicts))
        .route("/api/verdict", get(verdict))
        .route("/api/action", post(action))
        .route("/api/played", get(played))
        .route("/api/report", get(report))
        .route("/api/recording", post(recording))
        .route_layer(middleware::from_fn_with_state(
            control.clone(),
            guard::check_token,
        ));
    let ticket_in_time = middleware::from_fn_with_state(TICKET_WAIT, guard::in_time);
    let mut router = Router::new()
        .merge(api)
        .route(
            "/api/token",
            post(token)
                .layer(DefaultBodyLimit::max(TICKET_MAX))
                .layer(ticket_in_time),
        )
        .route(
            "/records/{key}/{machine}",
            put(records::post).post(records::post),
        );
    for (path, content_type, content) in ASSETS {
        let answer = move || async move { ([(CONTENT_TYPE, content_type)], content) };
        router = router.route(path, get(answer));
    }
    router
        .layer(DefaultBodyLimit::max(BODY_MAX))
        .layer(middleware::from_fn_with_state(
            control.clone(),
            guard::check_address,
        ))
        .with_state(control)
}

fn refused(message: impl std::fmt::Display) -> Refusal {
    Refusal(StatusCode::UNPROCESSABLE_ENTITY, format!("{message}"))
}

#[derive(Deserialize)]
struct Ticket {
    ticket: String,
}

async fn token(
    State(control): State<Control>,
    body: Result<Json<Ticket>, JsonRejection>,
) -> Result<Json<Value>, Refusal> {
    let Json(Ticket { ticket }) = body.map_err(refused)?;
    let token = control.keys.exchange(&ticket);
    let message =
        "this link opens the page once, and was used: open the link that the program printed";
    token
        .map(|token| Json(json!({"token": token})))
        .ok_or_else(|| Refusal(StatusCode::UNAUTHORIZED, message.to_owned()))
}

/// Describes the run: settings, machines, and where clients post their log lines.
async fn describe(State(control): State<Control>) -> Json<Value> {
    let run = control.player.current();
    let records = format!(
        "http://{}/records/{}/",
        control.keys.authority(),
        control.keys.records()
    );
    let machines: Vec<_> = run
        .server
        .machines()
        .iter()
        .map(|machine| json!({"name": machine.name, "url": machine.url()}))
        .collect();
    Json(json!({
        "run": run.number,
        "settings": run.settings,
        "about": run.scenario.about,
        "machines": machines,
        "control_plane": run.server.control_plane(),
        "queue": run.server.queue().map(ToString::to_string),
        "records": records,
    }))
}

#[derive(Deserialize)]
struct UpdatesQuery {
    run: u64,
    after: u64,
    /// Whether to wait if there is nothing new.
    wait: bool,
}

/// The entries after those that the page has. Waits until there are some.
async fn updates(
    State(control): State<Control>,
    query: Result<Query<UpdatesQuery>, QueryRejection>,
) -> Result<Json<Value>, Refusal> {
    let Query(UpdatesQuery {
        run: number,
        after,
        wait,
    }) = query.map_err(refused)?;
    let journal = {
        // A run that waits here must not keep its server.
        let run = control.player.current();
        (wait && run.number == number).then(|| Arc::clone(&run.journal))
    };
    if let Some(journal) = journal {
        tokio::select! {
            () = journal.wait(after) => tokio::time::sleep(UPDATES_DELAY).await,
            () = control.player.next_run(number) => {}
            () = tokio::time::sleep(UPDATES_WAIT) => {}
        }
    }
    let run = control.player.current();
    let after = if run.number == number { after } else { 0 };
    let (entries, next) = run.journal.after(after);
    Ok(Json(json!({
        "run": run.number,
        "after": after,
        "next": next,
        "dropped": run.journal.dropped(),
        "status": status(&run),
        "entries": entries,
    })))
}

fn status(run: &Run) -> Value {
    let status = run.server.status();
    let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    json!({
        "now": ms(run.journal.now()),
        "started": status.has_started,
        "paused": status.is_paused,
        "finished": status.is_finished,
        "speed": status.speed,
        "scenario_time": ms(status.scenario_time),
        "next_change": status.next_change.map(ms),
    })
}

async fn all_verdicts(State(control): State<Control>) -> Json<Value> {
    Json(verdicts::summaries(&control.player.current()))
}

#[derive(Deserialize)]
struct OfMachine {
    machine: usize,
}

async fn verdict(
    State(control): State<Control>,
    query: Result<Query<OfMachine>, QueryRejection>,
) -> Result<Json<Value>, Refusal> {
    let Query(OfMachine { machine }) = query.map_err(refused)?;
    let run = control.player.current();
    if machine >= run.server.machines().len() {
        return Err(refused(format!("there is no machine {machine}")));
    }
    Ok(Json(verdicts::details(&run, machine)))
}

async fn action(
    State(control): State<Control>,
    action: Result<Json<Action>, JsonRejection>,
) -> Result<Json<Value>, Refusal> {
    let Json(action) = action.map_err(refused)?;
    // A new run may wait for threads and addresses.
    let done = tokio::task::spawn_blocking(move || action.apply(&control.player)).await;
    done.map_err(|error| Refusal(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?
        .map_err(refused)?;
    Ok(Json(json!({})))
}

/// The played scenario, as a scenario file.
async fn played(State(control): State<Control>) -> Response {
    let run = control.player.current();
    let mut text = String::from(
        "# Played by `scheduled-events-page`. Its faults are no part of the file; as options:\n",
    );
    for (number, machine) in run.server.machines().iter().enumerate() {
        for fault in run.server.faults(number) {
            let _ = writeln!(
                text,
                "# --fault {fault} ({})",
                machine.name.escape_default()
            );
        }
    }
    // Writing to a string does not fail.
    let _ = writeln!(
        text,
        "# --seed {} gives the same EventIds.",
        run.settings.seed
    );
    text += &run.server.played(&run.scenario).to_toml();
    download("application/toml", "scenario.toml", text)
}

#[derive(Deserialize)]
struct Format {
    format: String,
}

async fn report(
    State(control): State<Control>,
    query: Result<Query<Format>, QueryRejection>,
) -> Result<Response, Refusal> {
    let Query(Format { format }) = query.map_err(refused)?;
    let name = format!("report.{format}");
    let Some(known) = ReportFormat::of(name.as_ref()) else {
        return Err(refused(format!(
            "found the format {format:?}, expected xml, ndjson or html"
        )));
    };
    let content_type = match known {
        ReportFormat::Junit => "application/xml",
        ReportFormat::Ndjson => "application/x-ndjson",
        ReportFormat::Html => "text/html; charset=utf-8",
    };
    Ok(download(
        content_type,
        &name,
        verdicts::report(&control.player.current(), known),
    ))
}

/// The text of a scenario for a file that the user loads: a scenario file, or a recorded audit
/// file.
async fn recording(body: Result<Bytes, BytesRejection>) -> Result<String, Refusal> {
    let body = body.map_err(|error| match error.status() {
        StatusCode::PAYLOAD_TOO_LARGE => refused(format!(
            "the file is larger than {} MiB: load a part of it, or start the program with its path",
            BODY_MAX >> 20
        )),
        _ => refused(error),
    })?;
    let text = std::str::from_utf8(&body)
        .map_err(|error| refused(format!("the file is not UTF-8: {error}")))?;
    from_file(text).map_err(refused)
}

fn download(content_type: &'static str, name: &str, text: String) -> Response {
    let disposition = HeaderValue::from_str(&format!("attachment; filename=\"{name}\""));
    let disposition = disposition.unwrap_or_else(|_| HeaderValue::from_static("attachment"));
    (
        [
            (CONTENT_TYPE, HeaderValue::from_static(content_type)),
            (CONTENT_DISPOSITION, disposition),
        ],
        text,
    )
        .into_response()
}
