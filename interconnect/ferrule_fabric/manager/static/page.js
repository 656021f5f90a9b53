// The manager's page: asks the API once a second for what is now, less often for what was.
import { ask } from "./api.js";
import { change, el, mega, percent, row, seconds } from "./dom.js";
import { linksOf, showCompared, showFlows } from "./job.js";
import { layOut, paint } from "./map.js";
import * as whatif from "./whatif.js";

const INTERVAL_MS = 1000, HISTORY_EVERY = 5, HOT_SHOWN = 10;
let topology = null, links = [], chosen = null, flows = null, turn = 0;
// Predicted loads by arc that the map can show instead of measured ones: { arc_s, most, says }.
const predicted = { default: null, planned: null, whatif: null };

const viewOf = () => document.querySelector("input[name=view]:checked").value;

function offer(view, loads) {
  predicted[view] = loads;
  const button = document.querySelector(`input[name=view][value=${view}]`);
  button.disabled = loads === null;
  if (loads === null && button.checked) document.querySelector("input[name=view][value=measured]").checked = true;
}

function showMap() {
  const used = flows ? linksOf(flows) : new Set(), view = predicted[viewOf()] ?? null;
  paint(links.map((link, i) => {
    const pair = view ? [view.arc_s[2 * i], view.arc_s[2 * i + 1]] : link.load_bps, tell = view ? seconds : (bps) => `${mega(bps)} Mb/s`;
    const title = `${link.a} → ${link.b} ${tell(pair[0])}, back ${tell(pair[1])}${link.up ? "" : ", down"}`;
    return { share: Math.max(...pair) / (view ? view.most : link.capacity_bps), title, up: link.up, used: used.has(`${link.a} ${link.b}`) };
  }));
  el("scale").textContent = view ? view.says : "of the link's capacity";
}

function showHottest() {
  const arcs = links.flatMap((link) => [[link.a, link.b, link.load_bps[0], link.capacity_bps], [link.b, link.a, link.load_bps[1], link.capacity_bps]]);
  const body = el("hot").tBodies[0];
  body.replaceChildren();
  for (const [a, b, bps, capacity] of arcs.sort((x, y) => y[2] / y[3] - x[2] / x[3]).slice(0, HOT_SHOWN)) if (bps > 0) row(body, [a, b, mega(bps), percent(bps / capacity)]);
}

async function choose(name) {
  forget();
  chosen = chosen === name ? null : name;
  await refresh();
}

function forget() {
  flows = null;
  offer("default", null);
  offer("planned", null);
}

async function showJobs(jobs) {
  const body = el("jobs").tBodies[0];
  body.replaceChildren();
  for (const job of jobs) {
    const line = row(body, [job.job, job.pattern, job.uid, job.pairs, new Date(job.started_s * 1000).toLocaleTimeString()], () => choose(job.job));
    if (job.job === chosen) line.className = "chosen";
  }
  if (chosen !== null && !jobs.some((job) => job.job === chosen)) { chosen = null; forget(); }
  el("detail").hidden = chosen === null;
  if (chosen !== null && flows === null) await showDetail(chosen);
}

async function showDetail(name) {
  const path = `/v1/jobs/${encodeURIComponent(name)}`;
  const found = (await ask(path)).flows;
  if (chosen !== name) return;
  flows = found;
  showFlows(name, flows, topology);
  showMap();
  const loads = await ask(`${path}/loads`);
  if (chosen !== name) return;
  showCompared(loads, topology);
  const most = Math.max(1e-12, loads.default.max_load_s, loads.planned.max_load_s), says = `of ${seconds(most)}, the most that a link needs for an iteration`;
  for (const view of ["default", "planned"]) offer(view, { arc_s: loads[view].arc_s, most, says });
}

function showHistory(rows) {
  const body = el("history").tBodies[0];
  body.replaceChildren();
  for (const one of rows) {
    const { default: before, planned: after } = one.predicted, ran = one.ended_s === null ? "running" : seconds(one.ended_s - one.started_s);
    const gains = before ? [change(before.max_load_s, after.max_load_s), before.time_s === null ? "–" : change(before.time_s, after.time_s)] : ["–", "–"];
    row(body, [one.job, one.pattern, one.uid, one.hosts, one.pairs, new Date(one.started_s * 1000).toLocaleString(), ran, ...gains]);
  }
}

function showStatus(status) {
  const wrong = status.missing.length + status.links_down.length + status.miswired.length;
  el("status").textContent = `${status.connected} of ${status.switches} switches, ${status.rules} rules, ${status.jobs} jobs` +
    (status.links_down.length ? `, down: ${status.links_down.join(", ")}` : "") + (status.miswired.length ? `, miswired: ${status.miswired.length}` : "");
  el("status").className = wrong ? "bad" : "";
}

async function refresh() {
  try {
    if (topology === null) { topology = await ask("/v1/topology"); layOut(topology); }
    const [status, now, jobs] = await Promise.all([ask("/v1/status"), ask("/v1/links"), ask("/v1/jobs")]);
    links = now;
    showStatus(status);
    await showJobs(jobs);
    showMap();
    showHottest();
    if (turn++ % HISTORY_EVERY === 0) { showHistory(await ask("/v1/history")); await whatif.showPatterns(); }
  } catch (error) {
    el("status").textContent = `no answer: ${error.message}`;
    el("status").className = "bad";
  }
}

whatif.begin((answer, most) => {
  offer("whatif", { arc_s: answer.arc_s, most: Math.max(1e-12, most), says: `of ${seconds(most)}, the most of all answers` });
  document.querySelector("input[name=view][value=whatif]").checked = true;
  showMap();
});
el("views").addEventListener("change", showMap);
el("login").addEventListener("submit", (event) => { event.preventDefault(); sessionStorage.setItem("token", el("token").value); refresh(); });
(async () => { for (;;) { await refresh(); await new Promise((done) => setTimeout(done, INTERVAL_MS)); } })();
