// The timeline: a lane for each machine. It draws only the visible part, so that a thousand events
// or machines cost no more than few.

import { h, names, s, time } from "./dom.js";

const LABEL = 140; // the width of the names
const AXIS = 24; // the height of the times
const TICKS = 16; // the height of the polls and marks of a lane
const TRACK = 20; // the height of an event
const GAP = 8;

export class Timeline {
  constructor(element, { onSelect, verdict }) {
    Object.assign(this, { element, onSelect, verdict, range: 0, model: null, selected: null, version: -1 });
    this.svg = s("svg", { role: "none" });
    this.spacer = h("div", { role: "none" });
    element.append(this.svg, this.spacer);
    element.addEventListener("scroll", () => this.schedule());
    element.addEventListener("keydown", (event) => this.key(event));
    element.addEventListener("click", (event) => {
      const option = event.target.closest("[role=option]");
      if (option) this.select(this.items().find((item) => item.key === option.id));
    });
    new ResizeObserver(() => this.schedule()).observe(element);
  }

  show(model) {
    Object.assign(this, { model, selected: null, version: -1 });
    this.element.scrollTop = 0;
    this.schedule();
  }

  // Draws once before the next frame; a hidden page draws nothing.
  schedule() {
    this.pending ??= requestAnimationFrame(() => {
      this.pending = null;
      if (this.model) this.draw();
    });
  }

  // The position of each lane and each event. It changes only when events do.
  layout() {
    if (this.version === this.model.version) return;
    this.version = this.model.version;
    let top = 0;
    for (const lane of this.model.lanes) {
      const free = [];
      lane.tracks = new Map();
      for (const event of lane.events) {
        let track = free.findIndex((end) => end <= event.announced);
        if (track < 0) track = free.length;
        free[track] = event.ended ?? Infinity;
        lane.tracks.set(event, track);
      }
      lane.top = top;
      lane.height = TICKS + Math.max(free.length, 1) * TRACK + GAP;
      top += lane.height;
    }
    this.height = top;
  }

  // The visible range of time.
  span() {
    const { model } = this;
    const isMoving = model.status.started && !model.status.finished;
    const now = isMoving ? model.now() : model.end;
    if (this.range) return [Math.max(0, now - this.range * 1000), Math.max(now, this.range * 1000) * 1.0 + this.range * 20, now];
    let end = Math.max(now, model.end, 5_000);
    for (const event of model.events.values()) {
      if (!event.ended && !event.started && event.notBefore) end = Math.max(end, event.notBefore);
    }
    return [0, end * 1.03, now];
  }

  draw() {
    this.layout();
    const { element, svg, model } = this;
    const width = Math.max(element.clientWidth, 320);
    const full = this.height + AXIS;
    const height = Math.min(full, parseFloat(getComputedStyle(element).maxHeight) || 400);
    svg.setAttribute("width", width);
    svg.setAttribute("height", height);
    this.spacer.style.height = `${full - height}px`;
    const [from, to, now] = this.span();
    const x = (at) => LABEL + ((Math.min(Math.max(at, from), to) - from) / (to - from)) * (width - LABEL - 10);
    const scroll = element.scrollTop;
    const children = [];
    for (const lane of model.lanes) {
      const top = AXIS + lane.top - scroll;
      if (top + lane.height < AXIS || top > height) continue;
      children.push(this.lane(lane, top, { x, from, to, now, width, height }));
    }
    const isOn = model.status.started && !model.status.finished;
    if (isOn) children.push(s("line", { class: "now", x1: x(now), x2: x(now), y1: AXIS, y2: height }));
    children.push(this.axis(x, from, to, width));
    svg.replaceChildren(...children);
    const active = this.selected && svg.querySelector(`#${CSS.escape(this.selected.key)}`);
    if (active) element.setAttribute("aria-activedescendant", active.id);
    else element.removeAttribute("aria-activedescendant");
  }

  axis(x, from, to, width) {
    const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 86400].map((step) => step * 1000);
    const step = steps.find((it) => (to - from) / it <= (width - LABEL) / 70) ?? steps.at(-1);
    const axis = s("g", { "aria-hidden": "true" }, s("rect", { class: "label-back", width, height: AXIS }));
    for (let at = Math.ceil(from / step) * step; at <= to; at += step) {
      axis.append(s("text", { class: "dim", x: x(at) + 3, y: 15 }, at < 60_000 ? `${at / 1000} s` : time(at)));
      axis.append(s("line", { class: "grid", x1: x(at), x2: x(at), y1: 4, y2: AXIS }));
    }
    return axis;
  }

  lane(lane, top, view) {
    const { x, width, height } = view;
    const verdict = this.verdict(lane.number);
    const group = s("g", { role: "group", "aria-label": `${lane.name}, ${lane.count} polls${verdict ? `, ${verdict.clean ? "clean" : "not clean"}` : ""}` });
    group.append(s("line", { class: "grid", x1: 0, x2: width, y1: top + lane.height - 1, y2: top + lane.height - 1 }));
    const middle = top + TICKS / 2;
    group.append(s("path", { class: "tick", "aria-hidden": "true", d: ticks(lane.polls, view, top + 4, 8) }));
    for (const event of lane.events) {
      const y = top + TICKS + lane.tracks.get(event) * TRACK;
      if (y + TRACK < AXIS || y > height) continue;
      const bar = this.event(lane, event, y, view);
      if (bar) group.append(bar);
    }
    for (const [number, mark] of lane.marks.entries()) {
      if (mark.at < view.from || mark.at > view.to) continue;
      group.append(this.mark(lane, mark, number, x(mark.at), middle));
    }
    group.append(
      s("rect", { class: "label-back", x: 0, y: top, width: LABEL - 6, height: lane.height - 1 }),
      s("text", { x: 8, y: top + TICKS + 2, "aria-hidden": "true" }, shorten(lane.name)),
      s("text", { class: "dim", x: 8, y: top + TICKS + 16, "aria-hidden": "true" }, verdict ? (verdict.clean ? "✓ clean" : `✗ ${verdict.broken} broken`) : ""),
    );
    return group;
  }

  option(key, label, ...children) {
    const isSelected = this.selected?.key === key;
    return s("g", { role: "option", id: key, "aria-label": label, "aria-selected": String(isSelected), class: isSelected ? "selected" : "" },
      s("title", {}, label), ...children);
  }

  event(lane, event, y, { x, from, to, now }) {
    const end = event.ended ?? Math.max(now, event.started ?? 0, event.announced);
    const planned = !event.ended && !event.started && event.notBefore > end ? event.notBefore : end;
    if (planned < from || event.announced > to) return null;
    const started = event.started ?? end;
    const rect = (style, a, b) => s("rect", { class: style, x: x(a), y: y + 2, width: Math.max(x(b) - x(a), 2), height: TRACK - 6, rx: 3 });
    const parts = [];
    if (planned > end) parts.push(rect("bar-planned", end, planned));
    if (started > event.announced) parts.push(rect("bar-scheduled", event.announced, Math.min(started, end)));
    if (event.started != null) parts.push(rect("bar-started", started, end));
    if (event.notBefore != null && event.notBefore <= to) {
      parts.push(s("line", { class: "mark-not-before", x1: x(event.notBefore), x2: x(event.notBefore), y1: y, y2: y + TRACK - 2 }));
    }
    if (event.approved != null) {
      const a = x(event.approved);
      parts.push(s("path", { class: "mark-approved", d: `M${a} ${y + 4}l5 5l-5 5l-5 -5z` }));
    }
    // The type; after the mark of the approval if they would overlap.
    const begin = x(Math.max(event.announced, from)) + 6;
    const approved = event.approved == null ? 0 : x(event.approved) + 8;
    const text = approved > begin && approved < begin + 60 ? approved : begin;
    parts.push(s("text", { x: text, y: y + 13, "aria-hidden": "true" }, event.type));
    const halo = s("rect", { class: "halo", x: x(event.announced) - 2, y, width: x(planned) - x(event.announced) + 4, height: TRACK - 2, rx: 4 });
    return this.option(eventKey(lane, event), describe(event), halo, ...parts);
  }

  mark(lane, mark, number, x, y) {
    const shapes = {
      fault: () => s("path", { class: "mark-fault", d: `M${x} ${y - 6}l5 10h-10z` }),
      finding: () => s("rect", { class: "mark-finding", x: x - 4, y: y - 4, width: 8, height: 8 }),
      record: () => s("circle", { class: "mark-record", cx: x, cy: y, r: 3 }),
      post: () => s("circle", { class: "mark-post", cx: x, cy: y, r: 4 }),
    };
    const halo = s("rect", { class: "halo", x: x - 7, y: y - 8, width: 14, height: 16, rx: 3 });
    return this.option(markKey(lane, mark, number), `${mark.text}, at ${time(mark.at)}`, halo, shapes[mark.type]());
  }

  // All items that can be selected, lane by lane in the order of time.
  items() {
    const all = this.model.lanes.map((lane) => {
      const events = lane.events.map((event) => ({ key: eventKey(lane, event), at: event.announced, lane, event }));
      const marks = lane.marks.map((mark, number) => ({ key: markKey(lane, mark, number), at: mark.at, lane, mark }));
      return [...events, ...marks].sort((a, b) => a.at - b.at);
    });
    return all.flat();
  }

  select(item) {
    if (!item) return;
    this.selected = item;
    const { lane, event } = item;
    const top = AXIS + lane.top + (event ? TICKS + lane.tracks.get(event) * TRACK : 0);
    const { element } = this;
    if (top - AXIS < element.scrollTop) element.scrollTop = top - AXIS - TICKS;
    if (top + TRACK > element.scrollTop + element.clientHeight) element.scrollTop = top + TRACK + GAP - element.clientHeight;
    this.draw();
    this.onSelect(item);
  }

  key(event) {
    const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 0, ArrowUp: 0, Home: 0, End: 0, Enter: 0, " ": 0 };
    if (!(event.key in steps) || !this.model) return;
    event.preventDefault();
    const items = this.items();
    const index = items.findIndex((item) => item.key === this.selected?.key);
    if (event.key === "Home" || index < 0) return this.select(items[0]);
    if (event.key === "End") return this.select(items.at(-1));
    if (event.key === "Enter" || event.key === " ") return this.onSelect(items[index], true);
    const step = steps[event.key];
    if (step) return this.select(items[index + step]);
    const down = event.key === "ArrowDown" ? 1 : -1;
    const here = items[index];
    const others = items.filter((item) => (item.lane.number - here.lane.number) * down > 0);
    const next = down > 0 ? others[0] : others.at(-1);
    const inLane = others.filter((item) => item.lane === next?.lane);
    return this.select(inLane.reduce((best, item) => (Math.abs(item.at - here.at) < Math.abs(best.at - here.at) ? item : best), inLane[0]));
  }
}

const eventKey = (lane, event) => `e${lane.number}-${event.id}`;
// Marks are dropped from the front, so a position cannot identify one.
const markKey = (lane, mark) => `m${lane.number}-${mark.number}`;
const shorten = (name) => (name.length > 18 ? `${name.slice(0, 17)}…` : name);

// A line for each poll; polls at the same pixel share one.
function ticks(polls, { x, from, to }, y, height) {
  let path = "";
  let last = -1;
  for (let index = first(polls, from); index < polls.length && polls[index] <= to; index += 1) {
    const at = Math.round(x(polls[index])) + 0.5;
    if (at !== last) path += `M${at} ${y}v${height}`;
    last = at;
  }
  return path;
}

function first(times, from) {
  let [low, high] = [0, times.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] < from) low = middle + 1;
    else high = middle;
  }
  return low;
}

// An event in a sentence, for hovering and for screen readers.
export function describe(event) {
  const parts = [`${event.type} of ${names(event.resources)}`, event.state, `announced at ${time(event.announced)}`];
  if (event.notBefore != null) parts.push(`not before ${time(event.notBefore)}`);
  if (event.approved != null) parts.push(`approved at ${time(event.approved)}`);
  if (event.started != null) parts.push(`started at ${time(event.started)}`);
  if (event.ended != null) parts.push(`${/^(cancelled|withdrawn)$/.test(event.state) ? event.state : "ended"} at ${time(event.ended)}`);
  return parts.join(", ");
}
