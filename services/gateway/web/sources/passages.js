// A document and its passages, with the words marked that an answer rests on.

import { call } from "../gateway/api.js";
import { problemOf } from "../gateway/problem.js";
import { text } from "../texts/texts.js";
import { foreign, make } from "../ui/dom.js";
import { cutAt, placeOf, runsIn } from "./marking.js";

const PASSAGES = 100;

// Reads a document page by page: as far as the passage that is wanted, and on when asked.
export class Reader {
  constructor(source, claims) {
    Object.assign(this, { source, claims, passages: [], after: "", document: null });
    this.list = make("div");
  }

  async readTo(chunkId) {
    do await this.#readOn();
    while (this.after && chunkId && !this.passages.some((one) => one.chunk_id === chunkId));
  }

  nodes() {
    const {
      document: { source, collection },
    } = this;
    const more = make(
      "button",
      { type: "button", class: "second", hidden: !this.after, onclick: () => this.#more(more) },
      text("readOn"),
    );
    const missing = this.source.chunk_id && !this.passages.some((one) => one.chunk_id === this.source.chunk_id);
    return [
      make(
        "p",
        { class: "hint" },
        [source, collection, this.source.file_id]
          .filter(Boolean)
          .flatMap((fact, index) => [index ? " · " : "", foreign(fact)]),
      ),
      this.claims.length > 0 && make("p", { class: "hint" }, make("mark", {}, text("marked")), " ", text("markedHint")),
      // The document has been replaced since: what was cited stands first.
      missing &&
        this.source.quote && [
          make("p", { class: "notice warn" }, text("passageChanged")),
          passageNode({ text: this.source.quote }, true, this.claims),
        ],
      this.list,
      more,
    ];
  }

  async #more(button) {
    const from = this.passages.length;
    button.disabled = true;
    await this.#readOn().catch((error) =>
      button.before(make("p", { class: "bad", role: "alert" }, problemOf(error).title)),
    );
    button.disabled = false;
    button.hidden = !this.after;
    this.list.children[from]?.focus();
  }

  async #readOn() {
    const path = `/documents/${encodeURIComponent(this.source.file_id)}/chunks?limit=${PASSAGES}`;
    const page = await call("GET", path + (this.after ? `&after=${encodeURIComponent(this.after)}` : ""));
    this.passages.push(...page.data);
    this.document ??= page.document ?? {};
    this.after = page.after;
    this.list.append(...page.data.map((passage) => this.#node(passage)));
  }

  #node(passage) {
    const cited = passage.chunk_id === this.source.chunk_id;
    return passageNode(passage, cited, cited ? this.claims : [], this.source.quote);
  }
}

// Where the quote is a part of the passage, only that part is looked at; words that the answer says are marked in it.
export function passageNode(passage, cited, claims, quote = "") {
  const place = cited && quote ? placeOf(passage.text, quote) : null;
  const [from, to] = place ?? [0, passage.text.length];
  const runs = cited
    ? runsIn(passage.text.slice(from, to), claims).map(([start, end]) => [start + from, end + from])
    : [];
  const pieces = cutAt(passage.text, runs).map(([piece, marked]) => (marked ? make("mark", {}, piece) : piece));
  const where = [passage.section, passage.page && text("page", { page: passage.page })].filter(Boolean).join(" · ");
  return make(
    "div",
    { class: cited ? "passage cited" : "passage", tabindex: -1 },
    where && make("small", {}, foreign(where)),
    cited && make("span", { class: "unseen" }, text("citedPassage")),
    make("p", {}, pieces),
  );
}
