// The page's knowledge about the run: the entries of the journal, sorted into machines and events.

import { time } from "./dom.js";

// The most requests, marks and lines that are kept for each machine and for the log.
const POLLS_MAX = 20_000;
const MARKS_MAX = 2_000;
const LOG_MAX = 300;

export class Model {
  constructor(run) {
    Object.assign(this, run); // run, settings, about, machines, records
    this.lanes = run.machines.map((machine, number) => ({ ...machine, number, polls: [], marks: [], count: 0, faults: [], events: [] }));
    this.byName = new Map(this.lanes.map((lane) => [lane.name.toLowerCase(), lane]));
    this.events = new Map();
    this.log = [];
    this.next = 0;
    this.version = 0; // of the events
    this.marked = 0;
    this.end = 0;
    this.status = { now: 0, started: false, paused: false, finished: false, speed: run.settings.speed };
    this.at = performance.now();
  }

  apply(update) {
    this.status = update.status;
    this.at = performance.now();
    this.dropped = update.dropped;
    this.next = update.next;
    for (const entry of update.entries) this.add(entry);
    if (this.log.length > LOG_MAX) this.log.splice(0, this.log.length - LOG_MAX);
  }

  // The time of the run.
  now() {
    return this.status.now + (performance.now() - this.at);
  }

  add(entry) {
    this.end = Math.max(this.end, entry.at);
    const lane = this.lanes[entry.machine];
    switch (entry.kind) {
      case "request": return this.request(lane, entry);
      case "event": return this.event(entry);
      case "start": return this.note(entry, "The scenario starts.");
      case "outside": return this.note(entry, `Outside: ${entry.text}`, entry.failed ? "bad" : "");
      case "finish": return this.note(entry, "The scenario is over: every event has ended.");
      case "incarnation-reset": return this.note(entry, `The incarnation starts again at ${entry.incarnation}.`);
      case "action": return this.note(entry, `You ${entry.text}.`);
      case "faults": lane.faults = entry.faults; return undefined;
      case "finding": {
        const text = `${entry.rule}: ${entry.message}`;
        this.mark(lane, { at: entry.at, type: "finding", text, entry });
        return this.note(entry, `${lane.name}: ${entry.must ? "breaks" : "does not follow"} ${text}`, entry.must ? "bad" : "warn");
      }
      case "record": {
        const { record } = entry;
        const text = [record.record, record.change, record.action, record.outcome, record.cause, record.reason].filter((it) => typeof it === "string").join(" ");
        this.mark(lane, { at: entry.at, type: "record", text: `logged ${text || "a record"}`, entry });
        return this.note(entry, `${lane.name} logged ${text || "a record"}`, "dim");
      }
      default: return undefined;
    }
  }

  request(lane, entry) {
    const isPoll = entry.method === "GET" && entry.target.startsWith("/metadata/scheduledevents");
    if (isPoll) lane.count += 1;
    const answer = entry.status == null ? "no response" : entry.status;
    const fault = entry.faults.length ? ` (fault: ${entry.faults.join(", ")})` : "";
    const text = `${entry.method || "a malformed request"} ${entry.target.split("?")[0]}: ${answer}${fault}`;
    if (isPoll) {
      lane.polls.push(entry.at);
      if (lane.polls.length > POLLS_MAX) lane.polls.splice(0, POLLS_MAX / 10);
    }
    const isPlain = isPoll && !entry.faults.length && (entry.status === 200 || entry.status === 304);
    if (isPlain) return;
    const type = entry.faults.length || entry.status >= 400 || entry.status == null ? "fault" : entry.method === "POST" ? "post" : null;
    if (type) this.mark(lane, { at: entry.at, type, text, entry });
    this.note(entry, `${lane.name}: ${text}`, type === "fault" ? "bad" : "");
  }

  event(entry) {
    let event = this.events.get(entry.id);
    if (!event) {
      event = { id: entry.id, type: entry.type, resources: entry.resources, announced: entry.at, source: entry.source, description: entry.description, duration: entry.duration, history: [] };
      this.events.set(entry.id, event);
      for (const name of entry.resources) this.byName.get(name.toLowerCase())?.events.push(event);
      event.state = "Scheduled";
    }
    this.version += 1;
    event.version = this.version;
    event.history.push({ at: entry.at, change: entry.change, incarnation: entry.incarnation });
    if (entry.not_before != null) event.notBefore = entry.not_before;
    const words = {
      appeared: "appears, Scheduled", "appeared-started": "appears, Started without notice", approved: "is approved",
      rescheduled: "is rescheduled", started: "is Started", cancelled: "is cancelled", ended: "has ended",
      advised: "appears, as advice", withdrawn: "is withdrawn",
    };
    if (entry.change === "approved") event.approved ??= entry.at;
    if (entry.change === "started" || entry.change === "appeared-started") [event.state, event.started] = ["Started", entry.at];
    if (entry.change === "advised") event.state = "advice";
    if (entry.change === "cancelled" || entry.change === "withdrawn") [event.state, event.ended] = [entry.change, entry.at];
    if (entry.change === "ended") [event.state, event.ended] = ["ended", entry.at];
    const until = event.notBefore != null && /^(appeared|rescheduled)$/.test(entry.change) ? `, not before ${time(event.notBefore)}` : "";
    this.note(entry, `${event.type} ${event.id.slice(0, 8)} of ${event.resources.slice(0, 2).join(", ")}${event.resources.length > 2 ? ` and ${event.resources.length - 2} more` : ""} ${words[entry.change] ?? entry.change}${until}`);
  }

  mark(lane, mark) {
    this.marked += 1;
    lane.marks.push({ ...mark, number: this.marked });
    if (lane.marks.length > MARKS_MAX) lane.marks.splice(0, MARKS_MAX / 10);
  }

  note(entry, text, style = "") {
    this.log.push({ at: entry.at, text, style, number: (this.noted = (this.noted ?? 0) + 1) });
  }
}
