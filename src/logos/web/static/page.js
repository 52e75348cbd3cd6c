// What every page does: stay live, count time, send verbs, and scrub. Without it, every page can still be read.
import { follow } from "./live.js";
import { tick } from "./clock.js";
import { sendForms } from "./verbs.js";
import { scrub } from "./scrubber.js";
import { switchKinds } from "./start.js";

tick();
sendForms();
scrub();
switchKinds();
follow();
