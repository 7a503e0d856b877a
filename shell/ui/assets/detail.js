// More about one object: what why and explain say, the waterfall of its start, every attempt, conditions, events.

import { byId, h, setText, sync } from "./dom.js";
import { age, now, span, state } from "./state.js";
import { drawChart, makeChart, waterfall } from "./charts.js";
import { eventItem, updateEvent } from "./cards.js";
import { STATES } from "./pods.js";
import { ask } from "./stream.js";

let shown = null;

const section = (title, ...children) => h("section", {}, h("h3", {}, title), children);
const pairs = (rows) => h("dl", { class: "pairs" }, rows.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));

function answerOf(detail) {
  if (detail.error) return h("div", { class: "answer" }, detail.error);
  const { why } = detail;
  const finding = why.finding;
  const box = h("div", { class: `answer ${why.verdict}` }, h("div", {}, h("b", {}, why.headline)));
  for (const seen of finding?.evidence ?? []) box.append(h("div", { class: "evidence" }, [seen.object, seen.field].filter(Boolean).join(" "), ": ", seen.value));
  for (const action of finding?.actions ?? []) box.append(h("div", { class: "do" }, action.say, action.command ? h("code", {}, action.command) : null));
  return box;
}

function findingsOf(detail) {
  return (detail.findings ?? []).map((finding) => h("div", { class: "finding" },
    h("div", {}, h("span", { class: `tag ${{ error: "bad", warning: "warn" }[String(finding.severity).toLowerCase()] ?? ""}` }, finding.id), " ", finding.text), finding.advice ? h("p", {}, finding.advice) : null));
}

async function askMore(view) {
  const { kind, namespace, name } = view;
  view.answer.replaceChildren(h("div", { class: "answer" }, "asking …"));
  let detail;
  try {
    const response = await ask(`/detail?kind=${kind}&namespace=${namespace}&name=${name}`);
    detail = response.ok ? await response.json() : { error: await response.text() };
  } catch (error) {
    detail = { error: String(error) };
  }
  if (shown !== view) return;
  view.answer.replaceChildren(answerOf(detail));
  const findings = findingsOf(detail);
  view.findings.replaceChildren(...(findings.length ? [section("What explain says of its probes", findings)] : []));
}

function drawPod(view, row) {
  setText(view.state, row.reason || STATES[row.state]);
  view.state.className = `tag ${{ ready: "good", succeeded: "good", failed: "bad", notReady: "warn", terminating: "drain" }[row.state] ?? ""}`;
  setText(view.sub, [row.namespace, row.node, row.address, row.owner].filter(Boolean).join(" · "));
  const parts = [];
  const fall = waterfall(row.steps);
  if (fall) parts.push(section(row.steps.some((step) => step.exact) ? "Start" : "Start, in whole seconds", fall));
  parts.push(section("Containers", pairs(row.containers.map((container) => [container.name, [container.state, container.reason, container.ready ? "ready" : "not ready", container.restarts ? `${container.restarts} restarts` : "", container.lastEnd ? `last end: ${container.lastEnd}` : "", container.message].filter(Boolean).join(", ")]))));
  parts.push(section("Conditions", pairs(row.conditions.map((condition) => [condition.type, [condition.status, condition.reason, condition.message, condition.since ? `for ${age(now() - condition.since)}` : ""].filter(Boolean).join(", ")]))));
  if (row.services.length) parts.push(section("Services", h("div", { class: "tags" }, row.services.map((name) => h("span", { class: "tag" }, name)))));
  view.facts.replaceChildren(...parts);
  sync(view.charts, row.probes, (probe) => {
    const chart = makeChart();
    return Object.assign(h("div", { class: "chart" }, h("div", { class: "head" }, h("b", {}, probe.probe), h("code", {}, probe.asks), h("span", { class: "sub" }, `${probe.container} · every ${span(probe.periodMs)} · timeout ${span(probe.timeoutMs)} · ${probe.failureThreshold === 1 ? "one failure counts" : `${probe.failureThreshold} failures in a row count`}${probe.moved ? " · moved from the kubelet" : ""}`)), chart.element, h("p", { class: "sub" })), { chart });
  }, () => {});
  view.probes.hidden = row.probes.length === 0;
  drawCharts(view, row);
}

function drawCharts(view, row) {
  for (const probe of row.probes) {
    const item = view.charts.known?.get(probe.key);
    if (!item) continue;
    const strip = state.strips.get(probe.key);
    const known = Boolean(strip?.attempts.length);
    item.chart.element.style.display = known ? "" : "none";
    if (known && item.drawn !== strip.version) {
      item.drawn = strip.version;
      drawChart(item.chart, probe.key);
    }
    const failed = strip?.attempts.findLast((attempt) => attempt[3]);
    setText(item.lastChild, known ? (failed ? `last message: ${failed[3]}` : "") : "Attempts are known where an agent of Lifesign runs the pods.");
  }
}

function drawEventsOf(view) {
  const object = view.namespace ? `${view.namespace}/${view.name}` : view.name;
  const kind = { pod: "Pod", svc: "Service", node: "Node" }[view.kind];
  const rows = [...state.events.values()].filter((row) => row.object === object && row.kind === kind).sort((one, other) => other.at - one.at);
  view.events.hidden = rows.length === 0;
  sync(view.eventList, rows.slice(0, 30), eventItem, updateEvent);
}

function drawService(view, row) {
  setText(view.state, `${row.ready} ready`);
  view.state.className = `tag ${row.ready ? "good" : "bad"}`;
  setText(view.sub, [view.namespace, row.type, row.clusterIp, row.ports.join(", ")].filter(Boolean).join(" · "));
  view.facts.replaceChildren(section("Endpoints", pairs(row.endpoints.map((endpoint) => [endpoint.name, [endpoint.address, endpoint.ready ? "ready" : "not ready", endpoint.serving ? "serving" : "", endpoint.terminating ? "terminating" : "", endpoint.node].filter(Boolean).join(", ")]))));
}

function drawNode(view, row) {
  setText(view.state, row.ready === "True" ? "Ready" : row.reason || "not ready");
  view.state.className = `tag ${row.ready === "True" ? "good" : "bad"}`;
  setText(view.sub, `${row.podsReady} of ${row.pods} pods ready`);
  view.facts.replaceChildren(section("Heartbeat", pairs([["interval", span(row.intervalMs)], ["grace", span(row.graceMs) + (row.graceKnown ? "" : " (assumed)")], ["message", row.message || "none"], ["taints", row.taints.join(", ") || "none"]])));
}

/** Draws what is shown again, if it is still there. */
export function drawDetail(kinds) {
  if (!shown) return;
  const view = shown;
  const key = view.namespace ? `${view.namespace}/${view.name}` : view.name;
  const [table, draw] = { pod: ["pods", drawPod], svc: ["services", drawService], node: ["nodes", drawNode] }[view.kind];
  const row = state[table].get(key);
  if (!row) {
    setText(view.state, "gone");
    view.state.className = "tag";
  } else if (view.row !== row) {
    // Another state may have another reason.
    const news = view.row && (view.row.state !== row.state || view.row.reason !== row.reason || view.row.ready !== row.ready);
    view.row = row;
    draw(view, row);
    if (news) askMore(view);
  } else if (view.kind === "pod" && kinds.has("strips")) {
    drawCharts(view, row);
  }
  if (!kinds.size || kinds.has("events")) drawEventsOf(view);
}

export function openDetail(kind, namespace, name) {
  const dialog = byId("detail");
  const view = { kind, namespace, name, answer: h("div"), findings: h("div"), facts: h("div"), charts: h("div"), eventList: h("ol", { class: "rows" }), state: h("span", { class: "tag" }), sub: h("div", { class: "sub" }) };
  view.probes = h("section", {}, h("h3", {}, "Probes"), view.charts);
  view.events = h("section", {}, h("h3", {}, "Events"), view.eventList);
  if (kind !== "pod") view.probes.hidden = true;
  const close = h("button", { class: "plain", type: "button", on: { click: () => dialog.close() } }, "Close");
  dialog.replaceChildren(h("header", {}, h("div", { tabindex: -1, autofocus: true }, h("div", { class: "name" }, name), view.sub), view.state, close),
    h("section", {}, h("h3", {}, "What why says"), view.answer), view.probes, view.facts, view.findings, view.events);
  shown = view;
  if (!dialog.open) dialog.showModal();
  dialog.scrollTop = 0;
  drawDetail(new Set());
  askMore(view);
}

export function startDetail() {
  const dialog = byId("detail");
  dialog.addEventListener("close", () => { shown = null; dialog.replaceChildren(); });
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
}
