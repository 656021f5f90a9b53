// The manager's API. A token, where one is needed, lives as long as the browser's tab.
import { el } from "./dom.js";

export async function ask(path, body) {
  const headers = {}, token = sessionStorage.getItem("token");
  if (token) headers.Authorization = `Bearer ${token}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const answer = await fetch(path, { headers, method: body === undefined ? "GET" : "POST", body: body === undefined ? undefined : JSON.stringify(body) });
  if (answer.status === 401) { el("login").hidden = false; throw new Error("a token is needed"); }
  el("login").hidden = true;
  if (!answer.ok) throw new Error(await problem(answer, path));
  return answer.json();
}

async function problem(answer, path) {
  try {
    const { where, problem } = (await answer.json()).error;
    return `${where}: ${problem}`;
  } catch { return `${path}: ${answer.status}`; }
}
