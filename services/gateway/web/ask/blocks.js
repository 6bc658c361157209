// Markdown, as models write it, into blocks: {kind, raw, …}. Time grows with the length of the text and no faster.

const FENCE = /^ {0,3}(```+|~~~+)\s*([\w+-]{0,30})/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*)$/;
const RULE = /^ {0,3}([-*_])(?:[ \t]*\1){2,}[ \t]*$/;
const ITEM = /^(\s*)([-*•+]|\d{1,9}[.)])\s+(.*)$/;
const DIVIDER = /^\|?\s*:?-+:?\s*(?:\|\s*:?-+:?\s*)*\|?$/;
const LONGEST_DIVIDER = 1000;
const DEEPEST = 6;

export function blocksOf(text, depth = 0) {
  const lines = text.split("\n");
  const blocks = [];
  for (let at = 0; at < lines.length;) {
    if (!lines[at].trim()) {
      at += 1;
      continue;
    }
    const [block, next] = blockAt(lines, at, depth);
    blocks.push({ ...block, raw: lines.slice(at, next).join("\n") });
    at = next;
  }
  return blocks;
}

function blockAt(lines, at, depth) {
  const line = lines[at];
  const fence = line.match(FENCE);
  if (fence) return fenced(lines, at, fence);
  const heading = line.match(HEADING);
  if (heading) return [{ kind: "heading", level: heading[1].length, text: heading[2].replace(/\s#+\s*$/, "") }, at + 1];
  if (RULE.test(line)) return [{ kind: "rule" }, at + 1];
  if (isTable(lines, at)) return table(lines, at);
  if (depth < DEEPEST && /^ {0,3}>/.test(line)) return quoted(lines, at, depth);
  if (depth < DEEPEST && ITEM.test(line)) return list(lines, at, depth);
  let end = at + 1;
  while (end < lines.length && lines[end].trim() && !begins(lines, end)) end += 1;
  return [
    {
      kind: "paragraph",
      text: lines
        .slice(at, end)
        .map((one) => one.trim())
        .join("\n"),
    },
    end,
  ];
}

const begins = (lines, at) =>
  FENCE.test(lines[at]) ||
  HEADING.test(lines[at]) ||
  RULE.test(lines[at]) ||
  /^ {0,3}>/.test(lines[at]) ||
  ITEM.test(lines[at]) ||
  isTable(lines, at);

function fenced(lines, at, [, mark, language]) {
  let end = at + 1;
  while (end < lines.length && !lines[end].trim().startsWith(mark)) end += 1;
  return [{ kind: "code", language, text: lines.slice(at + 1, end).join("\n") }, Math.min(end + 1, lines.length)];
}

function quoted(lines, at, depth) {
  let end = at;
  while (end < lines.length && /^ {0,3}>/.test(lines[end])) end += 1;
  const inner = lines
    .slice(at, end)
    .map((one) => one.replace(/^ {0,3}> ?/, ""))
    .join("\n");
  return [{ kind: "quote", blocks: blocksOf(inner, depth + 1) }, end];
}

// Items of one list share their indentation; what is indented deeper belongs to the item above it.
function list(lines, at, depth) {
  const [, { length: indent }, first] = lines[at].match(ITEM);
  const ordered = /\d/.test(first);
  const items = [];
  let end = at;
  for (; end < lines.length; end += 1) {
    const item = lines[end].match(ITEM);
    if (item && item[1].length <= indent + 1) {
      if (item[1].length < indent || /\d/.test(item[2]) !== ordered) break;
      items.push([item[3]]);
    } else if (lines[end].trim() ? /^\s{2,}/.test(lines[end]) : goesOn(lines, end + 1, indent, ordered)) {
      items.at(-1).push(lines[end].trim() ? lines[end] : "");
    } else break;
  }
  const start = ordered ? Number.parseInt(first, 10) : 1;
  return [{ kind: "list", ordered, start, items: items.map((one) => blocksOf(dedented(one), depth + 1)) }, end];
}

function goesOn(lines, at, indent, ordered) {
  const next = lines[at];
  const item = next?.match(ITEM);
  return item
    ? item[1].length >= indent && (item[1].length > indent + 1 || /\d/.test(item[2]) === ordered)
    : /^\s{2,}\S/.test(next ?? "");
}

function dedented([first, ...rest]) {
  const depths = rest.filter((one) => one.trim()).map((one) => one.length - one.trimStart().length);
  const least = Math.min(...depths);
  return [first, ...rest.map((one) => one.slice(Number.isFinite(least) ? least : 0))].join("\n");
}

function isTable(lines, at) {
  const divider = lines[at + 1]?.trim() ?? "";
  if (!lines[at].includes("|") || !divider.includes("-") || divider.length > LONGEST_DIVIDER) return false;
  return DIVIDER.test(divider) && cells(lines[at]).length === cells(divider).length;
}

function table(lines, at) {
  const head = cells(lines[at]);
  const aligned = cells(lines[at + 1]).map((one) =>
    /-:$/.test(one) ? (one.startsWith(":") ? "center" : "end") : "start",
  );
  let end = at + 2;
  const rows = [];
  for (; end < lines.length && lines[end].trim() && lines[end].includes("|"); end += 1)
    rows.push(cells(lines[end]).slice(0, head.length));
  return [{ kind: "table", head, aligned, rows }, end];
}

function cells(line) {
  const inner = line
    .trim()
    .replace(/^\|/, "")
    .replace(/(?<!\\)\|$/, "");
  return inner.split(/(?<!\\)\|/).map((one) => one.trim().replaceAll("\\|", "|"));
}
