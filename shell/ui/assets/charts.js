// Strips, charts and waterfalls.

import { h, s, setAttribute, setClass, setText } from "./dom.js";
import { attemptsOf, now, span, state } from "./state.js";

const GOOD = new Set(["success", "warning"]);
const CLASSES = { success: "good", warning: "warn", failure: "bad", unknown: "idle" };
const LABELS = { Readiness: "readiness", Liveness: "liveness", Startup: "startup" };

/** How tall a bar is, from 0 to 1: a millisecond is small, a second is all. */
const height = (tookUs) => Math.min(1, Math.max(.28, .28 + .24 * Math.log10(Math.max(1, tookUs / 300))));

const BARS = 120;
const PITCH = 5;
const TALL = 17;

/** Makes the strip of a probe: one bar for each attempt. */
export function makeStrip(probe) {
  const label = h("span", { class: "label" }, LABELS[probe.probe] ?? probe.probe);
  const paths = Object.fromEntries(Object.values(CLASSES).map((name) => [name, s("path", { class: name, fill: "none", "stroke-width": 3 })]));
  // Drawn from the right edge to the left, in pixels: what does not fit is cut off.
  const svg = s("svg", { role: "img" }, s("svg", { x: "100%", overflow: "visible" }, ...Object.values(paths)));
  const still = h("span", { class: "still" });
  const took = h("span", { class: "took" });
  const element = h("div", { class: "strip" }, label, still, took);
  return { element, label, svg, still, took, paths, version: 0, probe };
}

/** Draws a strip if it changed. */
export function drawStrip(strip, probe) {
  const row = state.strips.get(probe.key);
  const version = row?.version ?? -1;
  if (strip.version === version && strip.probe === probe) return;
  strip.version = version;
  strip.probe = probe;
  const attempts = attemptsOf(row).slice(-BARS);
  const what = `${probe.probe} probe of ${probe.container}: ${probe.asks}, every ${span(probe.periodMs)}`;
  if (!attempts.length) {
    if (strip.svg.parentNode) strip.svg.replaceWith(strip.still);
    setText(strip.still, row?.knocking ? "waits until it listens" : probe.asks || "no probe");
    setText(strip.took, span(probe.periodMs));
    setClass(strip.element, "strip");
    setAttribute(strip.element, "title", what);
    return;
  }
  if (strip.still.parentNode) strip.still.replaceWith(strip.svg);
  const d = {};
  attempts.forEach(([, tookUs, outcome], index) => {
    const name = CLASSES[outcome] ?? "idle";
    const x = (index - attempts.length) * PITCH + PITCH / 2;
    const tall = GOOD.has(outcome) ? height(tookUs) * TALL : TALL;
    d[name] = `${d[name] ?? ""}M${x} ${TALL}V${(TALL - tall).toFixed(1)}`;
  });
  for (const [name, path] of Object.entries(strip.paths)) setAttribute(path, "d", d[name] ?? "");
  const [, tookUs, outcome, message] = attempts.at(-1);
  const failing = !GOOD.has(outcome);
  setClass(strip.element, failing ? "strip failing" : "strip");
  setText(strip.took, failing ? outcome : span(tookUs / 1000));
  setAttribute(strip.element, "title", message ? `${what}\n${message}` : what);
  const bad = attempts.filter((attempt) => !GOOD.has(attempt[2])).length;
  setAttribute(strip.svg, "aria-label", `${LABELS[probe.probe] ?? probe.probe}: ${attempts.length} attempts, ${bad} failed`);
}

/** Returns whether the last attempt of a probe failed. */
export function isFailing(probe) {
  const last = state.strips.get(probe.key)?.attempts.at(-1);
  return last ? !GOOD.has(last[2]) : false;
}

const WIDE = 640;
const HIGH = 54;
const FLOOR = 52;

/** Draws all attempts of a probe over time. */
export function drawChart({ svg, axis }, key) {
  const attempts = attemptsOf(state.strips.get(key));
  const end = now() * 1000;
  const first = attempts.length ? attempts[0][0] : end - 60e6;
  const wide = Math.max(10e6, end - first);
  const longest = Math.max(1000, ...attempts.map((attempt) => attempt[1]));
  const x = (at) => ((at - first) / wide) * (WIDE - 6) + 3;
  const parts = attempts.map(([began, tookUs, outcome, message]) => {
    const tall = GOOD.has(outcome) ? Math.max(3, (tookUs / longest) * (FLOOR - 10)) : FLOOR - 4;
    const at = x(began).toFixed(1);
    const words = `${span((end - began) / 1000)} ago, took ${span(tookUs / 1000)}: ${outcome}${message ? `, ${message}` : ""}`;
    return s("path", { class: CLASSES[outcome] ?? "idle", "stroke-width": 3, "vector-effect": "non-scaling-stroke", d: `M${at} ${FLOOR}V${(FLOOR - tall).toFixed(1)}` }, s("title", {}, words));
  });
  svg.replaceChildren(...parts);
  [`${span(wide / 1000)} ago`, `longest ${span(longest / 1000)}`, "now"].forEach((words, index) => setText(axis.children[index], words));
}

export function makeChart() {
  const svg = s("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, preserveAspectRatio: "none", role: "img", "aria-label": "attempts over time" });
  const axis = h("div", { class: "axis" }, h("span"), h("span"), h("span"));
  return { svg, axis, element: h("div", {}, svg, axis) };
}

const STEPS = { created: "created", scheduled: "scheduled", started: "started", listened: "listened", probed: "probed", ready: "ready", inSlice: "in slice" };

/** Returns the waterfall of a start: a bar from each step to the next. */
export function waterfall(steps) {
  const exact = steps.filter((step) => step.exact);
  const used = exact.length > 1 ? exact : steps;
  if (used.length < 2) return null;
  const ordered = [...used].sort((one, other) => one.at - other.at);
  const [from, to] = [ordered[0].at, ordered.at(-1).at];
  const whole = Math.max(1, to - from);
  const rows = ordered.flatMap((step, index) => {
    const before = index ? ordered[index - 1].at : step.at;
    const bar = h("i", { class: index === ordered.length - 1 ? "done" : "" });
    bar.style.left = `${((before - from) / whole) * 99}%`;
    bar.style.width = `${Math.max(.4, ((step.at - before) / whole) * 99)}%`;
    const at = step.exact ? span((step.at - from) / 1000) : `${Math.round((step.at - from) / 1e6)} s`;
    return [h("span", { class: "label" }, STEPS[step.step] ?? step.step), h("div", { class: "track" }, bar), h("span", { class: "at" }, index ? `+ ${at}` : "0")];
  });
  return h("div", { class: "fall" }, rows);
}
