// The tables: clients, verdict, details, events and log.

import { $, h, names, time } from "./dom.js";
import { describe } from "./timeline.js";

// Shows the clients. Rows are kept, so that a button keeps the focus.
const clientRows = new Map();
export function clients(model, verdicts, selected, onSelect) {
  const body = $("clients");
  if (body.model !== model) {
    body.model = model;
    clientRows.clear();
    body.replaceChildren(...model.lanes.map((lane) => {
      const button = h("button", { type: "button", "aria-pressed": "false", onclick: () => onSelect(lane.number) }, lane.name);
      const cells = { polls: h("td"), faults: h("td"), verdict: h("td") };
      clientRows.set(lane.number, { button, ...cells });
      return h("tr", {}, h("th", { scope: "row" }, button), cells.verdict, cells.polls, h("td", {}, h("code", {}, lane.url)), cells.faults);
    }));
  }
  for (const lane of model.lanes) {
    const row = clientRows.get(lane.number);
    row.button.setAttribute("aria-pressed", String(lane.number === selected));
    set(row.polls, String(lane.count));
    set(row.faults, lane.faults.join(", ") || "none");
    const verdict = verdicts[lane.number];
    set(row.verdict, verdict ? verdictText(verdict) : "");
    row.verdict.className = !known(verdict) ? "dim" : verdict.clean ? (verdict.warned ? "warn" : "good") : "bad";
  }
}

// The commands that start a client of a machine.
export function connect(model, machine) {
  const lane = model.lanes[machine];
  $("connect").replaceChildren(
    `Start a client of ${lane.name}: `, h("code", {}, `SCHEDULED_EVENTS_ENDPOINT=${lane.url}`),
    ". What it logs as JSON Lines appears here with ", h("code", {}, `| curl -sT - ${model.records}${encodeURIComponent(lane.name)}`),
  );
}

// The addresses for a client outside the machines, if there are any.
export function outside(model) {
  const addresses = [["Resource Manager and Resource Graph", model.control_plane], ["Event Grid's queue", model.queue]];
  const parts = addresses.filter(([, address]) => address).flatMap(([name, address]) => [`${name}: `, h("code", {}, address), ". "]);
  $("outside").replaceChildren(...(parts.length ? ["Outside the machines. ", ...parts] : []));
  $("outside").hidden = !parts.length;
}

// The verdict, unless there is no basis for one. A client whose every request is refused has no
// poll, but findings.
export const known = (verdict) => (verdict && (verdict.polls || !verdict.clean) ? verdict : null);

function verdictText(verdict) {
  if (!known(verdict)) return "no poll yet";
  const word = verdict.clean ? "clean" : `${verdict.broken} broken`;
  return verdict.warned ? `${word}, ${verdict.warned} with a warning` : word;
}

function set(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

const OUTCOMES = { passed: ["kept", "good"], broken: ["broken", "bad"], warned: ["warning", "warn"], "not-checked": ["not checked", "dim"] };

// Shows the rules, the broken ones first.
export function verdict(model, details) {
  const lane = model.lanes[details.machine];
  const order = ["broken", "warned", "passed", "not-checked"];
  const rules = [...details.rules].sort((a, b) => order.indexOf(a.outcome) - order.indexOf(b.outcome));
  const rows = rules.map((rule) => {
    const [word, style] = OUTCOMES[rule.outcome];
    const findings = rule.findings.slice(0, 5).map((finding) => h("div", {}, `${time(finding.at)}: ${finding.message}${finding.times > 1 ? `, ${finding.times} times` : ""}`));
    const shown = rule.findings.slice(0, 5).reduce((sum, finding) => sum + finding.times, 0);
    const more = rule.count > shown ? h("div", { class: "dim" }, `${rule.count - shown} more`) : null;
    const reason = rule.reason ? h("div", { class: "dim" }, `Not checked: ${rule.reason}.`) : null;
    return h("tr", {},
      h("th", { scope: "row" }, rule.rule), h("td", { class: style }, word),
      h("td", {}, `${rule.section}, ${rule.item}`), h("td", {}, rule.about, findings, more, reason));
  });
  const { clean } = details.summary;
  $("verdict").replaceChildren(
    h("p", { id: "verdict-summary", class: clean ? "good" : "bad" }, `${lane.name} ${clean ? "keeps" : "breaks"} the wire contract so far.`),
    h("table", {}, h("thead", {}, h("tr", {}, ["Rule", "Result", "Section of wire.md", "What a client does, and what was found"].map((it) => h("th", { scope: "col" }, it)))),
      h("tbody", {}, rows)),
    h("dl", {}, details.measures.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])),
  );
}

// Shows the selected item of the timeline.
export function details(item, onApprove) {
  const { event, mark, lane } = item;
  if (mark) {
    const record = mark.entry.record ?? mark.entry;
    const fields = Object.entries(record).filter(([, value]) => value != null && value !== "" && !(Array.isArray(value) && !value.length));
    $("details").replaceChildren(
      h("h3", {}, `${lane.name}: ${mark.text}`),
      h("dl", {}, h("dt", {}, "at"), h("dd", {}, time(mark.at)),
        fields.filter(([name]) => !["at", "kind", "machine"].includes(name)).flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, typeof value === "object" ? JSON.stringify(value) : String(value))])),
    );
    return;
  }
  const fields = [["EventId", event.id], ["Source", event.source], ["Description", event.description], ["DurationInSeconds", event.duration], ["Resources", event.resources.join(", ")]];
  const button = event.state === "Scheduled" && event.approved == null ? h("button", { type: "button", onclick: () => onApprove(event.id) }, "Approve") : null;
  $("details").replaceChildren(
    h("h3", {}, describe(event)), button ?? "",
    h("dl", {}, fields.filter(([, value]) => value !== undefined && value !== "").flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, String(value))]),
      event.history.flatMap(({ at, change, incarnation }) => [h("dt", {}, time(at)), h("dd", {}, `${change.replace("-", ", ")}; incarnation ${incarnation}`)])),
  );
}

// Shows the events, and writes only the rows that changed.
const eventRows = new Map();
let eventsOf = null;
export function events(model, onApprove) {
  const body = $("events");
  if (eventsOf !== model) {
    eventsOf = model;
    eventRows.clear();
    body.replaceChildren();
  }
  for (const event of model.events.values()) {
    const row = eventRows.get(event.id);
    if (row?.version === event.version) continue;
    const canApprove = event.state === "Scheduled" && event.approved == null;
    const cells = [event.type, names(event.resources), event.state, time(event.announced), time(event.notBefore), time(event.approved), time(event.started), time(event.ended)];
    if (!row) {
      const approve = h("button", { type: "button", "aria-label": `Approve ${event.type} of ${names(event.resources)}`, onclick: () => onApprove(event.id) }, "Approve");
      const [head, ...rest] = cells;
      const created = { version: event.version, approve, cells: [h("th", { scope: "row", title: event.id }, head), ...rest.map((text) => h("td", {}, text))] };
      eventRows.set(event.id, created);
      body.append(h("tr", {}, created.cells, h("td", {}, approve)));
    } else {
      row.version = event.version;
      cells.forEach((text, index) => set(row.cells[index], text));
    }
    eventRows.get(event.id).approve.disabled = !canApprove;
  }
}

// Shows the log, newest entry last.
let logOf = null;
let shown = 0;
export function log(model) {
  const list = $("log");
  if (logOf !== model) {
    [logOf, shown] = [model, 0];
    list.replaceChildren();
  }
  const scroll = list.parentElement;
  const isAtEnd = scroll.scrollTop + scroll.clientHeight >= scroll.scrollHeight - 30;
  const fresh = model.log.filter((line) => line.number > shown);
  if (!fresh.length) return;
  list.append(...fresh.map((line) => h("li", { class: line.style }, `${time(line.at).padStart(8)}  ${line.text}`)));
  while (list.childElementCount > 300) list.firstElementChild.remove();
  shown = fresh.at(-1).number;
  if (isAtEnd) scroll.scrollTop = scroll.scrollHeight;
}
