// The plan of an answer: its steps, what each waits for, and what has become of each.

import { foreign, icon, make } from "../ui/dom.js";
import { text } from "../texts/texts.js";
import { specialistName } from "./names.js";
import { told } from "./told.js";

const ICONS = { done: "check", failed: "warning", stopped: "stop" };
// The badge says that already.
const NOTHING = "nothing was found";
const endOf = (step, entries) => entries.find((entry) => entry.kind === "step_finished" && entry.step === step.id);

// All steps in their order, those of a second plan after those of the first: {id, question, …, revision, number}.
export function stepsIn(entries) {
  const plans = entries.filter((entry) => entry.kind === "plan");
  return plans
    .flatMap(({ revision, steps }) => steps.map((step) => ({ ...step, revision })))
    .map((step, index) => ({ ...step, number: index + 1 }));
}

// waiting, running, done, failed (all its look-ups failed), empty (it found nothing), idle (it looked nothing up) or
// stopped. Where nobody said that a step has ended, as in answers that were kept long ago, it is known when another
// begins that had to wait for it, and at the latest when the answer begins.
export function stateOf(step, entries, state) {
  const own = entries.filter((entry) => entry.lane === step.id);
  const calls = own.filter((entry) => entry.kind === "tool");
  const end = endOf(step, entries);
  if (end?.found) return "done";
  if (end) return calls.length && calls.every((call) => call.status === "error") ? "failed" : "empty";
  const over =
    state !== "running" ||
    entries.some((entry) => entry.writes || (entry.kind === "plan" && entry.revision > step.revision)) ||
    stepsIn(entries).some(
      ({ id, depends_on }) => depends_on.includes(step.id) && entries.some((entry) => entry.lane === id),
    );
  if (!over) return own.length ? "running" : "waiting";
  if (calls.some((call) => call.status === "stopped")) return "stopped";
  if (!calls.length) return "idle";
  return calls.every((call) => call.status === "error") ? "failed" : "done";
}

// `barsOf(lane)` makes the bars of a step.
export function drawPlan(entries, state, barsOf) {
  const steps = stepsIn(entries);
  const numbers = new Map(steps.map(({ id, number }) => [id, number]));
  return make(
    "ol",
    { class: "plan", "aria-label": text("plan") },
    steps.map((step) => {
      const why = endOf(step, entries)?.reason ?? "";
      return drawStep(step, stateOf(step, entries, state), why, numbers, barsOf(step.id));
    }),
  );
}

function drawStep({ id, number, question, specialist, depends_on, revision }, state, why, numbers, bars) {
  const needed = depends_on.map((one) => numbers.get(one)).filter(Boolean);
  const facts = [
    specialist && specialistName(specialist),
    needed.length > 0 && text("stepNeeds", { numbers: needed.join(", ") }),
    revision > 1 && text("stepAdded"),
    why && why !== NOTHING && text(`reason_${why}`, {}, told(why)),
  ].filter(Boolean);
  return make(
    "li",
    { class: `step ${state}`, "data-step": id },
    make(
      "div",
      { class: "step-head" },
      make("span", { class: "number" }, String(number)),
      make(
        "span",
        { class: "step-words" },
        foreign(question),
        make("span", { class: "facts" }, foreign(facts.join(" · "))),
      ),
      make(
        "span",
        { class: `badge step-state ${state}` },
        state === "running" ? make("span", { class: "pulse" }) : ICONS[state] && icon(ICONS[state]),
        text(`step_${state}`),
      ),
    ),
    bars,
  );
}
