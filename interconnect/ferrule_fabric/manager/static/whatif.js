// The what-if form: predictions of the simulator for a pattern, by placement and routing.
import { ask } from "./api.js";
import { el, options, percent, row, seconds } from "./dom.js";

const SELECTIONS = ["first", "last", "even", "interleaved", "random", "compact"];
const PLACEMENTS = ["block", "cyclic", "random", "partition", "joint"];
const ROUTINGS = ["d-mod-k", "s-mod-k", "ecmp", "greedy", "greedy-min-sum", "ferrule", "ferrule-time", "split"];

const chosenOf = (select) => [...select.selectedOptions].map((option) => option.value);

// `onChoice(answer)` is called with the row that the reader wants to see on the map.
export function begin(onChoice) {
  options(el("selection"), SELECTIONS, ["first"]);
  options(el("placements"), PLACEMENTS, ["block", "cyclic", "joint"]);
  options(el("routings"), ROUTINGS, ["d-mod-k", "greedy", "ferrule"]);
  el("question").addEventListener("submit", async (event) => {
    event.preventDefault();
    el("answering").textContent = "computing …";
    const ranks = el("ranks").value;
    try {
      const answers = await ask("/v1/what-if", {
        pattern: el("pattern").value, ranks: ranks ? Number(ranks) : null, ranks_per_host: Number(el("perhost").value), selection: el("selection").value,
        placements: chosenOf(el("placements")), routings: chosenOf(el("routings")), beside: el("beside").checked,
      });
      show(answers, onChoice);
      el("answering").textContent = "";
    } catch (error) { el("answering").textContent = error.message; }
  });
}

export async function showPatterns() {
  const known = await ask("/v1/patterns");
  el("patterns").replaceChildren(...known.map(({ pattern, ranks }) => new Option(`${ranks} ranks`, pattern)));
  el("pattern").oninput = () => { const one = known.find(({ pattern }) => pattern === el("pattern").value); if (one) el("ranks").value = one.ranks; };
}

function show(answers, onChoice) {
  const body = el("answers").tBodies[0], best = Math.min(...answers.map(key)), worst = Math.max(...answers.map(key));
  body.replaceChildren();
  for (const answer of [...answers].sort((x, y) => key(x) - key(y))) {
    const saved = worst > 0 ? `${percent(1 - key(answer) / worst)} less than the worst` : "";
    const split = answer.split_pairs ? ` (${answer.split_pairs} more paths)` : "";
    const line = row(body, [answer.placement, answer.routing + split, seconds(answer.max_load_s), seconds(answer.switch_load_s), seconds(answer.time_s), saved], () => {
      for (const other of body.rows) other.classList.toggle("chosen", other === line);
      onChoice(answer, Math.max(...answers.map((one) => one.max_load_s)));
    });
    if (key(answer) === best) line.classList.add("best");
  }
}

const key = (answer) => answer.time_s ?? answer.max_load_s;
