// What happened when, while an answer was made: the turns of the model and the tools, on one axis of time.

import { icon, foreign, make } from "../ui/dom.js";
import { age, duration, number, text } from "../texts/texts.js";
import { toolIcon } from "./names.js";
import { drawChosen, drawSuspicion, suspicionsIn } from "./notices.js";
import { drawPlan, stepsIn } from "./plan.js";
import { toldOutcome, toolName } from "./told.js";

const TICKS_MS = [10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 60_000, 120_000, 300_000];

// The rows and their bars; those of a plan's steps below their step. `now`: how far a running answer is, in
// milliseconds; `state`: of the turn.
export function drawTimeline(entries, now, state) {
  const whole = Math.max(1, now ?? 0, ...entries.map((entry) => entry.end ?? 0));
  const suspicions = suspicionsIn(entries);
  const bars = (shown, label) => {
    const seen = shown.filter(
      (entry) => entry.kind === "tool" || (entry.kind === "model" && (entry.end ?? now) - entry.start >= 1),
    );
    if (!seen.length) return null;
    const about = (entry) => suspicions.filter((one) => one.call_id && one.call_id === entry.call_id);
    return make(
      "ol",
      { class: "bars", "aria-label": label },
      seen.map((entry) => row(entry, whole, now, about(entry))),
    );
  };
  const steps = new Set(stepsIn(entries).map(({ id }) => id));
  const own = entries.filter((entry) => !entry.lane || !steps.has(entry.lane));
  const planned = own.findIndex((entry) => entry.kind === "plan");
  const lost = suspicions.filter(
    (one) => !entries.some((entry) => entry.kind === "tool" && entry.call_id === one.call_id),
  );
  const rest = lost.length > 0 && make("div", { class: "bar-facts" }, lost.map(drawSuspicion));
  const parts =
    planned < 0
      ? [bars(own, text("timeline")), rest]
      : [
          bars(own.slice(0, planned), text("timeline")),
          drawPlan(entries, state, (lane) =>
            bars(
              entries.filter((entry) => entry.lane === lane),
              text("timeline"),
            ),
          ),
          bars(own.slice(planned), text("timeline")),
          rest,
        ];
  return [...drawChosen(entries), axis(whole), ...parts.filter(Boolean)];
}

function axis(whole) {
  const apart = TICKS_MS.find((step) => whole / step <= 5) ?? 600_000;
  // The words of a mark at the very end would not fit.
  const ticks = Array.from({ length: Math.floor((0.93 * whole) / apart) + 1 }, (_, index) => index * apart);
  const node = make(
    "div",
    { class: "axis", "aria-hidden": "true" },
    ticks.map((tick) => {
      const mark = make("span", {}, duration(tick));
      mark.style.insetInlineStart = `${(100 * tick) / whole}%`;
      return mark;
    }),
  );
  return make("div", { class: "bar-row" }, make("span"), node, make("span"));
}

function row(entry, whole, now, suspicions) {
  const end = entry.end ?? now ?? entry.start;
  const bar = make("span", { class: `bar ${entry.kind} ${entry.status ?? ""}${entry.cache ? " cached" : ""}` });
  bar.style.insetInlineStart = `${(100 * entry.start) / whole}%`;
  bar.style.inlineSize = `${(100 * Math.max(0, end - entry.start)) / whole}%`;
  return make(
    "li",
    { class: "bar-row" },
    make("span", { class: "bar-name" }, icon(iconOf(entry)), make("span", {}, nameOf(entry))),
    make("span", { class: "track", "aria-hidden": "true" }, bar),
    make("span", { class: "bar-time" }, entry.end === null ? "…" : duration(end - entry.start)),
    entry.kind === "tool" && facts(entry, suspicions),
    entry.thought && make("div", { class: "bar-facts" }, make("q", {}, foreign(entry.thought))),
  );
}

function iconOf(entry) {
  if (entry.kind === "model") return "thought";
  return entry.status === "error" ? "warning" : toolIcon(entry.tool);
}

function nameOf(entry) {
  if (entry.kind === "model") return text(entry.writes ? "modelWrites" : entry.plans ? "modelPlans" : "modelThinks");
  return foreign(toolName(entry.tool));
}

function facts(entry, suspicions) {
  const given = entry.given ?? {};
  const asked = typeof given === "string" ? given : (given.query ?? given.expression ?? JSON.stringify(given));
  const searched = (entry.queries ?? []).filter((query) => query !== given.query);
  const outcome = { running: text("running"), stopped: text("stopped") }[entry.status] ?? toldOutcome(entry.summary);
  return make(
    "div",
    { class: "bar-facts" },
    make("code", { class: "said" }, foreign(asked)),
    Array.isArray(given.params) &&
      given.params.length > 0 &&
      make(
        "span",
        { class: "params" },
        given.params.map((value, index) =>
          make("code", {}, `$${index + 1} = `, foreign(typeof value === "string" ? value : JSON.stringify(value))),
        ),
      ),
    make(
      "span",
      { class: entry.status === "error" ? "outcome bad" : "outcome" },
      entry.status === "error" && `${text("failed")}: `,
      foreign(outcome),
      cached(entry.cache),
    ),
    searched.length > 0 &&
      make(
        "span",
        {},
        `${text("searchedAs")}: `,
        searched.map((query, index) => [index ? " · " : "", foreign(query)]),
      ),
    entry.collections?.length > 0 &&
      make("span", {}, `${text("chosenCollections")}: `, foreign(entry.collections.join(", "))),
    suspicions.map(drawSuspicion),
  );
}

// From the cache, how old, and for which question where it was asked in other words.
function cached(cache) {
  if (!cache) return null;
  const old = cache.age_s === undefined ? "" : ` · ${age(cache.age_s)}`;
  const matched = cache.matched && [
    " · ",
    text("askedAs"),
    " ",
    make("q", {}, foreign(cache.matched)),
    cache.similarity && ` (${number(cache.similarity, { maximumFractionDigits: 2 })})`,
  ];
  return make("span", { class: "badge" }, text("fromCache"), old, matched);
}
