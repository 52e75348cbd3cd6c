// Coming in: the token is in the fragment of the address, which browsers send to no server, or is typed in.
const said = document.getElementById("said");
const form = document.getElementById("form");

// Where to go on; never to another site.
function next() {
  const wanted = new URL(new URLSearchParams(location.search).get("next") || "/", location.origin);
  return wanted.origin === location.origin ? wanted.pathname + wanted.search : "/";
}

async function enter(token) {
  const answer = await fetch("/enter", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ token }),
  });
  const told = await answer.json();
  if (!answer.ok) throw new Error(told.error);
  // The cookie reads. This is needed besides to act, and unlike the cookie it is not sent to other ports.
  localStorage.setItem("logos.write", told.write_token);
  location.replace(next());
}

function ask(why) {
  said.textContent = why;
  form.hidden = false;
  document.getElementById("token").focus();
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  enter(document.getElementById("token").value.trim()).catch((error) => ask(error.message));
});

const token = decodeURIComponent(location.hash.slice(1));
history.replaceState(null, "", location.pathname + location.search);
if (token) {
  enter(token).catch((error) => ask(error.message));
} else if ((await fetch("/api/session")).ok) {
  // An older browser came from another site without its cookie.
  location.replace(next());
} else {
  ask("Open the link that `logos web` has printed, or type a token.");
}
