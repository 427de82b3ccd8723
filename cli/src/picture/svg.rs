//! Draws a maintenance as a self-contained SVG file, for light and dark pages.

use std::fmt::Write as _;

use scheduled_events_core::UnixSeconds;

use super::maintenance::{Drawn, Maintenance, Mark, MarkKind};
use crate::output::format::count;
use scheduled_events_replay::markup::Markup;

const WIDTH: f64 = 1200.0;
const LEFT: f64 = 28.0;
const RIGHT: f64 = 1170.0;
const TOP: f64 = 84.0;
const LANE_HEIGHT: f64 = 24.0;
/// The height of a row without its story, and of a line of the story.
const ROW_HEIGHT: f64 = 58.0;
const LINE_HEIGHT: f64 = 16.0;

/// The most characters of a line of a story.
const LINE_MAX: usize = 172;

/// The least distance of two marks. Closer marks are drawn side by side.
const MARK_DISTANCE: f64 = 16.0;

/// The most events that are drawn.
const EVENTS_MAX: usize = 200;

/// The most characters of a description.
const DESCRIPTION_MAX: usize = 90;

/// The most marks of an event that the text below its bar names.
const MARKS_MAX: usize = 12;

/// `NotBefore` is drawn if it is at most this many times the length of the picture ahead. Otherwise
/// an arrow points to it.
const AHEAD_MAX: i64 = 2;

/// The steps of the axis, in seconds.
const STEPS: [i64; 20] = [
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400,
    172_800, 604_800,
];

/// Every colour has a partner of the other theme; shapes and texts carry the meaning as well.
const STYLE: &str = "<style>svg{--paper:#fff;--ink:#1b1b1f;--soft:#5b5b66;--line:#c9c9d1;--wait:#bfd6f6;--run:#b3411d;--mark:#14532d}\
    @media (prefers-color-scheme:dark){svg{--paper:#17171b;--ink:#ececf1;--soft:#a9a9b6;--line:#45454f;--wait:#2f4f7f;\
    --run:#ef8a62;--mark:#86d9a5}}\
    text{font:13px sans-serif;fill:var(--ink)}.h{font-size:20px;font-weight:600}.m{font-weight:600}.s{fill:var(--soft);font-size:12px}.middle{text-anchor:middle}.end{text-anchor:end}\
    .paper{fill:var(--paper)}.grid{stroke:var(--line)}.wait{fill:var(--wait);stroke:var(--soft)}.run{fill:var(--run)}\
    .not{stroke:var(--ink);stroke-width:2;stroke-dasharray:3 3}.mark{fill:var(--mark);stroke:var(--paper)}\
    .bad{fill:var(--paper);stroke:var(--run);stroke-width:2}</style>\n";

/// The picture as a file.
pub(crate) fn draw(maintenance: &Maintenance) -> String {
    let events: Vec<_> = maintenance
        .lanes
        .iter()
        .flat_map(|(_, events)| events)
        .collect();
    let scale = Scale::new(&events);
    let shown = events.len().min(EVENTS_MAX);
    let lanes = count(maintenance.lanes.len(), "machine");
    let mut height = TOP + 60.0;
    let mut left = EVENTS_MAX;
    for (_, lane) in &maintenance.lanes {
        let rows = lane.len().min(left);
        left -= rows;
        height += if rows == 0 { 0.0 } else { LANE_HEIGHT };
        height += lane.iter().take(rows).map(row_height).sum::<f64>();
    }
    let mut svg = Markup::new("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    svg.open(
        "svg",
        &[
            ("xmlns", &"http://www.w3.org/2000/svg"),
            ("viewBox", &format_args!("0 0 {WIDTH} {height}")),
            ("width", &WIDTH),
            ("height", &height),
            ("role", &"img"),
            ("aria-labelledby", &"title desc"),
        ],
    );
    let title = format!("Maintenance of {lanes}, {}", span(scale.from, scale.until));
    svg.element("title", &[("id", &"title")], &title);
    svg.element("desc", &[("id", &"desc")], &description(maintenance));
    svg.raw(STYLE);
    svg.empty(
        "rect",
        &[("class", &"paper"), ("width", &"100%"), ("height", &"100%")],
    );
    label(&mut svg, 16.0, 32.0, "h", &title);
    let more = if shown < events.len() {
        format!("; {} more are not drawn", events.len() - shown)
    } else {
        String::new()
    };
    label(
        &mut svg,
        16.0,
        54.0,
        "s",
        &format!("{}{more}; all times are UTC", count(shown, "event")),
    );
    scale.axis(&mut svg, height - 50.0);
    let mut y = TOP;
    let mut left = EVENTS_MAX;
    for (machine, lane) in maintenance
        .lanes
        .iter()
        .filter(|(_, lane)| !lane.is_empty())
    {
        if left == 0 {
            break;
        }
        svg.open("g", &[]);
        line(&mut svg, "grid", (16.0, y), (RIGHT, y));
        label(&mut svg, 16.0, y + 18.0, "m", machine);
        y += LANE_HEIGHT;
        for event in lane.iter().take(left) {
            bar(&mut svg, &scale, event, y);
            y += row_height(event);
        }
        left -= lane.len().min(left);
        svg.close("g");
    }
    legend(&mut svg, height - 20.0);
    svg.close("svg");
    svg.finish()
}

/// Maps times to positions.
struct Scale {
    from: UnixSeconds,
    until: UnixSeconds,
}

impl Scale {
    fn new(events: &[&Drawn]) -> Self {
        let from = events
            .iter()
            .map(|event| event.announced)
            .min()
            .unwrap_or(UnixSeconds(0));
        let until = events
            .iter()
            .map(|event| event.until())
            .max()
            .unwrap_or(from)
            .max(UnixSeconds(from.0.saturating_add(1)));
        let marks = events
            .iter()
            .flat_map(|event| &event.marks)
            .map(|mark| mark.at);
        let until = marks.fold(until, UnixSeconds::max);
        let length = until.since(from);
        let ahead = UnixSeconds(until.0.saturating_add(length.saturating_mul(AHEAD_MAX)));
        let not_before = events
            .iter()
            .filter_map(|event| event.not_before)
            .filter(|at| *at <= ahead)
            .max();
        Self {
            from,
            until: not_before.map_or(until, |at| at.max(until)),
        }
    }

    fn x(&self, at: UnixSeconds) -> f64 {
        #[allow(clippy::cast_precision_loss)] // A position on the paper.
        let share = at.since(self.from) as f64 / self.until.since(self.from).max(1) as f64;
        // A tenth of a pixel is enough.
        ((LEFT + (RIGHT - LEFT) * share.clamp(0.0, 1.0)) * 10.0).round() / 10.0
    }

    fn axis(&self, svg: &mut Markup, bottom: f64) {
        let length = self.until.since(self.from);
        let step = STEPS
            .into_iter()
            .find(|step| length / step <= 8)
            .unwrap_or(length / 8);
        let mut at = UnixSeconds(
            self.from
                .0
                .div_euclid(step)
                .saturating_add(1)
                .saturating_mul(step),
        );
        while at <= self.until {
            let x = self.x(at);
            line(svg, "grid", (x, TOP - 6.0), (x, bottom));
            let text = if step < 86_400 { clock(at) } else { date(at) };
            label(svg, x, TOP - 10.0, "s middle", &text);
            at = UnixSeconds(at.0.saturating_add(step));
        }
    }
}

/// An event: its heading, its bar with marks, and its story.
fn bar(svg: &mut Markup, scale: &Scale, event: &Drawn, y: f64) {
    let members = &event.members;
    let word = |word: &Option<String>| word.clone().unwrap_or_else(|| "unknown".to_owned());
    let mut heading = format!(
        "{} by {}",
        word(&members.event_type),
        word(&members.event_source)
    );
    if let Some(seconds) = members.duration_in_seconds {
        let _ = write!(heading, ", {seconds} s");
    }
    if let Some(text) = members
        .description
        .as_deref()
        .filter(|text| !text.is_empty())
    {
        let cut: String = text.chars().take(DESCRIPTION_MAX).collect();
        let _ = write!(
            heading,
            ": {cut}{}",
            if cut.len() < text.len() { "…" } else { "" }
        );
    }
    svg.open("g", &[]);
    svg.element(
        "title",
        &[],
        &format_args!("{heading} ({})", members.event_id),
    );
    label(svg, LEFT, y + 14.0, "", &heading);
    let id: String = members.event_id.chars().take(36).collect();
    label(svg, RIGHT, y + 14.0, "s end", &id);
    let top = y + 22.0;
    let started = event.started.unwrap_or(event.until());
    let mut part = |class: &str, from: UnixSeconds, until: UnixSeconds| {
        let (x, end) = (scale.x(from), scale.x(until));
        let (width, inset) = ((end - x).max(2.0), if class == "run" { 0.0 } else { 4.0 });
        rect(svg, class, (x, top + inset), (width, 20.0 - 2.0 * inset));
    };
    part("wait", event.announced, started);
    if event.started.is_some() {
        part("run", started, event.until());
    }
    if let Some(at) = event.not_before {
        let x = scale.x(at);
        line(svg, "not", (x, top - 3.0), (x, top + 23.0));
        if at > scale.until {
            label(svg, x + 6.0, top + 15.0, "", "→");
        }
    }
    let mut free = 0.0_f64;
    for mark in &event.marks {
        let x = scale.x(mark.at).max(free);
        // Marks side by side may not fit. The story has their number.
        if x > RIGHT {
            break;
        }
        free = x + MARK_DISTANCE;
        let class = if has_succeeded(mark) { "mark" } else { "bad" };
        let title = format!("{} {}", clock(mark.at), step(mark));
        point(svg, class, mark.kind, x, top + 10.0, Some(&title));
    }
    let mut line_y = y + 60.0;
    for line in lines(event) {
        label(svg, LEFT, line_y, "s", &line);
        line_y += LINE_HEIGHT;
    }
    svg.close("g");
}

/// The course of an event, in the order of time.
fn story(event: &Drawn) -> Vec<String> {
    let mut steps: Vec<(UnixSeconds, String)> = Vec::new();
    let mut add = |at: UnixSeconds, step: String| {
        let index = steps
            .iter()
            .position(|(other, _)| *other > at)
            .unwrap_or(steps.len());
        steps.insert(index, (at, step));
    };
    if event.started != Some(event.announced) {
        let word = if event.is_advice() {
            "advised"
        } else {
            "announced"
        };
        add(event.announced, word.to_owned());
    }
    if let Some(at) = event.started {
        add(at, "started".to_owned());
    }
    for mark in event.marks.iter().take(MARKS_MAX) {
        add(mark.at, step(mark));
    }
    if let Some((at, change)) = event.ended {
        add(at, change.word().to_owned());
    }
    let mut story: Vec<_> = steps
        .into_iter()
        .map(|(at, step)| format!("{} {step}", clock(at)))
        .collect();
    if let Some(more) = event
        .marks
        .len()
        .checked_sub(MARKS_MAX)
        .filter(|more| *more > 0)
    {
        story.push(format!("and {more} more"));
    }
    story.extend(
        event
            .not_before
            .map(|at| format!("NotBefore {}", clock(at))),
    );
    story
}

/// The whole picture in words, for readers who cannot see it.
fn description(maintenance: &Maintenance) -> String {
    let mut text = String::new();
    for (machine, events) in &maintenance.lanes {
        for event in events.iter().take(EVENTS_MAX) {
            let kind = event.members.event_type.as_deref().unwrap_or("event");
            let _ = write!(
                text,
                "{machine}: {kind} {}: {}. ",
                event.members.event_id,
                story(event).join(SEPARATOR)
            );
        }
    }
    text
}

fn legend(svg: &mut Markup, y: f64) {
    let mut x = 16.0;
    svg.open("g", &[("aria-hidden", &true)]);
    for (class, text) in [("wait", "Scheduled"), ("run", "Started")] {
        rect(svg, class, (x, y - 12.0), (26.0, 14.0));
        label(svg, x + 32.0, y, "s", text);
        x += 110.0;
    }
    line(svg, "not", (x, y - 14.0), (x, y + 4.0));
    label(svg, x + 10.0, y, "s", "NotBefore");
    x += 100.0;
    for kind in [
        MarkKind::Prepared,
        MarkKind::Gate,
        MarkKind::Approved,
        MarkKind::Recovered,
        MarkKind::Rescheduled,
    ] {
        point(svg, "mark", kind, x + 8.0, y - 5.0, None);
        label(svg, x + 22.0, y, "s", verb(kind));
        x += 112.0;
    }
    point(svg, "bad", MarkKind::Approved, x + 8.0, y - 5.0, None);
    label(svg, x + 22.0, y, "s", "hollow: not successful");
    svg.close("g");
}

const fn verb(kind: MarkKind) -> &'static str {
    match kind {
        MarkKind::Prepared => "prepared",
        MarkKind::Gate => "gate",
        MarkKind::Approved => "approved",
        MarkKind::Recovered => "recovered",
        MarkKind::Rescheduled => "rescheduled",
    }
}

/// An action and its result: `not approved (status 503)`.
fn step(mark: &Mark) -> String {
    let not = if has_succeeded(mark) || mark.kind == MarkKind::Gate {
        ""
    } else {
        "not "
    };
    format!("{not}{} ({})", verb(mark.kind), mark.result)
}

fn has_succeeded(mark: &Mark) -> bool {
    mark.kind == MarkKind::Rescheduled
        || matches!(
            mark.result.as_str(),
            "ready" | "done" | "open" | "status 200"
        )
}

/// A shape around a point: a triangle, a square, a diamond, a triangle that points down, an
/// hourglass.
fn point(svg: &mut Markup, class: &str, kind: MarkKind, x: f64, y: f64, title: Option<&str>) {
    let rest = match kind {
        MarkKind::Prepared => "m0-8l8 14h-16z",
        MarkKind::Gate => "m-6-6h12v12h-12z",
        MarkKind::Approved => "m0-9l9 9l-9 9l-9-9z",
        MarkKind::Recovered => "m0 8l8-14h-16z",
        MarkKind::Rescheduled => "m-7-7h14l-14 14h14z",
    };
    svg.open(
        "path",
        &[("class", &class), ("d", &format_args!("M{x} {y}{rest}"))],
    );
    if let Some(title) = title {
        svg.element("title", &[], &title);
    }
    svg.close("path");
}

fn line(svg: &mut Markup, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
    svg.empty(
        "line",
        &[
            ("class", &class),
            ("x1", &x1),
            ("y1", &y1),
            ("x2", &x2),
            ("y2", &y2),
        ],
    );
}

fn rect(svg: &mut Markup, class: &str, (x, y): (f64, f64), (width, height): (f64, f64)) {
    svg.empty(
        "rect",
        &[
            ("class", &class),
            ("x", &x),
            ("y", &y),
            ("width", &width),
            ("height", &height),
            ("rx", &3),
        ],
    );
}

fn label(svg: &mut Markup, x: f64, y: f64, class: &str, text: &str) {
    svg.element("text", &[("class", &class), ("x", &x), ("y", &y)], &text);
}

/// The height of an event's row.
fn row_height(event: &Drawn) -> f64 {
    u32::try_from(lines(event).len()).map_or(0.0, f64::from) * LINE_HEIGHT + ROW_HEIGHT
}

/// An event's story in lines that fit.
fn lines(event: &Drawn) -> Vec<String> {
    let mut lines = vec![String::new()];
    for step in story(event) {
        match lines.last_mut() {
            Some(line) if line.is_empty() => *line = step,
            Some(line) if line.chars().count() + step.chars().count() < LINE_MAX => {
                *line += SEPARATOR;
                *line += &step;
            }
            _ => lines.push(step),
        }
    }
    lines
}

const SEPARATOR: &str = " · ";

/// The time of day: `22:26:58`.
fn clock(at: UnixSeconds) -> String {
    at.to_string()
        .split_once('T')
        .map_or_else(String::new, |(_, time)| {
            time.trim_end_matches('Z').to_owned()
        })
}

fn date(at: UnixSeconds) -> String {
    at.to_string()
        .split('T')
        .next()
        .unwrap_or_default()
        .to_owned()
}

/// The span between two times, with the date where it changes.
fn span(from: UnixSeconds, until: UnixSeconds) -> String {
    match (date(from), date(until)) {
        (one, other) if one == other => format!("{one} {} to {}", clock(from), clock(until)),
        (one, other) => format!("{one} {} to {other} {}", clock(from), clock(until)),
    }
}
