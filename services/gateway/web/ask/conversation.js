// A conversation: its turns, and the answer that is being made. Knows nothing of what is on the screen.

import { ask } from "../gateway/api.js";
import { toKeep } from "../gateway/problem.js";
import * as history from "./history.js";
import { Recorder } from "./recorder.js";

// The gateway takes more; the model reads the last few thousand tokens of it only.
export const SENT_TURNS = 10;
const SAVE_EVERY_MS = 2000;

export class Conversation {
  constructor({ id, owner, title = "", updated = Date.now(), turns = [] }) {
    Object.assign(this, { id, owner, title, updated, turns });
    this.running = null;
    // Called with a turn when it has changed, and without one when the list of turns has.
    this.changed = () => {};
    for (const turn of turns) {
      // The page was closed while it ran.
      if (turn.state === "running")
        Object.assign(turn, { state: "broken", problem: { status: 0, code: "page_closed" } });
    }
  }

  static begun(owner) {
    return new Conversation({ id: newId(), owner });
  }

  static async opened(id) {
    const kept = await history.get(id);
    return kept && new Conversation(kept);
  }

  // Asks; ends when the answer has ended, however it did. `again`: in place of that turn and what came after it.
  async ask(question, { again = null, extras = {} } = {}) {
    if (this.running) return;
    if (again) this.turns.splice(this.turns.indexOf(again));
    const messages = [...this.#told(), { role: "user", content: question }];
    const turn = newTurn(question);
    this.turns.push(turn);
    this.title ||= question.trim().split("\n")[0].slice(0, 120);
    this.running = new AbortController();
    this.changed();
    await this.#save();
    await this.#follow(turn, messages, extras, this.running.signal);
    this.running = null;
    this.changed(turn);
    await this.#save();
  }

  stop() {
    this.running?.abort();
  }

  // Deleted: what is still running ends, and must not come back with its last word.
  discard() {
    this.discarded = true;
    this.stop();
  }

  async save() {
    if (this.turns.length) await this.#save();
  }

  async #follow(turn, messages, extras, signal) {
    const recorder = new Recorder(turn.timeline);
    turn.elapsed = () => recorder.elapsed;
    let saved = Date.now();
    try {
      for await (const chunk of ask(messages, extras, signal)) {
        take(turn, chunk, recorder);
        this.changed(turn);
        if (Date.now() - saved > SAVE_EVERY_MS) {
          saved = Date.now();
          await this.#save();
        }
      }
      turn.state = "done";
    } catch (error) {
      if (error.name === "AbortError") turn.state = "stopped";
      else
        Object.assign(turn, {
          state: turn.text || turn.timeline.some((entry) => entry.kind === "tool") ? "broken" : "failed",
          problem: toKeep(error),
        });
    }
    recorder.close(turn.state !== "done");
    turn.took_ms = turn.summary?.timings_ms?.total ?? recorder.elapsed;
    delete turn.elapsed;
  }

  // What is sent along: the last turns that said something. Their marks name sources that only they had.
  #told() {
    const telling = this.turns.filter((turn) => turn.text);
    return telling.slice(-SENT_TURNS).flatMap((turn) => [
      { role: "user", content: turn.question },
      { role: "assistant", content: turn.text.replace(/\s?\[\d+\]/g, "") },
    ]);
  }

  async #save() {
    if (this.discarded) return;
    this.updated = Date.now();
    const turns = this.turns.map((turn) => ({ ...turn, elapsed: undefined }));
    // A full disk must not end an answer.
    await history.put({ ...this, turns }).catch((error) => console.warn(error));
  }
}

const newTurn = (question) => ({
  question,
  asked: Date.now(),
  text: "",
  annotations: [],
  timeline: [],
  state: "running",
  summary: null,
  problem: null,
  feedback: null,
});

function take(turn, chunk, recorder) {
  const extras = chunk.sabueso ?? {};
  if (extras.step) recorder.take(extras.step);
  for (const { delta } of chunk.choices ?? []) {
    for (const annotation of delta?.annotations ?? []) turn.annotations.push(annotation);
    if (delta?.content) {
      if (!turn.text) recorder.words();
      turn.text += delta.content;
    }
  }
  if (extras.finish) {
    const { answer_id, finish, reason, timings_ms, tokens, iterations, strategy, checking } = extras;
    turn.summary = { answer_id, finish, reason, timings_ms, tokens, iterations, strategy, checking };
  }
}

// crypto.randomUUID is missing where the page comes over plain HTTP from another machine.
function newId() {
  return [...crypto.getRandomValues(new Uint8Array(12))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
