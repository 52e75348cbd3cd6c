// The scrubber: while it is dragged, the page shows that moment.
import { refreshBriefly } from "./refresh.js";

export function scrub() {
  document.addEventListener("input", (event) => {
    const slider = event.target.closest("[data-scrubber]");
    if (slider === null) return;
    history.replaceState(null, "", addressAt(slider));
    refreshBriefly();
  });
}

function addressAt(slider) {
  const address = new URL(location.href);
  if (slider.value === slider.max) address.searchParams.delete("at");
  else address.searchParams.set("at", slider.value);
  return address;
}
