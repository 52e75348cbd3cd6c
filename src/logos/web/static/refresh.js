// Fetches the page again and puts in place only what differs, so that nothing jumps and what is open stays open.
import { show } from "./clock.js";

// What takes the server long to find out follows when nothing more has happened for so long.
const REST = 150;

let wanted = null;
let busy = false;
let resting = 0;

// Of many requests while one is under way, only the last is made.
export function refresh(address = location.href) {
  clearTimeout(resting);
  leave(false);
  want(address);
}

// The same at once without what takes long, which is left as it is until a rest.
export function refreshBriefly() {
  clearTimeout(resting);
  leave(true);
  const address = new URL(location.href);
  address.searchParams.set("brief", "1");
  want(address.href);
  resting = setTimeout(refresh, REST);
}

function leave(left) {
  for (const part of document.querySelectorAll("[data-later]")) part.classList.toggle("keep", left);
}

function want(address) {
  wanted = address;
  if (!busy) run();
}

async function run() {
  busy = true;
  while (wanted !== null) {
    const address = wanted;
    wanted = null;
    try {
      await window.htmx.ajax("GET", address, { target: "#main", select: "#main", swap: "outerMorph" });
    } catch {
      // The connection is lost; the stream says when it is back.
    }
  }
  busy = false;
  show();
}
