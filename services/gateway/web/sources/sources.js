// What is behind a mark: the passage inside its document, the statement with its rows, or the page of the web.

import { linkTo } from "../ask/markdown.js";
import { toolIcon } from "../ask/names.js";
import { toolName } from "../ask/told.js";
import { problemOf } from "../gateway/problem.js";
import { counted, text } from "../texts/texts.js";
import { closable } from "../ui/dialogs.js";
import { $, foreign, icon, iconButton, make, withoutControls } from "../ui/dom.js";
import { claimsOf } from "./marking.js";
import { passageNode, Reader } from "./passages.js";
import { statementParts } from "./statement.js";
import { askedOf, toolParts } from "./tool.js";

export const sourceOf = (annotation) => annotation[annotation.type];

const KINDS = { sql_citation: "table", url_citation: "globe", file_citation: "file" };
const iconOf = (annotation) =>
  annotation.type === "tool_citation" ? toolIcon(sourceOf(annotation).tool) : (KINDS[annotation.type] ?? "file");

export function plainLabelOf(annotation) {
  const source = sourceOf(annotation);
  const parts =
    {
      sql_citation: () => [text("toolDatabase"), counted("rows", source.row_count)],
      url_citation: () => [source.title, source.url],
      tool_citation: () => [toolName(source.tool), askedOf(source.arguments)],
      file_citation: () => [
        source.title || source.filename || source.file_id,
        source.section,
        source.page && text("page", { page: source.page }),
      ],
    }[annotation.type] ?? (() => [annotation.type]);
  return withoutControls(parts().filter(Boolean).join(" · "));
}

export function labelOf(annotation) {
  const [title, ...rest] = plainLabelOf(annotation).split(" · ");
  return [
    icon(iconOf(annotation)),
    make(
      "span",
      {},
      make("bdi", { class: "label" }, title),
      rest.length > 0 && make("bdi", { class: "facts" }, rest.join(" · ")),
    ),
  ];
}

// Opens one of the answer's sources; the others can be leafed to. `answer` is its text.
export function open(annotations, annotation, answer) {
  const all = annotations.toSorted((a, b) => sourceOf(a).index - sourceOf(b).index);
  const at = all.indexOf(annotation);
  const source = sourceOf(annotation);
  const leafTo = (other, side) => {
    open(annotations, all[other], answer);
    // The button that was pressed has been made anew, and at either end it is off.
    ($(`#source-leaf button:nth-of-type(${side}):enabled`) ?? $("#source-leaf button:enabled")).focus();
  };
  const leaf =
    all.length > 1 &&
    make(
      "div",
      { class: "leaf" },
      iconButton("left", text("previousSource"), { disabled: at === 0, onclick: () => leafTo(at - 1, 1) }),
      make("span", {}, text("sourceOf", { number: at + 1, count: all.length })),
      iconButton("right", text("nextSource"), { disabled: at === all.length - 1, onclick: () => leafTo(at + 1, 2) }),
    );
  const title = [make("span", { class: "number" }, String(source.index)), make("span", {}, headOf(annotation))];
  const claims = claimsOf(answer, source.index);
  switch (annotation.type) {
    case "sql_citation":
      return shown(title, leaf, statementParts(source));
    case "url_citation":
      return shown(title, leaf, webParts(source, claims));
    case "tool_citation":
      return shown(title, leaf, toolParts(source, claims));
    default:
      return openPassage(title, leaf, source, claims);
  }
}

const headOf = (annotation) => foreign(plainLabelOf(annotation).split(" · ")[0]);

// A whole document, from its beginning. `opener` finds what the focus goes back to where the button has been made anew.
export function openDocument(id, title, opener) {
  const dialog = $("#source");
  const giveBack = () => {
    // The browser has given it back, unless the button is gone: then it is still in what cannot be seen any more.
    if (document.activeElement === document.body || dialog.contains(document.activeElement)) opener()?.focus();
  };
  dialog.addEventListener("close", giveBack, { once: true });
  return openPassage([make("span", {}, foreign(title))], null, { file_id: id }, []);
}

async function openPassage(title, leaf, source, claims) {
  const opened = shown(title, leaf, [make("p", { class: "hint waiting", role: "status" }, text("opening"))]);
  try {
    const reader = new Reader(source, claims);
    await reader.readTo(source.chunk_id);
    if (opened !== token) return;
    shown(title, leaf, reader.nodes());
    showCited();
  } catch (error) {
    if (opened !== token) return;
    // The document may be gone since; what was cited is still known.
    shown(title, leaf, [
      make("p", { class: "bad", role: "alert" }, error.status === 404 ? text("sourceGone") : problemOf(error).title),
      source.quote && passageNode({ text: source.quote, section: source.section, page: source.page }, true, claims),
    ]);
  }
}

function webParts(source, claims) {
  const link = linkTo(source.url);
  return [
    make(
      "p",
      { class: "address" },
      link ?? foreign(source.url),
      link && [" ", icon("out"), make("span", { class: "unseen" }, text("newTab"))],
    ),
    source.quote && passageNode({ text: source.quote }, true, claims),
    make("p", { class: "hint" }, text("untrusted")),
  ];
}

// In the middle of the dialog, or from its first line if it is long.
function showCited() {
  const body = $("#source-body");
  const cited = body.querySelector(".cited");
  if (cited) body.scrollTop = cited.offsetTop - Math.max(16, (body.clientHeight - cited.offsetHeight) / 2);
}

let token = 0;

// Fills the dialog and opens it. Returns a token; what arrives for an older one comes too late.
function shown(title, leaf, parts) {
  const dialog = $("#source");
  $("#source-title").replaceChildren(...title);
  // Left where it is, the button that has the focus keeps it.
  if ($("#source-leaf").firstChild !== leaf) $("#source-leaf").replaceChildren(...(leaf ? [leaf] : []));
  $("#source-body").replaceChildren(make("div", {}, parts));
  $("#source-body").scrollTop = 0;
  if (!dialog.open) dialog.showModal();
  token += 1;
  return token;
}

export function begin() {
  closable($("#source"));
  $("#close").addEventListener("click", () => $("#source").close());
  $("#source").addEventListener("keydown", (event) => {
    const button = { ArrowLeft: 0, ArrowRight: 1 }[event.key];
    if (button === undefined || event.target.closest("pre, .scroll")) return;
    $("#source-leaf").querySelectorAll("button")[button]?.click();
  });
  $("#source").addEventListener("close", () => {
    token += 1;
  });
}
