// Writes down what happens while an answer is made, with the times at which it was heard of.

import { stepsIn } from "./plan.js";

// `entries` are plain objects: they are kept with the conversation. `lane`: the step of the plan, "" for the whole run.
export class Recorder {
  constructor(entries, now = () => performance.now()) {
    this.entries = entries;
    this.now = now;
    this.began = now();
    this.#openModel("", 0);
  }

  get elapsed() {
    return this.now() - this.began;
  }

  take(step) {
    const at = this.elapsed;
    const { event, kind: about, ...facts } = step;
    if (event === "thought") this.#thought(step, at);
    else if (event === "tool_call_started") this.#started(step, at);
    else if (event === "tool_call_finished") this.#finished(step, at);
    else if (event === "plan") this.#planned(step, at);
    else if (event === "step_finished") this.#stepFinished(step, at);
    else if (["degraded", "chosen", "suspicion", "finding"].includes(event))
      this.entries.push({ ...facts, about, kind: event, start: at, end: at });
  }

  // The first words of the answer: from here on the model writes.
  words() {
    const steps = stepsIn(this.entries);
    steps.forEach(({ id }) => this.#drop(id));
    const open = this.#open("model", "") ?? (steps.length ? this.#openModel("", this.#lastEnd()) : null);
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

  #thought({ thought, step_id: lane = "" }, at) {
    const open = this.#open("model", lane) ?? this.#openModel(lane, lane ? this.#readyAt(lane) : at);
    Object.assign(open, { end: at, thought: thought || "" });
  }

  #started({ call_id, tool, arguments: given, step_id: lane = "" }, at) {
    const model = this.#open("model", lane);
    if (model) model.end = at;
    this.entries.push({
      kind: "tool",
      lane,
      call_id,
      tool,
      given,
      start: at,
      end: null,
      status: "running",
      summary: "",
    });
  }

  #finished(step, at) {
    const call = this.entries.find((entry) => entry.kind === "tool" && entry.call_id === step.call_id);
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
    if (!this.#open("tool", call.lane)) this.#openModel(call.lane, Math.max(at, call.end));
  }

  // The steps that wait for no other begin at once.
  #planned({ revision, steps }, at) {
    stepsIn(this.entries).forEach(({ id }) => this.#drop(id));
    const open = this.#open("model", "") ?? this.#openModel("", this.#lastEnd());
    Object.assign(open, { end: at, plans: true });
    this.entries.push({ kind: "plan", revision, steps, start: at, end: at });
    for (const { id, depends_on } of steps)
      if (!depends_on.some((needed) => steps.some((one) => one.id === needed))) this.#openModel(id, at);
  }

  // What waited for this step, and for no other that is still at work, begins now.
  #stepFinished({ step_id: step, found, reason }, at) {
    const open = this.#open("model", step);
    if (open) open.end = at;
    this.entries.push({ kind: "step_finished", step, found, reason: reason ?? "", start: at, end: at });
    const over = new Set(this.entries.filter((entry) => entry.kind === "step_finished").map((entry) => entry.step));
    for (const { id, depends_on } of stepsIn(this.entries))
      if (depends_on.includes(step) && depends_on.every((one) => over.has(one)) && !over.has(id))
        this.#openModel(id, at);
  }

  // A step that others were waiting for has ended, unheard: the last that was heard of it was its last call.
  #readyAt(lane) {
    const needed = stepsIn(this.entries).find(({ id }) => id === lane)?.depends_on ?? [];
    needed.forEach((id) => this.#drop(id));
    const ends = this.entries.filter((entry) => needed.includes(entry.lane)).map((entry) => entry.end ?? 0);
    const planned = this.entries.findLast((entry) => entry.kind === "plan")?.end ?? 0;
    return Math.max(planned, ...ends);
  }

  #lastEnd() {
    return Math.max(0, ...this.entries.map((entry) => entry.end ?? 0));
  }

  #drop(lane) {
    const at = this.entries.findLastIndex(
      (entry) => entry.kind === "model" && entry.lane === lane && entry.end === null,
    );
    if (at >= 0) this.entries.splice(at, 1);
  }

  #open(kind, lane) {
    return this.entries.findLast((entry) => entry.kind === kind && entry.lane === lane && entry.end === null);
  }

  #openModel(lane, start) {
    const entry = { kind: "model", lane, start, end: null, thought: "", writes: false };
    this.entries.push(entry);
    return entry;
  }
}

export const callsIn = (entries) => entries.filter((entry) => entry.kind === "tool");
