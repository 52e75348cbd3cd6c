// A shared worker: holds the one connection of a browser, and passes on to each tab what it follows.
import { Connection } from "./connection.js";

const wanted = new Map();
let state = null;

const connection = new Connection((message) => {
  if (message.kind === "state") state = message;
  for (const [port, follows] of wanted) {
    const meant = message.kind === "state" || (message.kind === "list" ? follows.list : follows.run === message.run);
    if (meant) port.postMessage(message);
  }
});

self.onconnect = (event) => {
  const port = event.ports[0];
  port.onmessage = ({ data }) => {
    if (data.leave) wanted.delete(port);
    else wanted.set(port, data.follow);
    connection.follow([...wanted.values()]);
    if (!data.leave && state !== null) port.postMessage(state);
  };
};
