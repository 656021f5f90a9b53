// The fabric as a picture: hosts below, switches above them by level; switches of unknown level in one row.
import { el, shape } from "./dom.js";

const WIDTH = 900, ROW = 130;
let lines = [];

export function layOut(topology) {
  const levels = [topology.hosts.map((host) => host.name)], place = new Map();
  for (const one of topology.switches) (levels[1 + (one.level ?? 0)] ??= []).push(one.name);
  const rows = levels.filter(Boolean), height = rows.length * ROW, map = el("map");
  rows.forEach((names, level) => names.forEach((name, i) => place.set(name, [(i + 0.5) * WIDTH / names.length, height - (level + 0.5) * ROW])));
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

// For each link its share (0..1, colour), its title, whether it is up, and whether the chosen job uses it.
export function paint(links) {
  links.forEach(({ share, title, up, used }, i) => {
    const { line, under } = lines[i];
    line.setAttribute("class", up ? `load${share < 0.001 ? 0 : Math.min(4, 1 + Math.floor(share * 4))}` : "down");
    line.firstChild.textContent = title;
    under.setAttribute("visibility", used ? "visible" : "hidden");
  });
}
