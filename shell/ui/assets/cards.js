// Everything beside the pods: tiles, nodes, Services, profile, markers, events.

import { byId, h, setAttribute, setClass, setText, sync } from "./dom.js";
import { age, matches, now, state } from "./state.js";
import { isFailing } from "./charts.js";

const none = (id, rows, all, words) => {
  const element = byId(id);
  element.hidden = rows.length > 0;
  setText(element, all ? "Nothing matches." : words);
};
const count = (id, rows, all) => setText(byId(id), rows.length === all ? all : `${rows.length} of ${all}`);
const byKey = (one, other) => (one.key < other.key ? -1 : 1);

// Tiles

function tile(key, title) {
  const parts = { figure: h("div", { class: "figure" }, h("span"), h("small")), bar: h("div", { class: "bar" }), words: h("div", { class: "words" }) };
  const element = h("div", { class: "tile", "data-tile": key }, h("h3", {}, title), parts.figure, parts.bar, parts.words);
  return Object.assign(element, { parts });
}

function show(element, figure, of, segments, words, bad) {
  const { parts } = element;
  setText(parts.figure.firstChild, figure);
  setText(parts.figure.lastChild, of);
  sync(parts.bar, segments.filter(([, size]) => size).map(([key, size]) => ({ key, size })), (row) => h("i", { class: row.key }), (part, row) => { part.style.flexGrow = row.size; });
  setText(parts.words, words);
  setClass(parts.words, bad ? "words bad" : "words");
}

const tiles = { pods: tile("pods", "Pods ready"), probes: tile("probes", "Probes good"), endpoints: tile("endpoints", "Endpoints ready"), nodes: tile("nodes", "Nodes ready"), events: tile("events", "Warnings") };

export function drawTiles() {
  const host = byId("tiles");
  if (!host.firstChild) host.append(...Object.values(tiles));
  const by = { ready: 0, notReady: 0, failed: 0, pending: 0, terminating: 0, succeeded: 0 };
  let [failing, known, probes] = [0, 0, 0];
  for (const pod of state.pods.values()) {
    by[pod.state] += 1;
    for (const probe of pod.probes) {
      probes += 1;
      if (state.strips.get(probe.key)?.attempts.length) known += 1;
      if (isFailing(probe)) failing += 1;
    }
  }
  const off = by.notReady + by.failed;
  const starting = by.pending ? `${by.pending} pending` : "";
  const going = by.terminating ? `${by.terminating} terminating` : "";
  show(tiles.pods, by.ready, ` / ${state.pods.size - by.succeeded}`, [["good-bg", by.ready], ["idle-bg", by.pending], ["drain-bg", by.terminating], ["warn-bg", by.notReady], ["bad-bg", by.failed]],
    [off ? `${off} not ready` : "", starting, going].filter(Boolean).join(", ") || (state.pods.size ? "all ready" : "none yet"), off > 0);
  show(tiles.probes, known ? known - failing : probes, known ? ` / ${known}` : " probes", [["good-bg", known - failing], ["bad-bg", failing], ["idle-bg", known ? 0 : probes]],
    failing ? `${failing} failing now` : known ? "every last attempt is good" : probes ? "attempts are known to agents only" : "no pod has probes", failing > 0);
  let [ready, draining, rest] = [0, 0, 0];
  for (const service of state.services.values()) { ready += service.ready; draining += service.draining; rest += service.notReady; }
  show(tiles.endpoints, ready, ` / ${ready + draining + rest}`, [["good-bg", ready], ["drain-bg", draining], ["idle-bg", rest]],
    [draining ? `${draining} draining` : "", rest ? `${rest} not ready` : ""].filter(Boolean).join(", ") || (ready ? "all ready" : "none"), false);
  const nodes = [...state.nodes.values()];
  const up = nodes.filter((node) => node.ready === "True").length;
  show(tiles.nodes, up, ` / ${nodes.length}`, [["good-bg", up], ["bad-bg", nodes.length - up]], up < nodes.length ? `${nodes.length - up} not ready` : "all beat in time", up < nodes.length);
  const since = now() - 600e3;
  const warnings = [...state.events.values()].filter((event) => event.warning && event.at > since);
  const newest = warnings.sort((one, other) => other.at - one.at)[0];
  show(tiles.events, warnings.length, " in 10 min", [["warn-bg", warnings.length], ["idle-bg", warnings.length ? 0 : 1]], newest ? `last: ${newest.reason}` : "quiet", false);
}

// Nodes

function makeNode(open) {
  return (row) => {
    const parts = { dot: h("span", { class: "dot" }), name: h("span", { class: "name" }), right: h("span", { class: "right" }), fill: h("i"), beat: h("div", { class: "beat" }), words: h("div", { class: "sub" }), tags: h("div", { class: "tags" }) };
    parts.beat.append(parts.fill);
    const button = h("button", { class: "line", type: "button", "data-node": row.key, on: { click: () => open("node", "", row.key) } }, h("div", { class: "first" }, parts.dot, parts.name, parts.right), parts.beat, parts.words, parts.tags);
    return Object.assign(h("li", {}, button), { parts, button });
  };
}

function updateNode(item, row) {
  item.row = row;
  const { parts } = item;
  setClass(parts.dot, `dot s-${row.ready === "True" ? "ready" : row.ready === "" ? "pending" : "failed"}`);
  setText(parts.name, row.key);
  setAttribute(item.button, "data-ready", row.ready);
  setText(parts.right, row.ready === "True" ? `${row.podsReady} of ${row.pods} pods ready` : row.reason || "not ready");
  const tags = row.taints.map((key) => ({ key, name: "warn" }));
  if (row.agent) tags.unshift({ key: "agent of Lifesign", name: "good" });
  if (row.unschedulable) tags.push({ key: "unschedulable", name: "warn" });
  sync(parts.tags, tags, (tag) => h("span", { class: `tag ${tag.name}` }, tag.key), () => {});
  tickNode(item);
}

function tickNode({ row, parts }) {
  if (!row.heartbeatAt) {
    setText(parts.words, "no heartbeat yet");
    setClass(parts.beat, "beat");
    parts.fill.style.transform = "scaleX(0)";
    return;
  }
  const old = Math.max(0, now() - row.heartbeatAt);
  const left = Math.max(0, Math.floor((row.graceMs - old) / Math.max(1, row.intervalMs)));
  const assumed = row.graceKnown ? "" : " (assumed)";
  setText(parts.words, old < row.graceMs
    ? `heartbeat ${age(old)} ago of ${age(row.graceMs)}${assumed} · ${left} chance${left === 1 ? "" : "s"} left`
    : `silent for ${age(old)}, longer than ${age(row.graceMs)}${assumed}`);
  setClass(parts.beat, old >= row.graceMs ? "beat lost" : old > 1.6 * row.intervalMs ? "beat late" : "beat");
  parts.fill.style.transform = `scaleX(${Math.min(1, old / row.graceMs).toFixed(3)})`;
}

export function drawNodes(open) {
  const rows = [...state.nodes.values()].filter((row) => matches(row.key, row.reason, ...row.taints)).sort(byKey);
  sync(byId("node-list"), rows, makeNode(open), updateNode);
  count("nodes-count", rows, state.nodes.size);
  none("nodes-none", rows, state.nodes.size, "There are no nodes.");
}

// Services

function makeService(open) {
  return (row) => {
    const parts = { name: h("span", { class: "name" }), right: h("span", { class: "right" }), cells: h("div", { class: "cells" }), words: h("div", { class: "sub" }) };
    const [namespace, name] = row.key.split("/");
    const button = h("button", { class: "line", type: "button", "data-service": row.key, on: { click: () => open("svc", namespace, name) } }, h("div", { class: "first" }, parts.name, parts.right), parts.cells, parts.words);
    return Object.assign(h("li", {}, button), { parts, button });
  };
}

const kindOf = (endpoint) => (endpoint.ready ? "ready" : endpoint.terminating ? (endpoint.serving ? "draining" : "gone") : "");
const wordOf = (endpoint) => (endpoint.ready ? "ready" : endpoint.terminating ? (endpoint.serving ? "terminating, still serving" : "terminating") : "not ready");

function updateService(item, row) {
  if (item.row === row) return;
  rate(item, row);
  item.row = row;
  const { parts } = item;
  const [namespace, name] = row.key.split("/");
  setText(parts.name, name);
  const words = [[row.ready, "ready"], [row.draining, "draining"], [row.notReady, "not ready"]].filter(([size]) => size).map(([size, word]) => `${size} ${word}`);
  setText(parts.right, words.join(", ") || "no endpoints");
  sync(parts.cells, row.endpoints.map((endpoint) => ({ ...endpoint, key: `${endpoint.name} ${endpoint.address}` })), () => h("span", { class: "cell" }), (cell, endpoint) => {
    setClass(cell, `cell ${kindOf(endpoint)}`);
    setAttribute(cell, "title", `${endpoint.name} ${endpoint.address}: ${wordOf(endpoint)}`);
  });
  tellService(item);
}

/** Connections in a second: from what is carried between two looks. */
function rate(item, row) {
  const at = now();
  if (row.connections === undefined) return;
  if (item.carried && row.connections > item.carried.count) item.rate = (row.connections - item.carried.count) / Math.max(.5, (at - item.carried.at) / 1000);
  item.carried = { count: row.connections, at };
}

function tellService(item) {
  const { row, parts } = item;
  const [namespace] = row.key.split("/");
  if (item.carried && now() - item.carried.at > 2500) item.rate = 0;
  const carried = row.connections === undefined ? "" : item.rate ? `${item.rate < 10 ? item.rate.toFixed(1) : Math.round(item.rate)} connections/s` : `${row.connections} connections`;
  const where = row.clusterIp && row.clusterIp !== "None" ? row.clusterIp : row.clusterIp === "None" ? "headless" : row.type;
  setText(parts.words, [namespace, where, row.ports.join(", "), carried].filter(Boolean).join(" · "));
}

export function drawServices(open) {
  const rows = [...state.services.values()].filter((row) => matches(row.key, row.clusterIp, ...row.endpoints.map((endpoint) => endpoint.name))).sort(byKey);
  sync(byId("service-list"), rows, makeService(open), updateService);
  count("services-count", rows, state.services.size);
  none("services-none", rows, state.services.size, "There are no Services.");
}

// Latency profile

const OWNERS = { KubeAPIServerOperator: "API server: tolerations", KubeControllerManagerOperator: "node lifecycle: grace", MachineConfigOperator: "nodes: heartbeats" };

export function drawProfile() {
  const row = [...state.profile.values()][0];
  byId("profile").hidden = !row;
  if (!row) return;
  const tag = row.rolledBack ? ["bad", "rolled back"] : row.paused ? ["warn", "paused"] : row.applied === row.wanted ? ["good", "applied"] : ["drain", "rolling out"];
  const path = h("div", { class: "path" }, h("b", {}, row.wanted), h("span", { class: `tag ${tag[0]}` }, tag[1]), row.applied && row.applied !== row.wanted ? h("span", { class: "sub" }, `now ${row.applied}`) : null);
  const owners = row.owners.map((owner) => h("div", { class: "owner", "data-owner": owner.owner }, h("span", { class: `dot s-${{ Complete: "ready", Progressing: "pending", Degraded: "failed" }[owner.state] ?? "none"}` }),
    h("div", {}, h("div", { class: "name" }, OWNERS[owner.owner] ?? owner.owner), h("div", { class: "sub", title: owner.message }, [owner.reason, owner.message].filter(Boolean).join(": ")))));
  const done = row.applied === row.wanted && row.owners.every((owner) => owner.state === "Complete");
  // What is done needs one line; a rollout shows all its steps.
  if (done) path.append(h("span", { class: "sub" }, row.owners.map((owner) => (OWNERS[owner.owner] ?? owner.owner).split(":")[0]).join(" · ")));
  byId("profile-body").replaceChildren(path, ...(done ? [] : owners));
}

// Markers

const TONES = { Succeeded: "good", Failed: "warn", Unknown: "" };

function updateMarker(item, row) {
  if (item.row === row) return;
  item.row = row;
  const [namespace, name] = row.key.split("/");
  const probes = row.probes.map((probe) => probe.error ? `${probe.name}: ${probe.error}` : probe.name).join(", ");
  const pods = row.pods.slice(0, 40).map((pod) => h("span", { class: `tag ${TONES[pod.states[0]] ?? ""}`, title: [pod.name, ...pod.states, ...pod.marks].join("\n"), "data-marked": pod.name },
    [pod.name, pod.marks.join(" ") || pod.states.filter(Boolean).join(" ") || "not known yet"].join(": ")));
  item.replaceChildren(h("div", { class: "line", "data-marker": row.key }, h("div", { class: "first" }, h("span", { class: "name" }, name), h("span", { class: "right" }, `${row.selects} pod${row.selects === 1 ? "" : "s"}`)),
    h("div", { class: "sub" }, `${namespace} · ${probes}`), h("div", { class: "tags" }, pods)));
}

export function drawMarkers() {
  byId("markers").hidden = state.markers.size === 0;
  const rows = [...state.markers.values()].filter((row) => matches(row.key, ...row.pods.map((pod) => pod.name))).sort(byKey);
  sync(byId("marker-list"), rows, () => h("li"), updateMarker);
  count("markers-count", rows, state.markers.size);
}

// Events

export function eventItem(row) {
  const parts = { time: h("time"), reason: h("span", { class: "reason" }), about: h("span", { class: "about" }), message: h("p") };
  return Object.assign(h("li", { "data-event": row.key }, h("div", { class: "event" }, parts.time, h("div", {}, h("div", {}, parts.reason, " ", parts.about), parts.message))), { parts });
}

export function updateEvent(item, row) {
  if (item.row !== row) {
    item.row = row;
    const { parts } = item;
    setClass(item.firstChild, row.warning ? "event warning" : "event");
    setText(parts.reason, row.count > 1 ? `${row.reason} × ${row.count}` : row.reason);
    setText(parts.about, `${row.kind} ${row.object}`);
    setText(parts.message, row.message);
    setAttribute(parts.message, "title", row.message);
  }
  setText(item.parts.time, row.at ? age(now() - row.at) : "");
}

const EVENTS_SHOWN = 80;

export function drawEvents() {
  const rows = [...state.events.values()].filter((row) => matches(row.reason, row.object, row.message, row.kind)).sort((one, other) => other.at - one.at || byKey(one, other));
  sync(byId("event-list"), rows.slice(0, EVENTS_SHOWN), eventItem, updateEvent);
  count("events-count", rows, state.events.size);
  none("events-none", rows, state.events.size, "There are no events.");
}

/** Ages go on without news. */
export function tick() {
  for (const item of byId("node-list").children) if (item.row) tickNode(item);
  for (const item of byId("service-list").children) if (item.row && item.carried) tellService(item);
  for (const item of byId("event-list").children) if (item.row) updateEvent(item, item.row);
}
