// Measures the CPU time of an idle page: make bench-page.

import { readFileSync, readdirSync } from "node:fs";

import { open, poll, run, until } from "./harness.mjs";

const SECONDS = Number(process.env.IDLE_SECONDS ?? 60);

// The CPU seconds of the program, and of the browser, which are the descendants of this process.
function used(program) {
  const processes = new Map();
  for (const id of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
    try {
      const fields = readFileSync(`/proc/${id}/stat`, "utf8").replace(/^.*\) /s, "").split(" ");
      processes.set(Number(id), { parent: Number(fields[1]), ticks: Number(fields[11]) + Number(fields[12]) });
    } catch {
      // It has ended.
    }
  }
  const isOurs = (id) => id === process.pid || (processes.has(id) && isOurs(processes.get(id).parent));
  const total = { program: 0, browser: 0 };
  for (const [id, { ticks }] of processes) {
    if (id === program) total.program += ticks;
    else if (id !== process.pid && isOurs(id)) total.browser += ticks;
  }
  return { program: total.program / 100, browser: total.browser / 100 };
}

async function measure(name, program) {
  await new Promise((done) => setTimeout(done, 5000));
  const before = used(program);
  await new Promise((done) => setTimeout(done, SECONDS * 1000));
  const after = used(program);
  const share = (part) => `${(((after[part] - before[part]) / SECONDS) * 100).toFixed(2)} %`;
  console.log(`${name.padEnd(46)} program ${share("program")}, browser ${share("browser")} of one processor`);
}

run({
  async "the CPU time of an idle page"({ page: start, browser }) {
    const empty = await browser.newContext();
    await (await empty.newPage()).goto("about:blank");
    const program = await start("user-reboot");
    await measure("no page, no client", program.child.pid);
    await empty.close();
    const page = await open(browser, program.link);
    await measure("a page that waits for the first poll", program.child.pid);
    await poll(program.machines[0]);
    await page.click("#pause");
    await until("a pause", async () => (await page.locator("#status").innerText()).startsWith("Paused"));
    await measure("a page that is paused", program.child.pid);
    await page.click("#pause");
    await measure("a page that plays, without a client", program.child.pid);
    await page.context().close();
  },
});
