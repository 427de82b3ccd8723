// Requests to the control, with the token from the link that the program printed.

let token = "";

// Takes the token out of the address, so that it is in no bookmark and no copied link, and returns
// the other parts.
export async function enter() {
  const parts = new URLSearchParams(location.hash.slice(1));
  const ticket = parts.get("ticket");
  token = parts.get("token") ?? sessionStorage.getItem("token") ?? "";
  parts.delete("token");
  parts.delete("ticket");
  history.replaceState(null, "", location.pathname + (parts.size ? `#${parts}` : ""));
  if (ticket) ({ token } = await request("/api/token", { body: JSON.stringify({ ticket }) }));
  sessionStorage.setItem("token", token);
  return parts;
}

async function request(path, { body, type = "application/json", text = false, signal } = {}) {
  const headers = { Authorization: `Bearer ${token}` };
  if (body !== undefined) headers["Content-Type"] = type;
  // Through the browser's cache, equal requests of two tabs would wait for each other.
  const response = await fetch(path, { method: body === undefined ? "GET" : "POST", headers, body, signal, cache: "no-store" }).catch((error) => {
    throw error.name === "AbortError" ? error : new Error("the program does not answer");
  });
  if (!response.ok) {
    const answer = await response.json().catch(() => ({}));
    const error = new Error(answer.error ?? `the program answered ${response.status}`);
    error.status = response.status;
    throw error;
  }
  return text ? response.text() : response.json();
}

export const get = (path, signal) => request(path, { signal });
export const getText = (path) => request(path, { text: true });
export const act = (action) => request("/api/action", { body: JSON.stringify(action) });
export const fromFile = (text) => request("/api/recording", { body: text, type: "application/octet-stream", text: true });
