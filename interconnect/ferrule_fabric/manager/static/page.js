// The manager's page: asks the API once a second. Everything from outside is put in as text, never as markup.
const INTERVAL_MS = 1000, FLOWS_SHOWN = 200, HOT_SHOWN = 10, WIDTH = 900, ROW = 130;
const el = (id) => document.getElementById(id);
let topology = null, lines = [], place = new Map(), chosen = null, chosenFlows = null;

async function ask(path) {
  const token = sessionStorage.getItem("token");
  const answer = await fetch(path, token ? { headers: { Authorization: `Bearer ${token}` } } : {});
  if (answer.status === 401) { el("login").hidden = false; throw new Error("a token is needed"); }
  if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
  el("login").hidden = true;
  return answer.json();
}

function shape(name, attributes, text) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

function row(body, cells, onClick) {
  const line = body.insertRow();
  for (const cell of cells) line.insertCell().textContent = cell;
  if (onClick) line.addEventListener("click", onClick);
  return line;
}

// Hosts below, switches above them by level; switches of unknown level in one row.
function layOut() {
  const levels = [topology.hosts.map((host) => host.name)];
  for (const one of topology.switches) (levels[1 + (one.level ?? 0)] ??= []).push(one.name);
  const rows = levels.filter(Boolean), height = rows.length * ROW;
  place = new Map();
  rows.forEach((names, level) => names.forEach((name, i) => place.set(name, [(i + 0.5) * WIDTH / names.length, height - (level + 0.5) * ROW])));
  const map = el("map");
  map.replaceChildren();
  map.setAttribute("viewBox", `0 0 ${WIDTH} ${height}`);
  lines = topology.links.map((link) => {
    const [[x1, y1], [x2, y2]] = [place.get(link.a), place.get(link.b)];
    const under = shape("line", { x1, y1, x2, y2, visibility: "hidden", class: "path" }), line = shape("line", { x1, y1, x2, y2 });
    line.append(shape("title", {}));
    map.append(under, line);
    return { line, under };
  });
  for (const host of topology.hosts) {
    const [x, y] = place.get(host.name);
    map.append(shape("circle", { cx: x, cy: y, r: 5, class: "host" }), shape("text", { x, y: y + 18 }, host.name));
  }
  for (const one of topology.switches) {
    const [x, y] = place.get(one.name);
    map.append(shape("rect", { x: x - 26, y: y - 11, width: 52, height: 22, rx: 4, class: "switch" }), shape("text", { x, y: y + 4 }, one.name));
  }
}

function showLinks(links) {
  const onPath = new Set();
  for (const flow of chosenFlows ?? []) (flow.path ?? []).slice(1).forEach((name, i) => { onPath.add(`${flow.path[i]} ${name}`); onPath.add(`${name} ${flow.path[i]}`); });
  links.forEach((link, i) => {
    const share = Math.max(...link.load_bps) / link.capacity_bps, { line, under } = lines[i];
    line.setAttribute("class", link.up ? `load${share < 0.001 ? 0 : Math.min(4, 1 + Math.floor(share * 4))}` : "down");
    line.firstChild.textContent = `${link.a} → ${link.b} ${mega(link.load_bps[0])} Mb/s, back ${mega(link.load_bps[1])} Mb/s${link.up ? "" : ", down"}`;
    under.setAttribute("visibility", onPath.has(`${link.a} ${link.b}`) ? "visible" : "hidden");
  });
  const arcs = links.flatMap((link) => [[link.a, link.b, link.load_bps[0], link.capacity_bps], [link.b, link.a, link.load_bps[1], link.capacity_bps]]);
  const body = el("hot").tBodies[0];
  body.replaceChildren();
  for (const [a, b, bps, capacity] of arcs.sort((x, y) => y[2] / y[3] - x[2] / x[3]).slice(0, HOT_SHOWN))
    if (bps > 0) row(body, [a, b, mega(bps), `${(100 * bps / capacity).toFixed(1)} %`]);
}

const mega = (bps) => (bps / 1e6).toFixed(2);

async function choose(name) {
  chosen = chosen === name ? null : name;
  chosenFlows = null;
  await refresh();
}

async function showJobs(jobs) {
  const body = el("jobs").tBodies[0];
  body.replaceChildren();
  for (const job of jobs) {
    const line = row(body, [job.job, job.pattern, job.uid, job.pairs, new Date(job.started_s * 1000).toLocaleTimeString()], () => choose(job.job));
    if (job.job === chosen) line.className = "chosen";
  }
  if (chosen !== null && !jobs.some((job) => job.job === chosen)) chosen = chosenFlows = null;
  el("detail").hidden = chosen === null;
  if (chosen !== null && chosenFlows === null) {
    chosenFlows = (await ask(`/v1/jobs/${encodeURIComponent(chosen)}`)).flows;
    showFlows();
  }
}

function showFlows() {
  el("chosen").textContent = chosen;
  const body = el("flows").tBodies[0];
  body.replaceChildren();
  for (const flow of [...chosenFlows].sort((a, b) => b.bytes - a.bytes).slice(0, FLOWS_SHOWN))
    row(body, [flow.src, flow.dst, flow.bytes.toLocaleString(), flow.path ? flow.path.join(" → ") : "default route"]);
  const hosts = topology.hosts.map((host) => host.name), index = new Map(hosts.map((name, i) => [name, i]));
  const canvas = el("matrix"), draw = canvas.getContext("2d"), cell = canvas.width / hosts.length, most = Math.max(1, ...chosenFlows.map((flow) => flow.bytes));
  draw.clearRect(0, 0, canvas.width, canvas.height);
  for (const flow of chosenFlows) {
    draw.fillStyle = `hsl(12 80% ${85 - 55 * Math.sqrt(flow.bytes / most)}%)`;
    draw.fillRect(index.get(flow.dst) * cell, index.get(flow.src) * cell, Math.ceil(cell), Math.ceil(cell));
  }
}

async function refresh() {
  try {
    if (topology === null) { topology = await ask("/v1/topology"); layOut(); }
    const [status, links, jobs] = await Promise.all([ask("/v1/status"), ask("/v1/links"), ask("/v1/jobs")]);
    const wrong = status.missing.length + status.links_down.length + status.miswired.length;
    el("status").textContent = `${status.connected} of ${status.switches} switches, ${status.rules} rules, ${status.jobs} jobs` +
      (status.links_down.length ? `, down: ${status.links_down.join(", ")}` : "") + (status.miswired.length ? `, miswired: ${status.miswired.length}` : "");
    el("status").className = wrong ? "bad" : "";
    await showJobs(jobs);
    showLinks(links);
  } catch (error) {
    el("status").textContent = `no answer: ${error.message}`;
    el("status").className = "bad";
  }
}

el("login").addEventListener("submit", (event) => { event.preventDefault(); sessionStorage.setItem("token", el("token").value); refresh(); });
(async () => { for (;;) { await refresh(); await new Promise((done) => setTimeout(done, INTERVAL_MS)); } })();
