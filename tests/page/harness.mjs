// What the tests of the page share: the program, a browser, clients, and waiting.

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { request } from "node:http";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const root = new URL("../../", import.meta.url);
const modules = createRequire(new URL("target/tools/npm/page/node_modules/", root));
export const { chromium } = modules("playwright-core");
export const axe = modules.resolve("axe-core/axe.min.js");
export const path = (relative) => fileURLToPath(new URL(relative, root));

// Files of the tests, until they end.
const folder = mkdtempSync(join(tmpdir(), "page-"));
export const temporary = (name) => join(folder, name);
process.on("exit", () => rmSync(folder, { recursive: true, force: true }));

const [program, command] = process.argv.slice(2);
// No test reaches this time unless it fails.
export const PATIENCE = 120_000;

const children = new Set();
function start(file, args, options = {}) {
  const child = spawn(file, args, { stdio: ["ignore", "pipe", "pipe"], ...options });
  children.add(child);
  child.output = "";
  child.stdout.on("data", (data) => (child.output += data));
  child.stderr.on("data", (data) => (child.output += data));
  child.on("error", (error) => (child.output += error));
  child.on("exit", () => children.delete(child));
  return child;
}
export const stopAll = () => children.forEach((child) => child.kill("SIGKILL"));

// Starts the page with these arguments and returns its addresses. The last argument may be options of the process.
export async function startPage(...args) {
  const options = typeof args.at(-1) === "object" ? args.pop() : {};
  const child = start(program, args, options);
  const machines = [];
  let controlPlane = null;
  for await (const line of createInterface({ input: child.stdout })) {
    const [, url] = line.match(/^listening on (\S+)/) ?? [];
    if (url) machines.push(url);
    const [, outside] = line.match(/^control plane at (\S+)/) ?? [];
    controlPlane ??= outside;
    const [, link] = line.match(/^page at (\S+)/) ?? [];
    if (link) {
      const { origin, port } = new URL(link);
      return { child, machines, controlPlane, link, origin, port, token: link.split("token=")[1], stop: () => child.kill("SIGTERM") };
    }
  }
  throw new Error(`the page did not start: ${child.output}`);
}

// Our own watcher as the client of a machine.
export const watch = (endpoint, ...args) =>
  start(command, ["watch", "--json", "--endpoint", endpoint, "--interval", "250ms", ...args]);

// One request with exactly these headers.
export function send(port, target, { method = "GET", headers = {}, body } = {}) {
  return new Promise((resolve, reject) => {
    const sent = request({ host: "127.0.0.1", port, path: target, method, headers, setHost: headers.Host === undefined }, (response) => {
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (part) => (text += part));
      response.on("end", () => resolve({ status: response.statusCode, headers: response.headers, text }));
    });
    sent.on("error", reject);
    sent.setTimeout(PATIENCE, () => sent.destroy(new Error("no answer in time")));
    sent.end(body);
  });
}

// A request of a client to a machine, as the metadata service expects it.
const EVENTS = "/metadata/scheduledevents?api-version=2020-07-01";
export const poll = (url, headers = {}) =>
  send(new URL(url).port, EVENTS, { headers: { Metadata: "true", "User-Agent": "test", ...headers } });
export const approve = (url, ids) =>
  send(new URL(url).port, EVENTS, {
    method: "POST",
    headers: { Metadata: "true", "User-Agent": "test" },
    body: JSON.stringify({ StartRequests: ids.map((EventId) => ({ EventId })) }),
  });

// Polls like a client until it is stopped.
export function poller(url, { every = 200, headers = {} } = {}) {
  const timer = setInterval(() => poll(url, headers).catch(() => {}), every);
  return { stop: () => clearInterval(timer) };
}

// Waits until `check` returns something true, and returns it.
export async function until(what, check) {
  for (const since = Date.now(); ; ) {
    const result = await check();
    if (result) return result;
    if (Date.now() - since > PATIENCE) throw new Error(`timed out waiting for: ${what}`);
    await new Promise((done) => setTimeout(done, 50));
  }
}

export function equal(found, expected, what) {
  const [a, b] = [JSON.stringify(found), JSON.stringify(expected)];
  if (a !== b) throw new Error(`${what}: expected ${b}, found ${a}`);
}
export function check(condition, what) {
  if (!condition) throw new Error(what);
}

// Opens the page in a tab of its own; with the option `beside`, in the same browser as that page. Whatever the browser complains
// about fails the test.
export async function open(browser, link, { beside, ...options } = {}) {
  const context = beside?.context() ?? (await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options }));
  context.setDefaultTimeout(PATIENCE);
  const page = await context.newPage();
  page.complaints = [];
  // The requests that wait for an update.
  page.waiting = new Set();
  page.on("request", (request) => request.url().endsWith("wait=true") && page.waiting.add(request));
  for (const end of ["requestfinished", "requestfailed"]) page.on(end, (request) => page.waiting.delete(request));
  page.on("console", (message) => {
    // A refusal that a test provokes is reported as a failed resource.
    const isRefusal = /status of 4(22|01)/.test(message.text());
    if (["error", "warning"].includes(message.type()) && !isRefusal) page.complaints.push(message.text());
  });
  page.on("pageerror", (error) => page.complaints.push(String(error)));
  await page.goto(link);
  await page.waitForFunction(() => document.getElementById("status").textContent !== "Connecting…");
  return page;
}

// Runs tests one after the other, and prints how many passed.
export async function run(tests) {
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", "--disable-dev-shm-usage"] });
  const only = process.env.ONLY;
  let [passed, failed] = [0, 0];
  for (const [name, test] of Object.entries(tests)) {
    if (only && !name.includes(only)) continue;
    const since = Date.now();
    const pages = [];
    const programs = [];
    try {
      await test({
        browser,
        page: async (...args) => (programs.push(await startPage(...args)), programs.at(-1)),
        open: async (link, options) => (pages.push(await open(browser, link, options)), pages.at(-1)),
      });
      for (const page of pages) equal(page.complaints, [], "what the browser complained about");
      passed += 1;
      console.log(`ok      ${name} (${((Date.now() - since) / 1000).toFixed(1)} s)`);
    } catch (error) {
      failed += 1;
      console.log(`FAILED  ${name}\n${error.stack}`);
      for (const page of pages) console.log("complaints:", page.complaints.join("\n"));
    }
    await Promise.all(pages.map((page) => page.context().close()));
    stopAll();
  }
  await browser.close();
  console.log(`${passed} passed, ${failed} failed`);
  process.exitCode = failed || !passed ? 1 : 0;
}
