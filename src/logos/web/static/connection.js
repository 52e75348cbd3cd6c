// One connection to the server's stream, for whatever the pages of this browser show now.
const MOST_RUNS = 50;
const AGAIN = 2000;

export class Connection {
  #tell;
  #source = null;
  #address = "";
  // The number of the last event of each run: a connection that is opened again goes on there.
  #seen = new Map();

  constructor(tell) {
    this.#tell = tell;
  }

  follow(wanted) {
    const runs = [...new Set(wanted.map((one) => one.run).filter(Boolean))].slice(-MOST_RUNS).sort();
    const query = new URLSearchParams({ runs: runs.join(","), list: wanted.some((one) => one.list) ? "1" : "0" });
    if (String(query) === this.#address) return;
    this.#address = String(query);
    this.#open(runs.length > 0 || query.get("list") === "1");
  }

  #open(needed) {
    this.#source?.close();
    this.#source = null;
    if (!needed) return;
    const since = [...this.#seen].map(([run, seq]) => `${run}:${seq}`).join(" ");
    const source = new EventSource(`/api/stream?${this.#address}&since=${encodeURIComponent(since)}`);
    this.#source = source;
    source.onopen = () => this.#tell({ kind: "state", state: "live" });
    source.onerror = () => source === this.#source && this.#lost(source);
    for (const kind of ["event", "run", "list", "reset"]) {
      source.addEventListener(kind, (event) => this.#heard(kind, JSON.parse(event.data)));
    }
  }

  #heard(kind, data) {
    if (kind === "event") this.#seen.set(data.run, data.seq);
    if (kind === "reset") this.#seen.delete(data.run);
    this.#tell({ kind, run: data.run, seq: data.seq });
  }

  // A browser tries again by itself, but gives up after an answer that is no stream: a server that was started again
  // knows no session, and one that is not there answers nothing.
  async #lost(source) {
    this.#tell({ kind: "state", state: "lost" });
    if (source.readyState !== EventSource.CLOSED) return;
    const state = await fetch("/api/session").then((answer) => answer.status, () => 0);
    if (state === 401) this.#tell({ kind: "state", state: "out" });
    else setTimeout(() => source === this.#source && this.#open(true), AGAIN);
  }
}
