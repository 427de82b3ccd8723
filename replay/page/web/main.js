// The page: it waits for updates, shows them, and sends the user's actions.

import { act, enter, get, getText } from "./api.js";
import { $, download } from "./dom.js";
import * as forms from "./forms.js";
import { Model } from "./model.js";
import * as panels from "./panels.js";
import { Timeline } from "./timeline.js";

let model = null;
let verdicts = [];
let selected = 0;
let catalog = null;
let verdictTimer = null;

const timeline = new Timeline($("timeline"), {
  verdict: (machine) => panels.known(verdicts[machine]),
  onSelect: (item) => panels.details(item, approve),
});

function fail(error) {
  $("error").textContent = error.message;
  $("error").hidden = false;
}

// Carries out a request of the user. An error stays until the next success.
async function attempt(work) {
  try {
    await work();
    $("error").hidden = true;
  } catch (error) {
    fail(error);
  }
}

const send = (action) => attempt(() => act(action));
const approve = (id) => send({ do: "approve", id });

// Shows the run, and draws the changes.
async function load() {
  const run = await get("/api/run");
  if (model?.run === run.run) return;
  model = new Model(run);
  verdicts = [];
  selected = Math.min(selected, run.machines.length - 1);
  $("name").textContent = run.settings.name;
  $("about").textContent = run.about;
  document.title = `Replay: ${run.settings.name}`;
  $("details").replaceChildren(Object.assign(document.createElement("p"), { textContent: "Nothing is selected." }));
  $("verdict").replaceChildren();
  panels.connect(model, selected);
  panels.outside(model);
  forms.machines(model);
  timeline.show(model);
}

// A hidden tab waits for no update: a browser opens six connections to a program, and all tabs
// share them.
let waiting = new AbortController();
async function visible() {
  while (document.hidden) await new Promise((done) => document.addEventListener("visibilitychange", done, { once: true }));
  waiting = new AbortController();
}

async function follow() {
  for (let wait = 1000; ; ) {
    try {
      if (!model) await load();
      const waits = model.isShown === true;
      if (waits) await visible();
      const update = await get(`/api/updates?run=${model.run}&after=${model.next}&wait=${waits}`, waits ? waiting.signal : undefined);
      wait = 1000;
      if (update.run !== model.run) {
        await load();
        continue;
      }
      const hasEntries = update.entries.length > 0;
      model.apply(update);
      model.isShown = true;
      show();
      if (hasEntries) refreshVerdicts();
    } catch (error) {
      if (error.name === "AbortError") continue;
      // Without the right token, another attempt fails, too.
      if (error.status === 401) {
        $("status").textContent = "Not connected.";
        return fail(error);
      }
      $("status").textContent = "The program does not answer. Is it still running?";
      await new Promise((done) => setTimeout(done, wait));
      wait = Math.min(wait * 2, 30_000);
    }
  }
}

function show() {
  const { status } = model;
  set($("pause"), status.paused ? "Resume" : "Pause");
  $("step").disabled = !status.started || status.finished;
  const speed = String(status.speed);
  if (![...$("speed").options].some(({ value }) => value === speed)) $("speed").append(new Option(speed));
  if (document.activeElement !== $("speed")) $("speed").value = speed;
  set($("status"), statusText(status));
  panels.clients(model, verdicts, selected, (machine) => {
    selected = machine;
    panels.connect(model, selected);
    show();
    refreshVerdicts();
  });
  panels.events(model, approve);
  panels.log(model);
  timeline.schedule();
  tick();
}

function set(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function statusText(status) {
  const dropped = model.dropped ? ` The first ${model.dropped} entries are not kept.` : "";
  if (!status.started) return `Waiting: the scenario starts with the first poll of a client${model.control_plane ? " or query of Resource Graph" : ""}.${status.paused ? " It is paused." : ""}${dropped}`;
  if (status.finished) return `The scenario is over.${dropped}`;
  if (status.paused) return `Paused.${dropped}`;
  const open = [...model.events.values()].filter((event) => !event.ended).length;
  return `Playing at speed ${status.speed}; ${open} open event${open === 1 ? "" : "s"}.${dropped}`;
}

// While the scenario plays, the line of the present moves once a second. Otherwise the page draws
// only after an update.
let ticking = null;
let ticks = 0;
function tick() {
  const { status } = model;
  if (ticking || !status.started || status.finished || status.paused || document.hidden) return;
  ticking = setTimeout(() => {
    ticking = null;
    timeline.schedule();
    // A client that has stopped polling causes no update.
    ticks += 1;
    if (ticks % 10 === 0) refreshVerdicts();
    tick();
  }, 1000);
}
document.addEventListener("visibilitychange", () => {
  if (document.hidden) waiting.abort();
  else if (model) show();
});

// Asks for the verdicts at most once a second.
function refreshVerdicts() {
  verdictTimer ??= setTimeout(async () => {
    const { run } = model;
    try {
      const [all, details] = [await get("/api/verdicts"), await get(`/api/verdict?machine=${selected}`)];
      if (model.run === run) {
        verdicts = all;
        panels.verdict(model, details);
        show();
      }
    } catch (error) {
      if (error.status === 422) return; // the machines are others now
      fail(error);
    } finally {
      verdictTimer = null;
    }
  }, verdicts.length ? 1000 : 50);
}

// A link that is pasted into the address of an open page changes only the fragment, which loads
// nothing by itself.
addEventListener("hashchange", () => location.hash && location.reload());

async function main() {
  const shared = await enter();
  catalog = await get("/api/catalog");
  const begin = new forms.Begin(catalog, (settings) => act({ do: "begin", settings }));
  forms.faults(catalog, {
    inject: (machine, fault) => send({ do: "inject", machine, fault }),
    clear: (machine) => send({ do: "clear-faults", machine }),
  });
  forms.events((text) => send({ do: "add", text }));
  $("pause").addEventListener("click", () => send({ do: model.status.paused ? "resume" : "pause" }));
  $("step").addEventListener("click", () => send({ do: "step" }));
  $("speed").addEventListener("change", () => send({ do: "speed", speed: Number($("speed").value) }));
  $("again").addEventListener("click", () => send({ do: "begin", settings: model.settings }));
  $("choose").addEventListener("click", () => begin.open(model.settings));
  $("save").addEventListener("click", () => attempt(async () => download("scenario.toml", "application/toml", await getText("/api/played"))));
  $("share").addEventListener("click", () => {
    $("share-link").value = forms.link(model.settings, catalog);
    $("share-dialog").showModal();
    $("share-link").select();
  });
  $("share-copy").addEventListener("click", () => attempt(() => navigator.clipboard.writeText($("share-link").value)));
  $("share-close").addEventListener("click", () => $("share-dialog").close());
  $("range").addEventListener("change", () => {
    timeline.range = Number($("range").value);
    timeline.schedule();
  });
  for (const button of document.querySelectorAll("[data-report]")) {
    const format = button.dataset.report;
    button.addEventListener("click", () => attempt(async () => download(`report.${format}`, "text/plain", await getText(`/api/report?format=${format}`))));
  }
  follow();
  if (shared.size) {
    await load();
    begin.open(begin.fromLink(shared));
  }
}

main().catch((error) => {
  $("status").textContent = "Not connected.";
  fail(error);
});
