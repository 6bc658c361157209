// Shows an answer's Markdown as nodes. What is not known is shown as it is written, HTML too; pictures as their words.

import { foreign, make, withoutControls } from "../ui/dom.js";
import { text as translated } from "../texts/texts.js";
import { blocksOf } from "./blocks.js";

const DEEPEST = 5;

// Brings `container` up to date with `text`. Blocks that have not changed keep their nodes, and with them a selection.
// `sources`: `mark(n)` makes the node of a [n], `leads(url)` says whether a link may lead there. `version` changes when
// either would look different.
export function show(container, text, sources, version = "") {
  const blocks = blocksOf(text);
  const before = container.shown?.version === version ? container.shown.raws : [];
  let same = 0;
  while (same < blocks.length && same < before.length && before[same] === blocks[same].raw) same += 1;
  while (container.childNodes.length > same) container.lastChild.remove();
  container.append(...blocks.slice(same).map((block) => nodeOf(block, sources)));
  container.shown = { version, raws: blocks.map((block) => block.raw) };
}

function nodeOf(block, sources) {
  const inner = (text) => inline(text, sources);
  switch (block.kind) {
    // The page has an h1, and each question is an h2.
    case "heading":
      return make(`h${Math.min(block.level + 2, 6)}`, {}, inner(block.text));
    case "rule":
      return make("hr");
    case "code":
      return make("pre", { tabindex: 0 }, make("code", {}, block.text));
    case "quote":
      return make(
        "blockquote",
        {},
        block.blocks.map((one) => nodeOf(one, sources)),
      );
    case "list":
      return make(
        block.ordered ? "ol" : "ul",
        { start: block.ordered && block.start !== 1 ? block.start : null },
        block.items.map((item) => make("li", {}, tight(item, sources))),
      );
    case "table":
      return tableOf(block, inner);
    default:
      return make("p", {}, inner(block.text));
  }
}

// An item that is one paragraph needs none around it.
const tight = ([first, ...rest], sources) => [
  first?.kind === "paragraph" ? inline(first.text, sources) : first && nodeOf(first, sources),
  ...rest.map((one) => nodeOf(one, sources)),
];

function tableOf({ head, aligned, rows }, inner) {
  const row = (tag, texts) =>
    make(
      "tr",
      {},
      head.map((_, column) =>
        make(tag, { class: `at-${aligned[column]}`, scope: tag === "th" ? "col" : null }, inner(texts[column] ?? "")),
      ),
    );
  return make(
    "div",
    { class: "scroll", tabindex: 0, role: "group", "aria-label": translated("table") },
    make(
      "table",
      {},
      make("thead", {}, row("th", head)),
      make(
        "tbody",
        {},
        rows.map((texts) => row("td", texts)),
      ),
    ),
  );
}

const PAIRS = [
  ["**", "strong"],
  ["__", "strong"],
  ["~~", "s"],
  ["*", "em"],
  ["_", "em"],
];

export function inline(text, sources, depth = 0) {
  const nodes = [];
  const missing = new Set();
  let plain = "";
  const put = (node) => {
    if (plain) nodes.push(plain);
    plain = "";
    nodes.push(node);
  };
  for (let at = 0; at < text.length;) {
    const found = special(text, at, sources, depth, missing);
    if (found) {
      put(found.node);
      at = found.end;
    } else {
      // What the backslash guards is taken as it is.
      if (text[at] === "\\" && /[\\`*_~[\]|#<>()!.-]/.test(text[at + 1] ?? "")) at += 1;
      plain += text[at];
      at += 1;
    }
  }
  if (plain) nodes.push(plain);
  return nodes;
}

function special(text, at, sources, depth, missing) {
  switch (text[at]) {
    case "\n":
      return { node: make("br"), end: at + 1 };
    case "`":
      return code(text, at, missing);
    case "[":
      return cited(text, at, sources) ?? link(text, at, sources, depth);
    case "!":
      return text[at + 1] === "[" ? picture(text, at) : null;
    case "*":
    case "_":
    case "~":
      return depth < DEEPEST ? stressed(text, at, sources, depth, missing) : null;
    default:
      return null;
  }
}

// Where `mark` comes next. A mark that has been missed once is not looked for again: that keeps the time linear.
function closing(text, mark, from, missing) {
  if (missing.has(mark)) return -1;
  const end = text.indexOf(mark, from);
  if (end < 0) missing.add(mark);
  return end;
}

function code(text, at, missing) {
  const [ticks] = foundAt(TICKS, text, at);
  const end = closing(text, ticks, at + ticks.length, missing);
  return end < 0
    ? null
    : { node: make("code", {}, text.slice(at + ticks.length, end).trim()), end: end + ticks.length };
}

function stressed(text, at, sources, depth, missing) {
  for (const [pair, tag] of PAIRS) {
    const start = at + pair.length;
    if (!text.startsWith(pair, at) || /\s/.test(text[start] ?? " ")) continue;
    if (pair[0] === "_" && /[\p{L}\p{N}]/u.test(text[at - 1] ?? "")) continue;
    const end = closing(text, pair, start + 1, missing);
    if (end < 0 || /\s/.test(text[end - 1]) || (pair[0] === "_" && /[\p{L}\p{N}]/u.test(text[end + pair.length] ?? "")))
      continue;
    return { node: make(tag, {}, inline(text.slice(start, end), sources, depth + 1)), end: end + pair.length };
  }
  return null;
}

const TICKS = /`{1,8}/y;
const MARK = /\[(\d{1,4})\]/y;
const LINK = /\[([^[\]\n]{1,500})\]\(\s*<?([^\s<>()]{1,2000}(?:\([^\s<>()]{0,500}\))?)>?(?:\s+"[^"\n]{0,300}")?\s*\)/y;
const PICTURE = /!\[([^[\]\n]{0,500})\]\([^()\n]{0,2000}\)/y;

function foundAt(pattern, text, at) {
  pattern.lastIndex = at;
  return pattern.exec(text);
}

function cited(text, at, sources) {
  const found = foundAt(MARK, text, at);
  const node = found && text[at + found[0].length] !== "(" ? sources.mark(Number(found[1])) : null;
  return node && { node, end: at + found[0].length };
}

function link(text, at, sources, depth) {
  const found = depth < DEEPEST ? foundAt(LINK, text, at) : null;
  const url = found && webAddress(found[2]);
  if (!url) return null;
  const words = inline(found[1], sources, DEEPEST);
  // An answer might have been talked into a link: it leads to what it cites, or nowhere.
  const node = sources.leads(url.href) ? linkTo(found[2], words) : make("span", {}, words, hostOf(url));
  return { node, end: at + found[0].length };
}

function picture(text, at) {
  const found = foundAt(PICTURE, text, at);
  return found && { node: make("span", { class: "picture" }, foreign(found[1] || "…")), end: at + found[0].length };
}

// A link to the web that says where it goes; null for any other kind of address.
export function linkTo(address, words) {
  const url = webAddress(address);
  if (!url) return null;
  const shown = make(
    "a",
    { href: url.href, target: "_blank", rel: "noopener noreferrer nofollow" },
    words ?? foreign(readable(url)),
  );
  return words ? make("span", {}, shown, hostOf(url)) : shown;
}

const hostOf = (url) => make("small", { class: "host" }, " (", foreign(url.host), ")");

// null for what is no address of the web.
export function webAddress(address) {
  const url = URL.canParse(address) ? new URL(address) : null;
  return url && ["http:", "https:"].includes(url.protocol) ? url : null;
}

function readable(url) {
  try {
    return url.origin + decodeURI(url.pathname) + url.search;
  } catch {
    return withoutControls(url.href);
  }
}
