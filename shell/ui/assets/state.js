// What is known, as the stream tells it. Bounded: attempts of the last ten minutes, at most 120 of each probe.

const KINDS = ["pods", "services", "nodes", "markers", "profile", "events"];
const ATTEMPTS_MAX = 120;
const WINDOW_US = 600e6;

export const state = { strips: new Map(), instance: null, revision: null, unanswered: null, filter: "", only: null };
for (const kind of KINDS) state[kind] = new Map();

/** Kinds of which something changed since they were last drawn. */
export const changed = new Set();

let clockOffset = 0;
let receivedAt = 0;

/** Returns the instant by the clock of the server, in milliseconds. */
export const now = () => performance.now() + clockOffset;
/** Returns how long nothing was heard, in milliseconds. */
export const silence = () => performance.now() - receivedAt;

export function heard(at) {
  receivedAt = performance.now();
  clockOffset = at - receivedAt;
}

function takeStrip(row) {
  const known = state.strips.get(row.key);
  const attempts = known ? known.attempts.concat(row.attempts) : row.attempts;
  if (attempts.length > ATTEMPTS_MAX) attempts.splice(0, attempts.length - ATTEMPTS_MAX);
  state.strips.set(row.key, { ...row, attempts, version: (known?.version ?? 0) + 1 });
}

/** Takes a line of the stream. */
export function take(line) {
  if (line.whole) for (const kind of [...KINDS, "strips"]) {
    state[kind].clear();
    changed.add(kind);
  }
  for (const kind of KINDS) {
    const changes = line[kind];
    if (!changes) continue;
    changed.add(kind);
    for (const key of changes.gone ?? []) state[kind].delete(key);
    for (const row of changes.put ?? []) state[kind].set(row.key, row);
  }
  if (line.strips) {
    changed.add("strips");
    for (const key of line.strips.gone ?? []) state.strips.delete(key);
    for (const row of line.strips.put ?? []) takeStrip(row);
  }
  state.revision = line.revision;
  state.unanswered = line.unanswered ?? null;
}

/** Returns the attempts of a strip that are not too old. */
export function attemptsOf(strip) {
  if (!strip) return [];
  const oldest = now() * 1000 - WINDOW_US;
  let first = 0;
  while (first < strip.attempts.length && strip.attempts[first][0] < oldest) first += 1;
  return first ? strip.attempts.slice(first) : strip.attempts;
}

/** Returns whether a text has every word that is searched for. */
export function matches(...texts) {
  if (!state.filter) return true;
  const all = texts.join(" ").toLowerCase();
  return state.filter.split(/\s+/).every((word) => all.includes(word));
}

/** Formats a span of milliseconds: as exact as it is short. */
export function span(ms) {
  if (ms < 0) return "0 s";
  if (ms < 1) return `${ms.toFixed(2)} ms`;
  if (ms < 10) return `${ms.toFixed(1)} ms`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60e3 && ms % 1000 === 0) return `${ms / 1000} s`;
  if (ms < 10e3) return `${(ms / 1000).toFixed(2)} s`;
  if (ms < 60e3) return `${Math.round(ms / 1000)} s`;
  return age(ms);
}

/** Formats an age in milliseconds: short, for people. */
export function age(ms) {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} d`;
}
