// The list of pods. Strips are drawn for rows that are in sight; the others wait.

import { byId, h, setAttribute, setClass, setText, sync } from "./dom.js";
import { age, changed, matches, now, state } from "./state.js";
import { drawStrip, makeStrip } from "./charts.js";

export const STATES = { failed: "failed", notReady: "not ready", pending: "pending", terminating: "terminating", ready: "ready", succeeded: "succeeded" };
const ORDER = Object.keys(STATES);

let open = () => {};
const inSight = new Set();
const watcher = new IntersectionObserver((entries) => {
  for (const { target, isIntersecting } of entries) {
    if (isIntersecting) inSight.add(target);
    else inSight.delete(target);
  }
  drawStrips();
}, { rootMargin: "120px" });

const WAYS = {
  state: (one, other) => ORDER.indexOf(one.state) - ORDER.indexOf(other.state) || compare(one, other),
  name: (one, other) => compare(one, other),
  age: (one, other) => other.createdAt - one.createdAt || compare(one, other),
  restarts: (one, other) => other.restarts - one.restarts || compare(one, other),
};
const compare = (one, other) => (one.key < other.key ? -1 : 1);

function make(row) {
  const parts = { name: h("div", { class: "name" }), sub: h("div", { class: "sub" }), strips: h("div", { class: "strips" }), word: h("div", { class: "word" }), more: h("div", { class: "sub" }) };
  const button = h("button", { class: "pod", type: "button", "data-pod": row.key, on: { click: () => open(row.key) } },
    h("div", { class: "who" }, h("span", { class: "dot" }), h("div", {}, parts.name, parts.sub)),
    parts.strips, h("div", { class: "what" }, parts.word, parts.more));
  const item = h("li", {}, button);
  Object.assign(item, { parts, button, drawn: new Map() });
  watcher.observe(item);
  return item;
}

function update(item, row) {
  if (item.row === row) return;
  item.row = row;
  const { parts, button } = item;
  setClass(item, `s-${row.state}`);
  setText(parts.name, row.name);
  setText(parts.sub, [row.namespace, row.node, row.owner].filter(Boolean).join(" · "));
  setText(parts.word, row.reason || STATES[row.state]);
  setAttribute(parts.word, "title", row.message);
  setAttribute(button, "aria-label", `pod ${row.name} in ${row.namespace}: ${STATES[row.state]} ${row.reason}`);
  setAttribute(button, "data-state", row.state);
  sync(parts.strips, row.probes, (probe) => {
    const strip = makeStrip(probe);
    item.drawn.set(probe.key, strip);
    return strip.element;
  }, () => {});
  for (const key of item.drawn.keys()) if (!row.probes.some((probe) => probe.key === key)) item.drawn.delete(key);
  tell(item);
  if (inSight.has(item)) drawItem(item);
}

function tell(item) {
  const { row, parts } = item;
  const restarts = row.restarts ? `${row.restarts} restart${row.restarts > 1 ? "s" : ""} · ` : "";
  setText(parts.more, `${restarts}${age(now() - (row.since || row.createdAt))}`);
}

function drawItem(item) {
  for (const probe of item.row.probes) {
    const strip = item.drawn.get(probe.key);
    if (strip) drawStrip(strip, probe);
  }
}

export function drawStrips() {
  for (const item of inSight) if (item.row) drawItem(item);
}

/** Ages go on without news. */
export function tick() {
  for (const item of inSight) if (item.row) tell(item);
}

function drawChips(counts) {
  const rows = ORDER.filter((name) => counts[name] || state.only === name).map((key) => ({ key, count: counts[key] ?? 0 }));
  sync(byId("states"), rows.length > 1 || state.only ? rows : [], (row) => h("button", { class: "chip", type: "button", "aria-pressed": "false", on: { click: () => {
    state.only = state.only === row.key ? null : row.key;
    changed.add("pods");
    document.dispatchEvent(new Event("redraw"));
  } } }, h("span", { class: `dot s-${row.key}` }), h("span")), (chip, row) => {
    setText(chip.lastChild, `${row.count} ${STATES[row.key]}`);
    setAttribute(chip, "aria-pressed", String(state.only === row.key));
  });
}

export function drawPods(opener) {
  open = opener;
  const counts = {};
  const rows = [];
  for (const row of state.pods.values()) {
    if (!matches(row.name, row.namespace, row.node, row.owner, row.reason, STATES[row.state], ...row.services)) continue;
    counts[row.state] = (counts[row.state] ?? 0) + 1;
    if (!state.only || row.state === state.only) rows.push(row);
  }
  rows.sort(WAYS[byId("sort").value]);
  sync(byId("pod-list"), rows, make, update);
  for (const item of inSight) if (!item.isConnected) { watcher.unobserve(item); inSight.delete(item); }
  setText(byId("pods-count"), rows.length === state.pods.size ? rows.length : `${rows.length} of ${state.pods.size}`);
  drawChips(counts);
  const none = byId("pods-none");
  none.hidden = rows.length > 0;
  setText(none, state.pods.size ? "No pod matches." : "There are no pods yet.");
}
