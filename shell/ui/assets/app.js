// Puts the page together: what the stream says is drawn once a frame, and only where it changed.

import { byId, h, setText } from "./dom.js";
import { changed, now, age, state } from "./state.js";
import { check, follow, link } from "./stream.js";
import * as pods from "./pods.js";
import * as cards from "./cards.js";
import { drawDetail, openDetail, startDetail } from "./detail.js";

const openPod = (key) => {
  const row = state.pods.get(key);
  if (row) openDetail("pod", row.namespace, row.name);
};

function draw() {
  const kinds = new Set(changed);
  changed.clear();
  if (kinds.has("pods")) pods.drawPods(openPod);
  else if (kinds.has("strips")) pods.drawStrips();
  if (kinds.has("services")) cards.drawServices(openDetail);
  if (kinds.has("nodes")) cards.drawNodes(openDetail);
  if (kinds.has("profile")) cards.drawProfile();
  if (kinds.has("markers")) cards.drawMarkers();
  if (kinds.has("events")) cards.drawEvents();
  if (kinds.size) {
    cards.drawTiles();
    drawDetail(kinds);
    drawTabs();
  }
}

let planned = false;
/** Nobody sees a page that is hidden: what it knows is drawn when it is looked at. */
function plan() {
  if (planned || document.hidden) return;
  planned = true;
  requestAnimationFrame(() => { planned = false; draw(); });
}

function drawLink() {
  const live = byId("live");
  if (live.dataset.state !== link.state) live.dataset.state = link.state;
  setText(live, link.words);
  const unanswered = state.unanswered;
  const problem = link.problem || (unanswered ? `The API server has not answered for ${age(now() - unanswered[0])}; what you see is from before. ${unanswered[1]}` : "");
  const behind = byId("behind");
  behind.hidden = !problem;
  setText(behind, problem);
  if (state.cluster) setText(byId("cluster"), state.cluster.replace(/\/$/, ""));
}

const SECTIONS = { pods: "Pods", services: "Services", nodes: "Nodes", profile: "Profile", markers: "Markers", events: "Events" };
let section = "pods";

function drawTabs() {
  const tabs = byId("tabs");
  if (!tabs.firstChild) for (const [key, title] of Object.entries(SECTIONS)) tabs.append(h("button", { type: "button", "data-tab": key, on: { click: () => { section = key; drawTabs(); scrollTo(0, 0); } } }, title));
  for (const tab of tabs.children) {
    const key = tab.dataset.tab;
    tab.hidden = (key === "profile" || key === "markers") && state[key].size === 0;
    tab.setAttribute("aria-pressed", String(key === section));
    byId(key).classList.toggle("shown", key === section);
  }
}

// Theme: as the system, unless somebody chose.

const THEMES = { "": "dark", dark: "light", light: "" };
const kept = () => { try { return localStorage.getItem("theme") ?? ""; } catch { return ""; } };

function setTheme(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
  setText(byId("theme"), { dark: "Dark", light: "Light" }[theme] ?? "Auto");
  try { localStorage.setItem("theme", theme); } catch { /* nothing is kept, then */ }
}

// Keyboard

function move(step) {
  const rows = [...byId("pod-list").querySelectorAll(".pod")];
  const at = rows.indexOf(document.activeElement);
  rows[at < 0 ? 0 : Math.min(rows.length - 1, Math.max(0, at + step))]?.focus();
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || byId("detail").open) return;
  const filter = byId("filter");
  if (document.activeElement === filter) {
    if (event.key === "Escape") { filter.value = ""; filter.blur(); filter.dispatchEvent(new Event("input")); }
    if (event.key === "ArrowDown" || event.key === "Enter") { event.preventDefault(); filter.blur(); move(0); }
    return;
  }
  const keys = { "/": () => filter.focus(), ArrowDown: () => move(1), j: () => move(1), ArrowUp: () => move(-1), k: () => move(-1), t: () => setTheme(THEMES[kept()] ?? "") };
  const number = Object.keys(SECTIONS)[Number(event.key) - 1];
  const action = keys[event.key] ?? (number ? () => { section = number; drawTabs(); byId(number).scrollIntoView({ block: "nearest" }); } : null);
  if (!action || (event.target instanceof HTMLSelectElement)) return;
  event.preventDefault();
  action();
}

function redrawAll() {
  for (const kind of ["pods", "strips", "services", "nodes", "profile", "markers", "events"]) changed.add(kind);
  plan();
}

setTheme(kept());
drawTabs();
cards.drawTiles();
startDetail();
byId("theme").addEventListener("click", () => setTheme(THEMES[kept()] ?? ""));
byId("filter").addEventListener("input", (event) => { state.filter = event.target.value.trim().toLowerCase(); redrawAll(); });
byId("sort").addEventListener("change", () => { changed.add("pods"); plan(); });
document.addEventListener("keydown", onKey);
document.addEventListener("redraw", plan);
document.addEventListener("visibilitychange", redrawAll);
setInterval(() => { check(); drawLink(); if (!document.hidden) { pods.tick(); cards.tick(); } }, 1000);
follow(() => { plan(); if (link.state !== byId("live").dataset.state) drawLink(); }, drawLink);
