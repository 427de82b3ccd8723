// The page in a real browser, with a real program and real clients: tests/page/run.

import { readFile, writeFile } from "node:fs/promises";

import { approve, axe, check, equal, poll, poller, run, send, temporary, until, watch } from "./harness.mjs";

const text = (page, selector) => page.locator(selector).innerText();
const has = (page, selector, part) => until(`${selector} has ${part}`, async () => (await text(page, selector)).includes(part));
const options = (page) => page.locator("#timeline [role=option]");

// What a download of the page contains.
async function downloaded(page, selector) {
  const [download] = await Promise.all([page.waitForEvent("download"), page.click(selector)]);
  return readFile(await download.path(), "utf8");
}

// The picture without what differs from run to run: lanes, and the shapes of each item.
const structure = (page) =>
  page.evaluate(() =>
    [...document.querySelectorAll("#timeline [role=group]")].map((lane) => [
      lane.getAttribute("aria-label").split(",")[0],
      lane.querySelector(".tick").getAttribute("d") !== "",
      ...[...lane.querySelectorAll("[role=option]")].map((item) => [
        item.getAttribute("aria-label").replace(/[\d.]+ s/g, "TIME"),
        [...item.children].map((shape) => shape.getAttribute("class")).filter((name) => name && name !== "halo").join(" "),
      ]),
    ]),
  );

run({
  async "a poll and an event are seen"({ page: start, open }) {
    const program = await start("user-reboot", "--speed", "20", "--seed", "7");
    const page = await open(program.link);
    check((await text(page, "#status")).startsWith("Waiting"), "it waits for the first poll");
    equal(page.url(), `${program.origin}/`, "the address without the token");
    const client = poller(program.machines[0]);
    await page.waitForSelector("#timeline [role=option]");
    client.stop();
    const label = await options(page).first().getAttribute("aria-label");
    check(/^Reboot of WestNO_0, Scheduled, announced at \d\.\d s/.test(label), label);
    check((await page.getAttribute("#timeline .tick", "d")).startsWith("M"), "the polls are drawn");
    check((await text(page, "#events")).includes("Reboot"), "the event is in the table");
    check((await text(page, "#status")).startsWith("Playing at speed 20"), "it plays");
  },

  async "pause, step, speed and an approval"({ page: start, open }) {
    const program = await start("user-reboot");
    const page = await open(program.link);
    check(await page.isDisabled("#step"), "nothing is due before the first poll");
    await poll(program.machines[0]);
    await has(page, "#status", "Playing at speed 1");
    await page.click("#pause");
    await has(page, "#status", "Paused");
    await page.click("#step");
    await has(page, "#events", "Scheduled");
    const document = JSON.parse((await poll(program.machines[0])).text);
    equal([document.DocumentIncarnation, document.Events.length], [2, 1], "the document after a step");
    await page.click("#pause");
    await has(page, "#status", "1 open event");
    await page.selectOption("#speed", "60");
    await has(page, "#status", "Playing at speed 60");
    check((await text(page, "#log")).includes("is rescheduled"), "another speed reschedules what waits");
    await page.click("#pause");
    await page.click("#events button");
    await until("the approval", async () => (await options(page).first().getAttribute("aria-label")).includes("approved at"));
    check(await page.isDisabled("#events button"), "an event is approved once");
    await page.click("#step");
    await has(page, "#events", "Started");
    await page.click("#step");
    await has(page, "#status", "The scenario is over");
    await page.click("#again");
    await has(page, "#status", "Waiting");
    equal(await page.locator("#events tr").count(), 0, "events after beginning again");
    equal((await poll(program.machines[0])).status, 200, "the machine keeps its address");
  },

  async "queries and approvals outside the machines"({ page: start, open }) {
    const program = await start("user-reboot", "--control-plane", "--fault", "arm.status:503@1");
    const page = await open(program.link);
    await has(page, "#outside", program.controlPlane);
    check((await text(page, "#status")).includes("or query of Resource Graph"), "it waits for a query, too");
    const ask = async (target, body) => {
      const headers = { Authorization: "Bearer anything", "Content-Type": "application/json" };
      return send(new URL(program.controlPlane).port, target, { method: "POST", headers, body: body && JSON.stringify(body) });
    };
    const graph = "/providers/Microsoft.ResourceGraph/resources?api-version=2024-04-01";
    equal((await ask(graph, { query: "maintenanceresources" })).status, 200, "a query");
    await has(page, "#status", "Playing");
    await page.click("#step");
    await has(page, "#events", "Scheduled");
    const [row] = JSON.parse((await ask(graph, { query: "maintenanceresources" })).text).data;
    const acknowledge = () => ask(`${row.id}/acknowledge?api-version=2025-10-01-preview`);
    equal((await acknowledge()).status, 503, "the first approval");
    equal((await acknowledge()).status, 200, "the second one");
    await until("the approval", async () => (await options(page).first().getAttribute("aria-label")).includes("approved at"));
    await has(page, "#log", "/acknowledge?api-version=2025-10-01-preview -> 503");
    await has(page, "#log", "/acknowledge?api-version=2025-10-01-preview -> 200");
    await page.click("#again");
    await has(page, "#status", "Waiting");
    equal((await ask(graph, { query: "resources" })).status, 200, "the control plane keeps its address");
  },

  async "every fault can be injected and removed"({ page: start, open }) {
    const program = await start("preempt", "--machines", "2");
    const page = await open(program.link);
    await page.selectOption("#fault-machine", "1");
    await page.selectOption("#fault-kind", "status:CODE");
    await page.click("#fault-form [type=submit]");
    await has(page, "#clients", "status:503@1");
    equal((await poll(program.machines[0])).status, 200, "the other machine");
    equal((await poll(program.machines[1])).status, 503, "the machine with the fault");
    equal((await poll(program.machines[1])).status, 200, "the request after");
    await page.waitForSelector("#timeline .mark-fault");
    await page.fill("#fault-argument", "999");
    await page.click("#fault-form [type=submit]");
    await has(page, "#error", "expected a status from 200 to 599");
    await page.click("#fault-clear");
    await until("no fault", async () => !(await text(page, "#clients")).includes("status:503"));
    check(await page.isHidden("#error"), "the next success removes an error");
    await page.click("#again");
    await has(page, "#status", "Waiting");
    const kinds = await page.locator("#fault-kind option").evaluateAll((all) => all.map((option) => option.value));
    check(kinds.length > 20, "the page offers all kinds of fault");
    for (const kind of kinds) {
      await page.selectOption("#fault-kind", kind);
      await page.click("#fault-form [type=submit]");
      await has(page, "#clients", kind.split(":")[0]);
      check(await page.isHidden("#error"), `${kind}: ${await text(page, "#error")}`);
    }
  },

  async "our watcher and a faulty client side by side"({ page: start, open }) {
    const program = await start("terminate-pair", "--machines", "2", "--speed", "40", "--fault", "status:500@3");
    const page = await open(program.link);
    const policy = temporary("policy.toml");
    await writeFile(policy, 'leader = "everyone"\n[[rule]]\naction = "approve"\n');
    const ours = watch(program.machines[0], "--policy", policy, "--vm-name", "WestNO_0");
    // A client that sends no header at first, and approves what is not its machine's.
    await send(new URL(program.machines[1]).port, "/metadata/scheduledevents?api-version=2020-07-01");
    const faulty = poller(program.machines[1], { every: 300 });
    const events = await until("two events", async () => {
      const document = await poll(program.machines[1]);
      const list = document.status === 200 ? JSON.parse(document.text).Events : [];
      return list.length === 2 && list;
    });
    await approve(program.machines[1], events.map((event) => event.EventId));
    const row = (number) => text(page, `#clients tr:nth-child(${number})`);
    await until("a verdict on both", async () => (await row(1)).includes("clean") && /\d broken/.test(await row(2)));
    await has(page, "#status", "The scenario is over");
    faulty.stop();
    ours.kill("SIGTERM");
    await page.click("#clients tr:nth-child(2) button");
    await has(page, "#verdict-summary", "WestNO_1 breaks the wire contract");
    const rules = await page.locator("#verdict tbody tr").evaluateAll((rows) => rows.map((row) => [...row.cells].slice(0, 2).map((cell) => cell.textContent)));
    const broken = rules.filter(([, outcome]) => outcome === "broken").map(([rule]) => rule);
    check(broken.includes("header") && broken.includes("approved-other"), `broken: ${broken}`);
    await page.click("#clients tr:nth-child(1) button");
    await has(page, "#verdict-summary", "WestNO_0 keeps the wire contract");
    check((await page.locator("#timeline .mark-finding").count()) > 0, "findings are drawn");
    const junit = await downloaded(page, "[data-report=xml]");
    check(/<testsuite name="WestNO_0"[^>]* failures="0"/.test(junit) && !/<testsuite name="WestNO_1"[^>]* failures="0"/.test(junit), junit.slice(0, 2000));
    const lines = (await downloaded(page, "[data-report=ndjson]")).trim().split("\n").map((line) => JSON.parse(line));
    equal(lines.filter((line) => line.report === "client").map((line) => line.clean), [true, false], "the clients in NDJSON");
    check((await downloaded(page, "[data-report=html]")).includes("WestNO_1 breaks the wire contract"), "the report in HTML");
  },

  async "the structure of the picture"({ page: start, open }) {
    const program = await start("terminate-pair", "--machines", "2", "--seed", "1", "--fault", "get.status:503@2");
    const page = await open(program.link);
    const [first] = program.machines;
    for (let request = 0; request < 3; request += 1) await poll(first);
    await page.click("#step");
    await has(page, "#events", "Scheduled");
    const [event] = JSON.parse((await poll(first)).text).Events;
    await approve(first, [event.EventId]);
    await until("the approval is drawn", async () => (await page.locator("#timeline .mark-approved").count()) === 1);
    const found = (await structure(page)).map((lane) => lane.map((part) => (Array.isArray(part) ? [part[0].replace(/\d+:\d\d/, "TIME"), part[1]] : part)));
    const bars = "bar-planned bar-scheduled mark-not-before";
    equal(found, [
      ["WestNO_0", true,
        ["Terminate of WestNO_0, Scheduled, announced at TIME, not before TIME, approved at TIME", `${bars} mark-approved`],
        ["GET /metadata/scheduledevents: 503 (fault: get.status:503@2), at TIME", "mark-fault"],
        ["POST /metadata/scheduledevents: 200, at TIME", "mark-post"]],
      ["WestNO_1", false, ["Terminate of WestNO_1, Scheduled, announced at TIME, not before TIME", bars]],
    ], "the picture");
  },

  async "all of it with the keyboard"({ page: start, open }) {
    const program = await start("reboot-during-freeze", "--machines", "2");
    const page = await open(program.link);
    const focus = () => page.evaluate(() => document.activeElement.id);
    const tabTo = (id) => until(`Tab reaches ${id}`, async () => (await page.keyboard.press("Tab"), (await focus()) === id));
    await poll(program.machines[0]);
    await has(page, "#status", "Playing");
    await tabTo("pause");
    await page.keyboard.press("Enter");
    await has(page, "#status", "Paused");
    await tabTo("step");
    await page.keyboard.press("Space");
    await has(page, "#events", "Freeze");
    await page.keyboard.press("Space");
    await has(page, "#events", "Reboot");
    await tabTo("timeline");
    await page.keyboard.press("Home");
    await has(page, "#details", "Freeze of WestNO_0");
    equal(await page.getAttribute("#timeline", "aria-activedescendant"), await options(page).first().getAttribute("id"), "the active item");
    await page.keyboard.press("ArrowRight");
    await has(page, "#details", "Reboot of WestNO_0");
    await page.keyboard.press("Tab");
    equal(await page.evaluate(() => document.activeElement.textContent), "Approve", "the button after the timeline");
    await page.keyboard.press("Enter");
    await has(page, "#log", "is approved");
    await tabTo("fault-kind");
    await page.keyboard.type("vanish");
    await page.keyboard.press("Enter");
    await tabTo("fault-window");
    await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    await has(page, "#clients", "vanish@");
  },

  async "two tabs show the same"({ page: start, open }) {
    const program = await start("cancelled");
    const [one, two] = [await open(program.link), await open(program.link)];
    await poll(program.machines[0]);
    await one.click("#step");
    await has(two, "#events", "Scheduled");
    await two.click("#pause");
    await has(one, "#status", "Paused");
    await two.click("#again");
    await has(one, "#status", "Waiting");
    equal(await one.locator("#events tr").count(), 0, "events in the other tab");
  },

  async "more tabs than a browser has connections"({ page: start, open }) {
    const program = await start("cancelled");
    // A tab without a window is never hidden, so this imitates it.
    const setHidden = (page, isHidden) =>
      page.evaluate((isHidden) => {
        Object.defineProperty(document, "hidden", { configurable: true, get: () => isHidden });
        document.dispatchEvent(new Event("visibilitychange"));
      }, isHidden);
    const hide = async (page) => {
      await until("the tab waits for an update", () => page.waiting.size === 1);
      const [ended] = await Promise.all([page.waitForEvent("requestfailed"), setHidden(page, true)]);
      check(ended.url().endsWith("wait=true"), `the tab has ended ${ended.url()}`);
    };
    const first = await open(program.link);
    let last = first;
    for (let tab = 2; tab <= 8; tab += 1) {
      await hide(last);
      last = await open(program.link, { beside: first });
      await has(last, "#status", "Waiting");
    }
    await poll(program.machines[0]);
    await last.click("#pause");
    await has(last, "#status", "Paused");
    equal(first.waiting.size, 0, "requests of a hidden tab");
    await setHidden(first, false);
    await has(first, "#status", "Paused");
  },

  async "a client whose every request is refused has a verdict"({ page: start, open }) {
    const program = await start("cancelled", "--machines", "2");
    const page = await open(program.link);
    await poll(program.machines[0], { Metadata: "false" });
    await has(page, "#clients tr:nth-child(1)", "1 broken");
    await has(page, "#clients tr:nth-child(2)", "no poll yet");
    await until("the verdict in the lane", async () => (await page.locator("#timeline [role=group]").first().getAttribute("aria-label")).includes("not clean"));
  },

  async "axe finds no serious problem"({ page: start, open }) {
    const program = await start("terminate-pair", "--machines", "2", "--fault", "status:503@2");
    for (const colorScheme of ["light", "dark"]) {
      const page = await open(program.link, { colorScheme });
      await page.evaluate(await readFile(axe, "utf8"));
      const serious = async (where) => {
        const { violations } = await page.evaluate(() => window.axe.run());
        const found = violations.filter(({ impact }) => ["serious", "critical"].includes(impact));
        equal(found.map(({ id, nodes }) => [id, nodes[0].html, nodes[0].failureSummary]), [], `${where}, ${colorScheme}`);
      };
      await serious("before the first poll");
      await Promise.all([1, 2, 3].map(() => poll(program.machines[0])));
      await page.click("#step").catch(() => {});
      await has(page, "#events", "Scheduled");
      await page.waitForSelector("#verdict table");
      await page.press("#timeline", "Home");
      await serious("with events");
      await page.click("#choose");
      await serious("the scenario");
      await page.click("#begin-cancel");
      await page.click("#share");
      await serious("sharing");
      await page.click("#share-close");
      await page.click("#again");
      await has(page, "#status", "Waiting");
    }
  },

  async "other pages and other programs are refused"({ page: start, open }) {
    const { port, token, origin, machines } = await start("preempt");
    const right = { Authorization: `Bearer ${token}`, "Content-Type": "application/json" };
    const status = async (target, options) => (await send(port, target, options)).status;
    equal(await status("/api/run", { headers: right }), 200, "with the token");
    equal(await status("/api/run"), 401, "without a token");
    equal(await status("/api/run", { headers: { Authorization: `Bearer ${token.slice(1)}x` } }), 401, "with a wrong token");
    const pause = { method: "POST", body: '{"do":"pause"}' };
    equal(await status("/api/action", pause), 401, "an action without a token");
    for (const Host of ["evil.example", `evil.example:${port}`, "127.0.0.1", "localhost:1"]) {
      equal(await status("/api/run", { headers: { ...right, Host } }), 403, `Host: ${Host}`);
      equal(await status("/", { headers: { Host } }), 403, `the page, Host: ${Host}`);
    }
    for (const Origin of ["http://evil.example", "null", machines[0], origin.replace("http", "https")]) {
      equal(await status("/api/action", { ...pause, headers: { ...right, Origin } }), 403, `Origin: ${Origin}`);
      equal(await status(`/records/x/WestNO_0`, { method: "POST", headers: { Origin } }), 403, `records, Origin: ${Origin}`);
    }
    equal(await status("/api/action", { ...pause, headers: { ...right, Origin: origin } }), 200, "from the page itself");
    equal(await status("/api/action", { method: "POST", headers: right, body: '{"do":"explode"}' }), 422, "an unknown action");
    equal(await status("/api/action", { method: "POST", headers: right, body: '{"do":"approve","id":"x"}' }), 422, "an unknown event");
    equal(await status("/api/recording", { method: "POST", headers: right, body: "x".repeat((16 << 20) + 1) }), 422, "a file that is too large");
    equal(await status("/api/action", { method: "POST", headers: right, body: `{"do":"add","text":"${"x".repeat(2 << 20)}"}` }), 422, "a large action");
    equal(await status("/api/token", { method: "POST", headers: right, body: '{"ticket":""}' }), 401, "a wrong ticket");
    const page = await send(port, "/");
    const policy = page.headers["content-security-policy"];
    check(policy.startsWith("default-src 'none'; script-src 'self'") && !policy.includes("unsafe"), policy);
    check(!/<script>|\son\w+=|style=/.test(page.text), "the page has no inline script, handler or style");
    check(!page.text.includes(token), "the page does not have the token");
    const stranger = await open(`${origin}/`);
    await has(stranger, "#error", "open the link that the program printed");
  },

  async "the browser gets a link that works once"({ page: start, open }) {
    // In place of the program that opens a browser, one that keeps the link.
    const kept = temporary("link");
    await writeFile(temporary("xdg-open"), `#!/bin/sh\nprintf %s "$1" >'${kept}.part' && mv '${kept}.part' '${kept}'\n`, { mode: 0o755 });
    const { token } = await start("preempt", "--open", { env: { ...process.env, PATH: `${temporary("")}:${process.env.PATH}` } });
    const link = await until("the link", () => readFile(kept, "utf8").catch(() => ""));
    check(/#ticket=[0-9a-f]{32}$/.test(link) && !link.includes(token), link);
    const page = await open(link);
    check((await text(page, "#status")).startsWith("Waiting"), "the ticket opens the page");
    await page.reload();
    await has(page, "#status", "Waiting");
    const late = await open(link);
    await has(late, "#error", "this link opens the page once");
  },

  async "a thousand events are drawn as few"({ page: start, open }) {
    const file = temporary("thousand.toml");
    const event = (count, name) => `[[event]]\nevent_type = "Freeze"\nresources = ["{vm}", "${name}{index}"]\ncount = ${count}\n`;
    await writeFile(file, `about = "A thousand events."\n${event(500, "a")}${event(500, "b")}`);
    const program = await start(file, "--machines", "3");
    const page = await open(program.link);
    await poll(program.machines[0]);
    await until("all rows", async () => (await page.locator("#events tr").count()) === 1000);
    await until("all lanes", async () => (await options(page).count()) > 5);
    check((await options(page).count()) < 60, "only what is in view is drawn");
    await page.press("#timeline", "End");
    await page.press("#timeline", "Home");
    await page.locator("#timeline").evaluate((element) => (element.scrollTop = element.scrollHeight));
    await until("the last lane", async () => (await structure(page)).at(-1)?.[0] === "WestNO_2");
    await page.click("#step");
    await until("all are Started", async () => (await page.locator("#events tr", { hasText: "Started" }).count()) === 1000);
    const lanes = await start("scale-in", "--machines", "200", "--speed", "1000");
    const many = await open(lanes.link);
    await poll(lanes.machines[0]);
    await has(many, "#events", "Terminate");
    check((await many.locator("#timeline [role=group]").count()) < 20, "only the lanes in view are drawn");
  },

  async "a scenario is edited, shared, saved and begun"({ page: start, open }) {
    const program = await start("user-reboot", "--seed", "11");
    const page = await open(program.link);
    await page.click("#choose");
    await page.selectOption("#begin-scenario", "preempt");
    const before = await page.inputValue("#begin-text");
    await page.fill("#begin-text", before.replace('"Preempt"', '"Preempt"\nnotise = "1s"'));
    await page.click("#begin");
    await has(page, "#begin-error", "did you mean `notice`");
    await page.fill("#begin-text", before.replace("about =", "# mine\nabout ="));
    await page.fill("#begin-machines", "1.5");
    await page.click("#begin");
    await has(page, "#begin-error", "found 1.5 as the number of machines, expected a whole number");
    await page.fill("#begin-machines", "2");
    await page.fill("#begin-vm", "spot_4");
    await page.fill("#begin-faults", "get.status:503@9");
    await page.click("#begin");
    await has(page, "#name", "preempt (edited)");
    await has(page, "#clients", "spot_5");
    await page.click("#share");
    const link = await page.inputValue("#share-link");
    await page.click("#share-close");
    check(!link.includes("token"), link);
    const row = await page.locator("#clients code").allInnerTexts();
    await poll(row[1]);
    await page.click("#step");
    await has(page, "#events", "Preempt");
    const id = await page.locator("#events th").first().getAttribute("title");
    await page.selectOption("#add-type", "Terminate");
    await page.fill("#add-resources", "{peer:1}, other");
    await page.click("#add-form [type=submit]");
    await has(page, "#events", "Terminate");
    await page.fill("#add-notice", "soon");
    await page.click("#add-form [type=submit]");
    await has(page, "#error", "is not a duration");
    await page.fill("#add-duration", "long");
    check(await page.locator("#add-duration").evaluate((input) => !input.checkValidity()), "a duration is a whole number");
    const saved = await downloaded(page, "#save");
    check(saved.includes('resources = ["{peer:1}", "other"]') && saved.includes("# --fault get.status:503@9 (spot_4)"), saved);
    // Somebody else opens the link.
    const other = await start(link);
    const theirs = await open(other.link);
    await has(theirs, "#clients", "spot_5");
    await poll(other.machines[0]);
    await theirs.click("#step");
    await until("the same EventId", async () => (await theirs.locator("#events th").first().getAttribute("title")) === id);
    // A file: what was saved, and what a watcher recorded.
    const file = (name, buffer) => ({ name, mimeType: "text/plain", buffer: Buffer.from(buffer) });
    await theirs.click("#choose");
    await theirs.setInputFiles("#begin-file", file("saved.toml", saved));
    await until("the file", async () => (await theirs.inputValue("#begin-text")) === saved);
    await theirs.click("#begin");
    await has(theirs, "#name", "saved.toml");
    const change = (word, second) => JSON.stringify({
      record: "change", change: word, event_id: "A", event_type: "Redeploy", resources: ["web_3"], not_before: "2026-01-01T00:10:00Z", mine: true, time: `2026-01-01T00:00:0${second}Z`,
    });
    await theirs.click("#choose");
    await theirs.setInputFiles("#begin-file", file("web_3.audit", `${change("scheduled", 1)}\n${change("started", 5)}\n${change("completed", 9)}\n`));
    await until("the recording", async () => (await theirs.inputValue("#begin-text")).includes("Recorded by"));
    await theirs.click("#begin");
    await has(theirs, "#name", "web_3.audit");
    await poll(other.machines[0]);
    await has(theirs, "#events", "Redeploy");
  },

  async "what a client logs is seen"({ page: start, open }) {
    const program = await start("user-reboot", "--speed", "10");
    const page = await open(program.link);
    const { records } = JSON.parse((await send(program.port, "/api/run", { headers: { Authorization: `Bearer ${program.token}` } })).text);
    const target = new URL(records).pathname;
    const ours = watch(program.machines[0], "--policy", "sample");
    await until("records", () => ours.output.includes('"change":"started"'));
    const answer = await send(program.port, `${target}WestNO_0`, { method: "PUT", body: `${ours.output}no record\n` });
    const { added, refused } = JSON.parse(answer.text);
    check(added > 3 && refused >= 1, answer.text);
    await has(page, "#log", "logged change scheduled");
    const evil = JSON.stringify({ record: "change", change: "<img src=x onerror=alert(1)>" });
    await send(program.port, `${target}WestNO_0`, { method: "POST", body: evil });
    await has(page, "#log", "<img src=x");
    check((await page.locator("#timeline .mark-record").count()) >= added, "each record is drawn");
    equal((await send(program.port, `${target}nobody`, { method: "POST", body: "{}" })).status, 404, "an unknown machine");
    equal((await send(program.port, "/records/x/WestNO_0", { method: "POST", body: "{}" })).status, 401, "a wrong key");
  },
});
