// Times in the reader's time zone, and durations that go on.
const two = (number) => String(number).padStart(2, "0");

function time(at, as) {
  const when = new Date(at * 1000);
  const clock = `${two(when.getHours())}:${two(when.getMinutes())}`;
  if (as === "clock") return `${clock}:${two(when.getSeconds())}`;
  return `${when.getFullYear()}-${two(when.getMonth() + 1)}-${two(when.getDate())} ${clock}`;
}

function duration(seconds) {
  const whole = Math.max(Math.floor(seconds), 0);
  if (whole < 60) return `${whole} s`;
  const [hours, minutes] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60];
  return hours ? `${hours}:${two(minutes)}:${two(whole % 60)}` : `${minutes}:${two(whole % 60)}`;
}

export function show() {
  for (const element of document.querySelectorAll("time[data-at]")) {
    write(element, time(Number(element.dataset.at), element.dataset.as));
  }
  for (const element of document.querySelectorAll("[data-since]")) {
    write(element, duration(Date.now() / 1000 - Number(element.dataset.since)));
  }
}

function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function tick() {
  show();
  document.addEventListener("htmx:after:swap", show);
  setInterval(show, 1000);
}
