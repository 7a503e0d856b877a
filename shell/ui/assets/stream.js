// The one stream: lines of JSON. It goes on by itself after every interruption, from where it was.

import { heard, silence, state, take } from "./state.js";

const WAITS = [250, 500, 1000, 2000, 4000];
/** Who hears nothing for this long is behind: the server says something every second. */
const BEHIND_MS = 3000;
/** And after this long the connection is given up. */
const DEAD_MS = 10000;

export const link = { state: "connecting", words: "connecting", problem: "" };

const token = () => location.hash.slice(1);
export const ask = (path, options = {}) => fetch(path, { ...options, headers: { Authorization: `Bearer ${token()}` }, cache: "no-store" });

function set(name, words, problem = "") {
  Object.assign(link, { state: name, words, problem });
}

async function lines(body, use) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n");
    rest = parts.pop();
    for (const part of parts) if (part) use(JSON.parse(part));
  }
}

async function once(used) {
  const since = state.revision !== null && state.instance ? `?since=${state.revision}&instance=${state.instance}` : "";
  const dead = new AbortController();
  const watchdog = setInterval(() => { if (link.state !== "connecting" && silence() > DEAD_MS) dead.abort(); }, 1000);
  try {
    const response = await ask(`/stream${since}`, { signal: dead.signal });
    if (response.status === 403) return "refused";
    if (!response.ok) return "failed";
    await lines(response.body, (line) => {
      if (line.instance) {
        Object.assign(state, { instance: line.instance, cluster: line.cluster, version: line.version });
        return;
      }
      heard(line.at);
      take(line);
      set("live", "live");
      used();
    });
    return "ended";
  } catch {
    return "failed";
  } finally {
    clearInterval(watchdog);
  }
}

/** Follows for ever; `used` is called after each line, `shown` when the state of the link changed. */
export async function follow(used, shown) {
  let failures = 0;
  for (;;) {
    const outcome = await once(() => { failures = 0; used(); });
    if (outcome === "refused") {
      set("away", "no access", "The token in the address is missing or wrong. Open the address that was printed by the command.");
      shown();
      await new Promise((done) => addEventListener("hashchange", done, { once: true }));
      continue;
    }
    set("away", "reconnecting", "The connection is lost; what you see is from before. Trying again.");
    shown();
    await new Promise((done) => setTimeout(done, WAITS[Math.min(failures++, WAITS.length - 1)]));
  }
}

/** Says when the page is behind. */
export function check() {
  const quiet = silence();
  if (link.state === "live" && quiet > BEHIND_MS) {
    set("behind", `behind by ${Math.round(quiet / 1000)} s`, "Nothing was heard for a while; what you see is from before.");
  } else if (link.state === "behind") {
    set("behind", `behind by ${Math.round(quiet / 1000)} s`, link.problem);
  }
}
