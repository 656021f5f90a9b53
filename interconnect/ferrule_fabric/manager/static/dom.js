// Elements and numbers as text. Everything from outside is put in as text, never as markup.
export const el = (id) => document.getElementById(id);

export function shape(name, attributes, text) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  return node;
}

export function row(body, cells, onClick) {
  const line = body.insertRow();
  for (const cell of cells) line.insertCell().textContent = cell;
  if (onClick) line.addEventListener("click", onClick);
  return line;
}

export function options(select, values, chosen) {
  select.replaceChildren(...values.map((value) => new Option(value, value, false, chosen.includes(value))));
}

export const mega = (bps) => (bps / 1e6).toFixed(2);
export const percent = (part) => `${(100 * part).toFixed(1)} %`;

export function seconds(value) {
  if (value === null || value === undefined) return "–";
  if (value === 0) return "0 s";
  const unit = [["s", 1], ["ms", 1e3], ["µs", 1e6]].find(([, factor]) => value * factor >= 1) ?? ["µs", 1e6];
  return `${(value * unit[1]).toPrecision(4)} ${unit[0]}`;
}

// "12 ms → 9 ms (−25.0 %)"
export function change(before, after) {
  const gain = before > 0 ? ` (${after <= before ? "−" : "+"}${percent(Math.abs(1 - after / before))})` : "";
  return `${seconds(before)} → ${seconds(after)}${gain}`;
}
