// Asking: the question, the steps as they arrive, the answer with its marks, the sources.

import { ask } from "./api.js";
import { $, make, renderAnswer } from "./dom.js";
import { labelOf, open } from "./sources.js";
import { age, counted, language, text } from "./texts.js";

let history = [];
let running = null;

export function start(question, onRefused) {
  if (running) return;
  running = new AbortController();
  const view = new AnswerView();
  $("#examples").replaceChildren();
  $("#conversation").append(make("div", { class: "question" }, question), view.node);
  $("#send").textContent = text("stop");
  view.node.scrollIntoView({ block: "end" });
  follow(question, view, onRefused).finally(() => {
    running = null;
    $("#send").textContent = text("send");
    $("#new").hidden = false;
  });
}

export function stop() {
  running?.abort();
  return running !== null;
}

export function reset() {
  stop();
  history = [];
  $("#conversation").replaceChildren();
  $("#new").hidden = true;
}

async function follow(question, view, onRefused) {
  const messages = [...history, { role: "user", content: question }];
  try {
    for await (const chunk of ask(messages, running.signal)) view.take(chunk);
    history = [...messages, { role: "assistant", content: view.text }];
  } catch (error) {
    view.warn(error.name === "AbortError" ? text("stopped") : error.status ? error.message : text("lost"));
    if (error.status === 401) onRefused();
  } finally {
    view.end();
  }
}

// From the cache, how old, and for which question where it was asked in other words.
function cached({ from_cache: fromCache, cache }) {
  if (!fromCache) return [];
  const matched = cache?.matched ? ` · ${text("askedAs", cache.matched)}` : "";
  return [make("span", { class: "cached" }, ` · ${text("fromCache")}${cache ? `, ${age(cache.age_s)}` : ""}${matched}`)];
}

class AnswerView {
  constructor() {
    this.text = "";
    this.annotations = new Map();
    this.calls = new Map();
    this.summary = make("summary", {}, "…");
    this.steps = make("details", { class: "steps", open: true }, this.summary);
    this.body = make("div", { class: "waiting" });
    this.after = make("div");
    this.node = make("article", { class: "answer" }, this.steps, this.body, this.after);
  }

  take(chunk) {
    const extras = chunk.sabueso ?? {};
    if (extras.step) this.step(extras.step);
    for (const { delta } of chunk.choices ?? []) {
      for (const annotation of delta?.annotations ?? []) this.annotations.set(annotation[annotation.type].index, annotation);
      if (delta?.content) this.text += delta.content;
    }
    if (extras.finish) this.finish(extras);
    this.draw();
  }

  step(step) {
    if (step.event === "tool_call_started") {
      const said = step.arguments?.query ?? JSON.stringify(step.arguments);
      const state = make("span", {}, "…");
      const line = make("div", { class: "step" }, state, make("div", {}, make("b", {}, step.tool), " ", make("code", {}, said)));
      this.calls.set(step.call_id, { state, line });
      this.steps.append(line);
      this.summary.textContent = counted("step", "steps", this.calls.size);
    } else if (step.event === "tool_call_finished" && this.calls.has(step.call_id)) {
      const { state, line } = this.calls.get(step.call_id);
      state.textContent = step.status === "ok" ? "✓" : "✗";
      state.className = step.status;
      line.lastChild.append(make("div", {}, `${step.summary} · ${Math.round(step.duration_ms)} ms`, ...cached(step)));
    } else if (step.event === "degraded") {
      this.warn(text("without", step.service, step.reason));
    }
  }

  draw() {
    this.steps.hidden = this.calls.size === 0;
    this.body.replaceChildren(...renderAnswer(this.text, (mark) => {
      const annotation = this.annotations.get(mark);
      return make("button", { class: "cite", type: "button", disabled: !annotation, title: annotation && labelOf(annotation), onclick: () => open(annotation) }, String(mark));
    }));
  }

  finish(summary) {
    if (this.annotations.size) {
      const sources = [...this.annotations].sort(([a], [b]) => a - b).map(([mark, annotation]) =>
        make("button", { type: "button", onclick: () => open(annotation) }, make("b", {}, `[${mark}] `), labelOf(annotation)));
      this.after.append(make("div", { class: "sources", "aria-label": text("sources") }, ...sources));
    }
    if (summary.finish === "partial") this.warn(text("partial", summary.reason ?? ""));
    if (summary.finish === "refused") this.warn(text("refused"));
    const tokens = summary.tokens.prompt + summary.tokens.completion;
    this.after.append(make("p", { class: "facts" }, `${Math.round(summary.timings_ms.total)} ms · ${tokens.toLocaleString(language.code)} ${text("tokens")} · ${summary.answer_id}`));
    this.steps.open = false;
  }

  warn(message) { this.after.append(make("p", { class: "warning" }, message)); }

  end() {
    this.body.classList.remove("waiting");
    this.draw();
  }
}
