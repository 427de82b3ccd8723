// Takes the screenshots of docs/use/replay-page.md: make page-images.

import { writeFile } from "node:fs/promises";

import { approve, path, poll, run, send, temporary, until, watch } from "./harness.mjs";

// Waits until the page shows what it knows, and saves a part of it.
async function shoot(page, selectors, name) {
  await page.evaluate(() => document.activeElement.blur());
  const boxes = await Promise.all(selectors.map((selector) => page.locator(selector).boundingBox()));
  const [left, top] = [Math.min(...boxes.map((box) => box.x)), Math.min(...boxes.map((box) => box.y))];
  const [right, bottom] = [Math.max(...boxes.map((box) => box.x + box.width)), Math.max(...boxes.map((box) => box.y + box.height))];
  const clip = { x: left, y: top, width: right - left, height: bottom - top };
  await page.screenshot({ path: path(`docs/images/${name}.png`), clip, fullPage: true });
}

run({
  async "screenshots of two clients side by side"({ page: start, open }) {
    const scenario = temporary("maintenance.toml");
    const event = (type, vm, appears, more) =>
      `[[event]]\nevent_type = "${type}"\ndescription = "Host server is undergoing maintenance."\nresources = ["${vm}"]\nappears = "${appears}"\nstarts_after_approval = "30s"\n${more}\n`;
    await writeFile(scenario, `about = "Maintenance of the host pauses two VMs, and the second one is restarted."\n${
      event("Freeze", "{vm}", "20s", 'started_for = "60s"\nduration_in_seconds = 9')}${
      event("Freeze", "{peer:1}", "20s", 'notice = "60s"\nstarted_for = "60s"\nduration_in_seconds = 9')}${
      event("Reboot", "{peer:1}", "90s", 'notice = "80s"\nstarted_for = "40s"')}`);
    const program = await start(scenario, "--machines", "2", "--speed", "10", "--seed", "7", "--fault", "get.status:503@12-14");
    const page = await open(program.link, { viewport: { width: 1100, height: 800 }, colorScheme: "light" });
    const policy = temporary("policy.toml");
    await writeFile(policy, '[[rule]]\naction = "approve"\n');
    const ours = watch(program.machines[0], "--policy", policy, "--vm-name", "WestNO_0");
    // The second client forgets the header at first, and approves what has started.
    const [, second] = program.machines;
    await send(new URL(second).port, "/metadata/scheduledevents?api-version=2020-07-01");
    for (let isApproved = false; !isApproved; ) {
      const { status, text } = await poll(second);
      const reboot = status === 200 && JSON.parse(text).Events.find((it) => it.EventType === "Reboot" && it.EventStatus === "Started");
      if (reboot) await approve(second, [reboot.EventId]);
      isApproved = Boolean(reboot);
      await new Promise((done) => setTimeout(done, 1000));
    }
    await page.click("#clients tr:nth-child(2) button");
    await until("the verdict", async () => (await page.locator("#verdict td.bad").count()) > 1);
    await page.press("#timeline", "Home");
    await shoot(page, ["header", "main > section:first-child"], "replay-page");
    await page.setViewportSize({ width: 1360, height: 800 });
    await shoot(page, [".columns > section:nth-child(1)", ".columns > section:nth-child(2)"], "replay-page-verdict");
    await page.setViewportSize({ width: 1100, height: 800 });
    await page.emulateMedia({ colorScheme: "dark" });
    await shoot(page, ["main > section:first-child"], "replay-page-dark");
    ours.kill("SIGTERM");
  },
});
