// Follows what happens. All tabs of a browser share one connection, as HTTP/1.1 allows only six to a server.
import { refresh, refreshBriefly } from "./refresh.js";

// A list of many runs is fetched again at most so often.
const LIST_PAUSE = 300;
// A run of so many events is shown at once without what takes long to find out.
const LONG = 2000;

let listTimer = 0;

export function follow() {
  const shown = document.querySelector("[data-run]");
  const wanted = { run: shown?.dataset.run ?? "", list: document.body.dataset.page === "runs" };
  if (wanted.run === "" && !wanted.list) return;
  const state = document.getElementById("connection");
  const heard = (message) => (message.kind === "state" ? stand(state, message.state) : happened(message, wanted));
  if (typeof SharedWorker === "undefined") {
    alone(wanted, heard);
    return;
  }
  const worker = new SharedWorker("/static/stream.js", { name: "logos", type: "module" });
  worker.port.onmessage = (event) => heard(event.data);
  worker.port.postMessage({ follow: wanted });
  addEventListener("pagehide", () => worker.port.postMessage({ leave: true }));
  // A page that comes back from the browser's cache has heard nothing meanwhile.
  addEventListener("pageshow", (event) => event.persisted && location.reload());
}

function stand(element, state) {
  const was = element.dataset.state;
  element.dataset.state = state;
  element.textContent = { live: "live", lost: "reconnecting", out: "logged out" }[state];
  // What happened while the connection was lost.
  if (was === "lost" && state === "live") refresh();
  if (state === "out") location.reload();
}

function happened(message, wanted) {
  if (wanted.list) {
    listTimer ||= setTimeout(() => {
      listTimer = 0;
      refresh();
    }, LIST_PAUSE);
    return;
  }
  if (message.run !== wanted.run) return;
  const page = document.querySelector("[data-run]");
  page.dataset.last = String(Math.max(Number(page.dataset.last ?? 0), message.seq ?? 0));
  // A moment in the past stays as it is.
  if (!page.matches("[data-now]")) return;
  if (Number(page.dataset.last) > LONG) refreshBriefly();
  else refresh();
}

// Browsers without shared workers: a connection of this tab alone.
async function alone(wanted, heard) {
  const { Connection } = await import("./connection.js");
  new Connection(heard).follow([wanted]);
}
