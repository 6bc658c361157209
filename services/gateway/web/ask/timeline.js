// What happened when, while an answer was made: the turns of the model and the tools, on one axis of time.

import { icon, foreign, make } from "../ui/dom.js";
import { age, duration, number, text } from "../texts/texts.js";

const TICKS_MS = [10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 60_000, 120_000, 300_000];

// Writes down the steps of a run as they come. `entries` are plain objects: they are kept with the conversation.
export class Recorder {
  constructor(entries, now = () => performance.now()) {
    this.entries = entries;
    this.now = now;
    this.began = now();
    this.#openModel(1, 0);
  }

  get elapsed() {
    return this.now() - this.began;
  }

  take(step) {
    const at = this.elapsed;
    if (step.event === "thought") this.#thought(step, at);
    else if (step.event === "tool_call_started") this.#started(step, at);
    else if (step.event === "tool_call_finished") this.#finished(step, at);
    else if (step.event === "degraded")
      this.entries.push({ kind: "degraded", service: step.service, reason: step.reason, start: at, end: at });
  }

  // The first words of the answer: from here on the model writes.
  words() {
    const open = this.#open("model");
    if (open) open.writes = true;
  }

  // `stopped`: what is still at work has been left there.
  close(stopped) {
    const at = this.elapsed;
    for (const entry of this.entries) {
      if (entry.end !== null) continue;
      entry.end = at;
      if (stopped && entry.kind === "tool") entry.status = "stopped";
    }
  }

  #thought({ iteration, thought }, at) {
    const open = this.#open("model") ?? this.#openModel(iteration, at);
    Object.assign(open, { end: at, thought: thought || "" });
  }

  #started(step, at) {
    const model = this.#open("model");
    if (model) model.end = at;
    const { call_id, tool, iteration, arguments: given } = step;
    this.entries.push({
      kind: "tool",
      call_id,
      tool,
      iteration,
      given,
      start: at,
      end: null,
      status: "running",
      summary: "",
    });
  }

  #finished(step, at) {
    const call = this.entries.find((entry) => entry.call_id === step.call_id);
    if (!call) return;
    // The notices of both ends may arrive together: then only the gateway's own measure says how long it took.
    const took = step.duration_ms ?? at - call.start;
    call.start = Math.max(0, Math.min(call.start, at - took));
    call.end = call.start + took;
    const { status, summary, cache, from_cache, queries, query_transform, collections } = step;
    Object.assign(call, {
      status,
      summary,
      queries,
      query_transform,
      collections,
      cache: from_cache ? (cache ?? {}) : null,
    });
    if (!this.#open("tool")) this.#openModel(call.iteration + 1, Math.max(at, call.end));
  }

  #open(kind) {
    return this.entries.findLast((entry) => entry.kind === kind && entry.end === null);
  }

  #openModel(iteration, at) {
    const entry = { kind: "model", iteration, start: at, end: null, thought: "", writes: false };
    this.entries.push(entry);
    return entry;
  }
}

export const callsIn = (entries) => entries.filter((entry) => entry.kind === "tool");

// The rows and their bars. `now`: how far a running answer is, in milliseconds.
export function drawTimeline(entries, now) {
  const bars = entries.filter(
    (entry) => entry.kind !== "degraded" && ((entry.end ?? now) - entry.start >= 1 || entry.kind === "tool"),
  );
  const whole = Math.max(1, now ?? 0, ...entries.map((entry) => entry.end ?? 0));
  return [
    axis(whole),
    make(
      "ol",
      { class: "bars", "aria-label": text("timeline") },
      bars.map((entry) => row(entry, whole, now)),
    ),
  ];
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

function row(entry, whole, now) {
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
    entry.kind === "tool" && facts(entry),
    entry.thought && make("div", { class: "bar-facts" }, make("q", {}, foreign(entry.thought))),
  );
}

function iconOf(entry) {
  if (entry.kind === "model") return "thought";
  if (entry.status === "error") return "warning";
  return { vector_search: "file", web_search: "globe" }[entry.tool] ?? "table";
}

function nameOf(entry) {
  if (entry.kind === "model") return text(entry.writes ? "modelWrites" : "modelThinks");
  return (
    { vector_search: text("toolDocuments"), sql_query: text("toolDatabase"), web_search: text("toolWeb") }[
      entry.tool
    ] ?? foreign(entry.tool)
  );
}

function facts(entry) {
  const given = entry.given ?? {};
  const asked = typeof given === "string" ? given : (given.query ?? JSON.stringify(given));
  const searched = (entry.queries ?? []).filter((query) => query !== given.query);
  const outcome = { running: text("running"), stopped: text("stopped") }[entry.status] ?? entry.summary;
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
