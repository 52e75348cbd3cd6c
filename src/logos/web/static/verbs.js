// Verbs: a form becomes one POST with a JSON body, and with a token that no other site can know.
import { refresh } from "./refresh.js";

// Forms about the session, not about a run, and where they are sent.
const OF_SESSION = { logOut: "/api/logout", rotate: "/api/rotate" };

const token = () => localStorage.getItem("logos.write") ?? "";

export async function post(address, body) {
  const headers = { "Content-Type": "application/json", "X-Logos-Token": token() };
  try {
    const answer = await fetch(address, { method: "POST", headers, body: JSON.stringify(body) });
    const text = await answer.text();
    const read = text.startsWith("{") ? JSON.parse(text) : {};
    return answer.ok ? { ok: true, ...read } : { ok: false, error: read.error ?? `error ${answer.status}` };
  } catch {
    return { ok: false, error: "The server does not answer. Is `logos web` still running?" };
  }
}

export function sendForms() {
  document.addEventListener("click", clicked);
  document.addEventListener("submit", submitted);
  document.addEventListener("input", (event) => event.target.closest("form[data-verb]")?.classList.add("keep"));
}

function clicked(event) {
  const opener = event.target.closest("[data-opens]");
  if (opener !== null) {
    const dialog = document.getElementById(opener.dataset.opens);
    // A dialog that is open is left alone when the page changes below it.
    dialog.classList.add("keep");
    dialog.addEventListener("close", () => dialog.classList.remove("keep"), { once: true });
    dialog.showModal();
  }
  event.target.closest("[data-closes]")?.closest("dialog").close();
}

async function submitted(event) {
  const form = event.target;
  if (!form.matches("[data-verb], [data-start], [data-log-out], [data-rotate]")) return;
  event.preventDefault();
  const buttons = [...form.querySelectorAll("button:not(:disabled)")];
  buttons.forEach((button) => (button.disabled = true));
  const answer = await post(addressOf(form), bodyOf(form));
  buttons.forEach((button) => (button.disabled = false));
  if (!answer.ok) {
    refuse(form, answer.error);
    return;
  }
  form.classList.remove("keep");
  form.querySelector(".refused")?.remove();
  form.closest("dialog")?.close();
  done(form, answer);
}

function addressOf(form) {
  if (form.matches("[data-start]")) return "/api/runs";
  const ofSession = Object.keys(OF_SESSION).find((name) => name in form.dataset);
  if (ofSession !== undefined) return OF_SESSION[ofSession];
  const shown = document.querySelector("[data-run]");
  return `/api/runs/${encodeURIComponent(shown.dataset.run)}/${form.dataset.verb}${placeOf(shown)}`;
}

const placeOf = (shown) => (shown.dataset.wd ? `?wd=${encodeURIComponent(shown.dataset.wd)}` : "");

function bodyOf(form) {
  const body = {};
  for (const [name, value] of new FormData(form)) {
    if (value === "" && !form.matches("[data-start]")) continue;
    if (name.startsWith("set:")) {
      if (value === "") continue;
      (body.settings ??= {})[name.slice(4)] = value;
    } else {
      const kind = form.elements[name]?.dataset?.type;
      const field = typed(kind, value);
      // Several fields of one name are parts of one answer.
      body[name] = name in body ? `${body[name]} ${field}` : field;
    }
  }
  return body;
}

function typed(kind, value) {
  return kind === "number" ? Number(value) : kind === "boolean" ? value === "true" : value;
}

function refuse(form, text) {
  let line = form.querySelector(".refused");
  if (line === null) {
    line = document.createElement("p");
    line.className = "refused";
    line.setAttribute("role", "alert");
    form.append(line);
  }
  line.textContent = text;
}

function done(form, answer) {
  if (form.matches("[data-log-out]")) {
    location.assign("/");
    return;
  }
  if (form.matches("[data-rotate]")) {
    localStorage.setItem("logos.write", answer.write_token);
    say("Other sessions have ended.");
    return;
  }
  const page = `/runs/${encodeURIComponent(answer.run)}?wd=${encodeURIComponent(answer.wd)}`;
  if (answer.run !== document.querySelector("[data-run]")?.dataset.run) {
    location.assign(page);
    return;
  }
  form.reset();
  say(answer.text);
  refresh();
}

function say(text) {
  const line = document.createElement("p");
  line.textContent = text;
  document.getElementById("messages").append(line);
  setTimeout(() => line.remove(), 8000);
}
