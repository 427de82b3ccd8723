// A service in Node.js 18 or newer that drains before an event of its machine and approves it, without a library:
//
//   scheduled-events replay user-reboot --speed 20 -- node client.mjs
//
// It ends once an event was seen and none is left; a service goes on.
const endpoint = process.env.SCHEDULED_EVENTS_ENDPOINT ?? "http://169.254.169.254";
const headers = { Metadata: "true", "User-Agent": "example-node/1.0" };
const events = "/metadata/scheduledevents?api-version=2020-07-01";
const sleep = (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1000));

// Redirects are errors, since the service sends none. The first answer may take two minutes.
async function request(path, seconds, body) {
  const options = { method: body ? "POST" : "GET", headers, body, redirect: "error", signal: AbortSignal.timeout(seconds * 1000) };
  const response = await fetch(endpoint + path, options);
  if (!response.ok) throw new Error(`status ${response.status}`);
  return await response.text();
}

async function drain(event) {
  console.log(`drained for ${event.EventType}`);
}

async function undrain() {
  console.log("serving again");
}

const drained = new Set();
const approved = new Set();
let name;
let answered = false;
for (let failures = 0; ; ) {
  try {
    name ??= (await request("/metadata/instance/compute/name?api-version=2021-02-01&format=text", 5)).toLowerCase();
    // An empty or broken document throws: it does not mean that there are no events.
    const document = JSON.parse(await request(events, answered ? 5 : 130));
    answered = true;
    failures = 0;
    const mine = document.Events.filter((event) => event.Resources.some((resource) => resource.toLowerCase() === name));
    for (const event of mine) {
      if (drained.has(event.EventId)) continue;
      await drain(event);
      drained.add(event.EventId);
    }
    const ready = mine.filter((event) => event.EventStatus === "Scheduled" && !approved.has(event.EventId));
    if (ready.length > 0) {
      const StartRequests = ready.map(({ EventId }) => ({ EventId }));
      await request(events, 5, JSON.stringify({ StartRequests }));
      ready.forEach(({ EventId }) => approved.add(EventId));
      console.log(`approved ${ready.length}`);
    }
    if (drained.size > 0 && mine.length === 0) {
      await undrain();
      break;
    }
  } catch (error) {
    failures += 1;
    console.error(`a request failed: ${error.message}`);
  }
  // Longer after each failure in a row, but never so long that a notice of 30 seconds is missed.
  await sleep(Math.min(2 ** failures, 10));
}
