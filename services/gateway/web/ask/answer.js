// One question and its answer on the screen. Everything is drawn from the turn, so that it can be drawn again.

import { problemOf } from "../gateway/problem.js";
import { labelOf, open, plainLabelOf, sourceOf } from "../sources/sources.js";
import { counted, duration, number, text } from "../texts/texts.js";
import { foreign, icon, iconButton, make } from "../ui/dom.js";
import { announce } from "../ui/live.js";
import { countDown } from "../ui/countdown.js";
import { feedbackOn } from "./feedback.js";
import { show, webAddress } from "./markdown.js";
import { isSearch, placeName } from "./names.js";
import { drawChecking, drawFindings, suspicionsIn } from "./notices.js";
import { callsIn } from "./recorder.js";
import { drawTimeline } from "./timeline.js";
import { serviceName, told } from "./told.js";

const REDRAW_MS = 200;

export class AnswerView {
  // `actions`: {again(turn, extras), keep()}.
  constructor(turn, actions) {
    this.turn = turn;
    this.actions = actions;
    this.summary = make("summary");
    this.bars = make("div", { class: "timeline" });
    this.steps = make("details", { class: "steps" }, this.summary, this.bars);
    this.steps.addEventListener("toggle", () => this.steps.open && this.#drawSteps());
    this.words = make("div", { class: "words" });
    this.after = make("div", { class: "after" });
    this.article = make(
      "article",
      { class: "answer", "aria-label": text("answer") },
      this.steps,
      this.words,
      this.after,
    );
    this.node = make(
      "div",
      { class: "turn" },
      make("h2", { class: "question" }, make("span", { class: "unseen" }, `${text("you")}: `), foreign(turn.question)),
      this.article,
    );
    this.wasRunning = turn.state === "running";
    this.steps.open = this.wasRunning;
    this.#draw();
    if (this.wasRunning)
      this.timer = setInterval(
        () => (this.node.isConnected && this.turn.state === "running" ? this.#drawSteps() : clearInterval(this.timer)),
        REDRAW_MS,
      );
  }

  // The turn has changed. Many changes are drawn at once.
  update() {
    this.waiting ??= requestAnimationFrame(() => {
      this.waiting = null;
      this.#draw();
    });
  }

  #draw() {
    const running = this.turn.state === "running";
    this.article.setAttribute("aria-busy", String(running));
    this.article.classList.toggle("waiting", running && !this.turn.text);
    this.article.classList.toggle("writing", running && Boolean(this.turn.text));
    this.#drawSteps();
    const known = new Map(this.turn.annotations.map((annotation) => [sourceOf(annotation).index, annotation]));
    const cited = new Set(this.turn.annotations.map((annotation) => webAddress(sourceOf(annotation).url)?.href));
    const sources = { mark: (mark) => this.#mark(mark, known), leads: (address) => cited.has(address) };
    show(this.words, this.turn.text, sources, `${known.size}`);
    if (running) return;
    if (this.wasRunning) this.#end();
    const { summary, timeline } = this.turn;
    const checked = [...drawFindings(timeline), ...drawChecking(summary, timeline)];
    this.after.replaceChildren(...this.#notices(), ...checked, ...this.#sources(known), ...this.#actions());
  }

  #end() {
    this.wasRunning = false;
    this.steps.open = false;
    const { state, annotations } = this.turn;
    const said = { done: text("answerReady"), stopped: text("stopped"), broken: text("brokenOff") }[state];
    announce(
      said
        ? `${said} ${annotations.length ? counted("sourcesCount", annotations.length) : ""}`
        : problemOf(this.turn.problem ?? {}).title,
    );
  }

  #drawSteps() {
    const { timeline, state, took_ms } = this.turn;
    const now = this.turn.elapsed?.() ?? null;
    const calls = callsIn(timeline);
    const cached = calls.filter((call) => call.cache).length;
    const suspicions = suspicionsIn(timeline).length;
    const running = state === "running";
    this.steps.hidden = !running && !timeline.some((entry) => entry.kind === "tool" || entry.kind === "chosen");
    const facts = [
      calls.length > 0 && counted("lookups", calls.length),
      cached > 0 && counted("cachedCount", cached),
      suspicions > 0 && counted("suspicionCount", suspicions),
      duration(running ? now : took_ms),
    ];
    this.summary.replaceChildren(
      make("span", { class: running ? "pulse" : "tick" }, !running && icon(state === "done" ? "check" : "warning")),
      make("span", {}, running ? doing(timeline) : text("howFound")),
      make("span", { class: "facts" }, facts.filter(Boolean).join(" · ")),
    );
    if (this.steps.open) this.bars.replaceChildren(...drawTimeline(timeline, now, state), ...this.#breakdown());
  }

  #breakdown() {
    const timings = this.turn.summary?.timings_ms;
    if (!timings) return [];
    const parts = ["model", "tools", "cache", "overhead", "gateway"]
      .filter((name) => name in timings)
      .map((name) => `${text(`time_${name}`)} ${duration(timings[name])}`);
    return [
      make(
        "p",
        { class: "facts" },
        `${parts.join(" · ")} · ${text("answerId")} `,
        make("code", {}, this.turn.summary.answer_id),
      ),
    ];
  }

  #mark(mark, known) {
    const annotation = known.get(mark);
    const label = annotation
      ? `${text("source", { number: mark })}: ${plainLabelOf(annotation)}`
      : text("source", { number: mark });
    return make(
      "button",
      {
        type: "button",
        class: "cite",
        disabled: !annotation,
        "aria-label": label,
        title: label,
        onclick: () => this.#open(annotation),
      },
      String(mark),
    );
  }

  #open(annotation) {
    open(this.turn.annotations, annotation, this.turn.text);
  }

  #notices() {
    const { state, summary, problem, timeline } = this.turn;
    const notices = timeline
      .filter((entry) => entry.kind === "degraded")
      .map((entry) => notice("warn", text("without", { service: serviceName(entry.service) }), foreign(told(entry.reason))));
    if (summary?.finish === "partial")
      notices.push(notice("warn", text("partial"), text(`reason_${summary.reason}`, {}, "")));
    if (summary?.finish === "refused") {
      const why = summary.reason === "unsupported" ? "unsupported" : "refused";
      notices.push(notice("", text(why), text("refusedAdvice")));
    }
    if (state === "stopped") notices.push(notice("", text("stopped"), "", this.#again()));
    if (state === "broken") notices.push(this.#problem(problemOf(problem ?? {}), text("brokenOff")));
    if (state === "failed") notices.push(this.#problem(problemOf(problem ?? {})));
    return notices;
  }

  #problem(problem, before) {
    const again = problem.canRetry && this.#again();
    const wait = make("span", { class: "wait" });
    const node = notice(
      "bad",
      [before && `${before} `, problem.title],
      [problem.advice, " ", wait],
      again,
      problem.technical &&
        make(
          "details",
          { class: "technical" },
          make("summary", {}, text("technical")),
          make("code", {}, foreign(problem.technical)),
        ),
    );
    if (again && problem.retryAt > Date.now()) {
      again.disabled = true;
      countDown(
        wait,
        problem.retryAt,
        (left) => text("retryIn", { time: left }),
        () => {
          wait.textContent = "";
          again.disabled = false;
          if (node.isConnected) announce(text("retryNow"));
        },
      );
    }
    return node;
  }

  #again(extras) {
    return make(
      "button",
      { type: "button", class: "second", onclick: () => this.actions.again(this.turn, extras) },
      icon("again"),
      make("span", {}, text("tryAgain")),
    );
  }

  #sources(known) {
    if (!known.size) return [];
    const sources = [...known]
      .sort(([a], [b]) => a - b)
      .map(([mark, annotation]) =>
        make(
          "li",
          {},
          make(
            "button",
            { type: "button", class: "source", onclick: () => this.#open(annotation) },
            make("span", { class: "number" }, String(mark)),
            labelOf(annotation),
          ),
        ),
      );
    return [
      make(
        "details",
        { class: "sources", open: sources.length <= 4 },
        make("summary", {}, counted("sourcesCount", sources.length)),
        make("ul", {}, sources),
      ),
    ];
  }

  #actions() {
    const { turn } = this;
    if (!turn.text) return [];
    const { buttons, form } = feedbackOn(turn, () => this.actions.keep());
    const cached = callsIn(turn.timeline).some((call) => call.cache);
    const tokens = turn.summary?.tokens && turn.summary.tokens.prompt + turn.summary.tokens.completion;
    const facts = [duration(turn.took_ms), tokens && `${number(tokens)} ${text("tokens")}`].filter(Boolean).join(" · ");
    return [
      make(
        "div",
        { class: "actions" },
        iconButton("copy", text("copy"), { onclick: (event) => this.#copy(event.currentTarget) }),
        buttons,
        iconButton("again", text(cached ? "askAfresh" : "askAgain"), {
          onclick: () => this.actions.again(turn, cached ? { cache: "refresh" } : {}),
        }),
        make("span", { class: "facts" }, facts),
      ),
      form,
    ];
  }

  async #copy(button) {
    const sources = this.turn.annotations.map(
      (annotation) => `[${sourceOf(annotation).index}] ${plainLabelOf(annotation)}`,
    );
    await copied([this.turn.text, ...(sources.length ? ["", ...sources] : [])].join("\n"));
    button.replaceChildren(icon("check"));
    setTimeout(() => button.replaceChildren(icon("copy")), 1500);
    announce(text("copied"));
  }
}

function doing(timeline) {
  const now = timeline.filter((entry) => entry.end === null);
  const tools = [...new Set(now.filter((entry) => entry.kind === "tool").map((entry) => entry.tool))];
  if (tools.length)
    return text(tools.every(isSearch) ? "searching" : "asking", { where: tools.map(placeName).join(", ") });
  if (now.some((entry) => entry.writes)) return text("writing");
  return text(timeline.some((entry) => entry.kind === "plan") ? "followingPlan" : "thinking");
}

function notice(kind, title, words, ...more) {
  return make(
    "div",
    { class: `notice ${kind}` },
    kind && icon("warning"),
    make("div", {}, make("strong", {}, title), " ", words, more),
  );
}

// The clipboard of the browser is there only over HTTPS and on this machine.
async function copied(words) {
  if (navigator.clipboard) return navigator.clipboard.writeText(words);
  const field = make("textarea", { class: "unseen" });
  field.value = words;
  document.body.append(field);
  field.select();
  document.execCommand("copy");
  field.remove();
}
