// One job: who sends how much to whom over which way, and the loads of links before and after its routes.
import { change, el, row, seconds, shape } from "./dom.js";

const FLOWS_SHOWN = 200, BARS_SHOWN = 12, BAR_HEIGHT = 22, LABEL = 150, WIDTH = 700;

const way = (flow) => flow.paths.length ? flow.paths.map(({ nodes, share }) => `${nodes.join(" → ")}${share < 1 ? ` (${(100 * share).toFixed(0)} %)` : ""}`).join("; ") : "default route";

export function showFlows(name, flows, topology) {
  el("chosen").textContent = name;
  const body = el("flows").tBodies[0];
  body.replaceChildren();
  for (const flow of [...flows].sort((a, b) => b.bytes - a.bytes).slice(0, FLOWS_SHOWN)) row(body, [flow.src, flow.dst, flow.bytes.toLocaleString(), way(flow)]);
  const index = new Map(topology.hosts.map((host, i) => [host.name, i]));
  const canvas = el("matrix"), draw = canvas.getContext("2d"), cell = canvas.width / index.size, most = Math.max(1, ...flows.map((flow) => flow.bytes));
  draw.clearRect(0, 0, canvas.width, canvas.height);
  for (const flow of flows) {
    draw.fillStyle = `hsl(12 80% ${85 - 55 * Math.sqrt(flow.bytes / most)}%)`;
    draw.fillRect(index.get(flow.dst) * cell, index.get(flow.src) * cell, Math.ceil(cell), Math.ceil(cell));
  }
}

// Names of links ("a b" both ways round) on the paths of flows.
export function linksOf(flows) {
  const found = new Set();
  for (const flow of flows) for (const { nodes } of flow.paths) nodes.slice(1).forEach((name, i) => { found.add(`${nodes[i]} ${name}`); found.add(`${name} ${nodes[i]}`); });
  return found;
}

// Arc 2k runs along link k from a to b, arc 2k+1 back.
const arcName = (topology, arc) => { const { a, b } = topology.links[arc >> 1]; return arc & 1 ? `${b} → ${a}` : `${a} → ${b}`; };

export function showCompared(loads, topology) {
  const { default: before, planned: after } = loads;
  el("gain").textContent = `Most loaded link ${change(before.max_load_s, after.max_load_s)}, between switches ${change(before.switch_load_s, after.switch_load_s)}` +
    (before.time_s === null ? "" : `, communication ${change(before.time_s, after.time_s)}`) + ". Predicted, per iteration; the time that each link needs for the job's bytes:";
  const bars = el("bars"), isHost = new Set(topology.hosts.map((host) => host.name));
  const between = topology.links.map(({ a, b }) => !isHost.has(a) && !isHost.has(b));
  const arcs = before.arc_s.map((_, arc) => arc).filter((arc) => between[arc >> 1] && before.arc_s[arc] + after.arc_s[arc] > 0);
  const most = Math.max(1e-12, ...arcs.map((arc) => Math.max(before.arc_s[arc], after.arc_s[arc])));
  arcs.sort((x, y) => Math.max(before.arc_s[y], after.arc_s[y]) - Math.max(before.arc_s[x], after.arc_s[x]));
  const shown = arcs.slice(0, BARS_SHOWN), room = WIDTH - LABEL - 90;
  bars.setAttribute("viewBox", `0 0 ${WIDTH} ${Math.max(1, shown.length) * BAR_HEIGHT}`);
  bars.replaceChildren();
  shown.forEach((arc, i) => {
    const y = i * BAR_HEIGHT;
    bars.append(shape("text", { x: LABEL - 6, y: y + 14, class: "label" }, arcName(topology, arc)));
    [[before, "before"], [after, "after"]].forEach(([one, kind], k) => {
      const width = room * one.arc_s[arc] / most;
      bars.append(shape("rect", { x: LABEL, y: y + 2 + 9 * k, width, height: 8, class: kind }), shape("text", { x: LABEL + width + 4, y: y + 9 + 9 * k, class: "value" }, seconds(one.arc_s[arc])));
    });
  });
}
