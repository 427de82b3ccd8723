// The forms: begin with a scenario, inject a fault, add an event, share.

import { fromFile } from "./api.js";
import { $, h } from "./dom.js";

const option = (value, text = value) => h("option", { value }, text);

// The form for faults. `inject(machine, fault)` and `clear(machine)` do the work; a machine of null
// means all of them.
export function faults(catalog, { inject, clear }) {
  $("fault-kind").replaceChildren(...catalog.faults.map((fault) => option(fault.syntax)));
  const choose = () => {
    const fault = catalog.faults.find(({ syntax }) => syntax === $("fault-kind").value);
    const argument = fault.syntax.split(":")[1];
    $("fault-about").textContent = `${fault.syntax}: ${fault.about}. Seconds are real seconds.`;
    $("fault-argument-label").hidden = !argument;
    $("fault-argument").value = argument ? (EXAMPLES[fault.syntax.split(":")[0]] ?? "1") : "";
  };
  $("fault-kind").addEventListener("change", choose);
  const machine = () => ($("fault-machine").value === "" ? null : Number($("fault-machine").value));
  $("fault-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const kind = $("fault-kind").value.split(":")[0];
    const argument = $("fault-argument-label").hidden ? "" : `:${$("fault-argument").value.trim()}`;
    // This fault always applies to the first request.
    const window = kind === "first-call-delay" ? "" : $("fault-window").value;
    inject(machine(), `${$("fault-scope").value}${kind}${argument}${window}`);
  });
  $("fault-clear").addEventListener("click", () => clear(machine()));
  choose();
}

const EXAMPLES = {
  status: "503", "first-call-delay": "2", "idle-off": "24h", stale: "5", "slow-headers": "2", "slow-body": "2", "huge-body": "2MB",
  "many-headers": "200", "long-header": "100KB", "content-type": "text/html", redirect: "302", "retry-after": "5", "incarnation-back": "1",
  "unknown-version": "404",
};

export function machines(model) {
  const before = $("fault-machine").value;
  $("fault-machine").replaceChildren(option("", "all"), ...model.lanes.map((lane) => option(String(lane.number), lane.name)));
  $("fault-machine").value = before;
  if ($("fault-machine").selectedIndex < 0) $("fault-machine").value = "";
}

// The form for events. A string of JSON is one of TOML, too.
export function events(add) {
  const notices = { Freeze: "15min", Reboot: "15min", Redeploy: "10min", Preempt: "30s", Terminate: "5min" };
  $("add-type").addEventListener("change", () => ($("add-notice").value = notices[$("add-type").value]));
  $("add-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const text = (id) => JSON.stringify($(id).value.trim());
    const resources = $("add-resources").value.split(",").map((name) => name.trim()).filter(Boolean);
    add([
      "[[event]]",
      `event_type = ${text("add-type")}`, `event_source = ${text("add-source")}`,
      `resources = ${JSON.stringify(resources)}`, `notice = ${text("add-notice")}`, `started_for = ${text("add-started")}`,
      `duration_in_seconds = ${$("add-duration").value}`,
    ].join("\n"));
  });
}

// The most bytes of a file that the program accepts from the page.
const FILE_MAX = 16 * 2 ** 20;

// The dialog that begins a run.
export class Begin {
  constructor(catalog, begin) {
    this.catalog = catalog;
    $("begin-scenario").replaceChildren(option("", "(own text)"), ...catalog.scenarios.map(({ name }) => option(name)));
    $("begin-scenario").addEventListener("change", () => this.builtin());
    $("begin-text").addEventListener("input", () => this.edited());
    $("begin-file").addEventListener("change", () => this.guard(async () => {
      const file = $("begin-file").files[0];
      if (!file) return;
      // A browser may not show the answer to an upload that is refused before its end.
      if (file.size > FILE_MAX) throw new Error("the file is larger than 16 MiB: load a part of it, or start the program with its path");
      $("begin-text").value = await fromFile(await file.arrayBuffer());
      this.edited(file.name);
    }));
    $("begin-link").addEventListener("input", () => this.guard(async () => {
      const fragment = $("begin-link").value.trim().split("#")[1];
      if (fragment) this.fill(this.fromLink(new URLSearchParams(fragment)));
    }));
    $("begin-cancel").addEventListener("click", () => $("dialog").close());
    $("begin-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.guard(async () => {
        await begin(this.settings());
        $("dialog").close();
      });
    });
  }

  async guard(work) {
    $("begin-error").hidden = true;
    try {
      await work();
    } catch (error) {
      $("begin-error").textContent = error.message;
      $("begin-error").hidden = false;
    }
  }

  open(settings) {
    $("begin-file").value = "";
    $("begin-link").value = "";
    $("begin-error").hidden = true;
    this.fill(settings);
    $("dialog").showModal();
  }

  fill(settings) {
    const known = this.catalog.scenarios.find(({ name, text }) => name === settings.name && text === settings.text);
    this.name = settings.name;
    $("begin-scenario").value = known ? settings.name : "";
    $("begin-text").value = settings.text;
    $("begin-speed").value = settings.speed;
    $("begin-machines").value = settings.machines;
    $("begin-vm").value = settings.vm_name;
    $("begin-seed").value = settings.seed;
    $("begin-faults").value = settings.faults.join("\n");
  }

  builtin() {
    const known = this.catalog.scenarios.find(({ name }) => name === $("begin-scenario").value);
    if (!known) return;
    $("begin-text").value = known.text;
    this.name = known.name;
  }

  // A text that was changed is no longer a built-in scenario.
  edited(name) {
    const before = this.name;
    $("begin-scenario").value = "";
    this.name = name ?? (this.catalog.scenarios.some((known) => known.name === before) ? `${before} (edited)` : before);
  }

  settings() {
    const number = (id, what) => {
      const value = Number($(id).value.trim().replace(",", "."));
      if ($(id).value.trim() === "" || !Number.isFinite(value)) throw new Error(`found ${$(id).value || "nothing"} as ${what}, expected a number`);
      return value;
    };
    const whole = (id, what) => {
      const value = number(id, what);
      if (!Number.isSafeInteger(value) || value < 0) throw new Error(`found ${value} as ${what}, expected a whole number`);
      return value;
    };
    return {
      name: this.name || "own text", text: $("begin-text").value, speed: number("begin-speed", "the speed"), machines: whole("begin-machines", "the number of machines"),
      vm_name: $("begin-vm").value.trim(), seed: whole("begin-seed", "the seed"),
      faults: $("begin-faults").value.split("\n").map((line) => line.trim()).filter(Boolean),
    };
  }

  // The settings of a link; settings that it lacks are those of a new run.
  fromLink(parts) {
    const name = parts.get("scenario") ?? "";
    const known = this.catalog.scenarios.find((scenario) => scenario.name === name);
    const text = parts.get("text") ?? known?.text;
    if (!text) throw new Error(`the link names no scenario of this version: ${name}`);
    const number = (key, other) => (parts.has(key) ? Number(parts.get(key)) : other);
    return {
      name, text, speed: number("speed", 1), machines: number("machines", 1), vm_name: parts.get("vm_name") ?? "WestNO_0",
      seed: number("seed", 1), faults: parts.getAll("fault"),
    };
  }
}

// The link for settings. It names a built-in scenario by its name.
export function link(settings, catalog) {
  const parts = new URLSearchParams({ scenario: settings.name });
  const known = catalog.scenarios.find(({ name }) => name === settings.name);
  if (known?.text !== settings.text) parts.set("text", settings.text);
  for (const name of ["speed", "machines", "vm_name", "seed"]) parts.set(name, settings[name]);
  for (const fault of settings.faults) parts.append("fault", fault);
  return `${location.origin}/#${parts}`;
}
