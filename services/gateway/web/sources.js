// Opens what is behind a mark: the passage inside its document, the statement with its rows, or the page of the web.

import { call } from "./api.js";
import { $, make } from "./dom.js";
import { counted, text } from "./texts.js";

export function labelOf(annotation) {
  const source = annotation[annotation.type];
  switch (annotation.type) {
    case "sql_citation": return `SQL · ${counted("row", "rows", source.row_count)}`;
    case "url_citation": return source.title || source.url;
    default: return [source.title, source.section, source.page && text("page", source.page)].filter(Boolean).join(" · ");
  }
}

export async function open(annotation) {
  const source = annotation[annotation.type];
  if (annotation.type === "file_citation") return openDocument(source.file_id, source.chunk_id, source);
  show(labelOf(annotation), annotation.type === "sql_citation" ? sql(source) : web(source));
}

export async function openDocument(id, chunkId, quoted) {
  show(quoted?.title ?? id, [make("p", { class: "hint waiting" })]);
  try {
    const found = await wholeDocument(id);
    const passages = found.data.map((passage) => make("p", { class: passage.chunk_id === chunkId ? "passage cited" : "passage" },
      make("small", {}, [passage.section, passage.page && text("page", passage.page)].filter(Boolean).join(" · ")), passage.text));
    show(found.document.title || id, [make("p", { class: "hint" }, `${found.document.source ?? ""} · ${id}`), ...passages]);
    $("#source-body .cited")?.scrollIntoView({ block: "center" });
  } catch (error) {
    // The document may be gone since; what was cited is still known.
    show(quoted?.title ?? id, [make("p", { class: "warning" }, error.message || text("notFound")),
      quoted?.quote ? make("p", { class: "passage cited" }, quoted.quote) : null].filter(Boolean));
  }
}

async function wholeDocument(id) {
  const path = `/documents/${encodeURIComponent(id)}/chunks`;
  const found = await call("GET", path);
  while (found.after) {
    const page = await call("GET", `${path}?after=${encodeURIComponent(found.after)}`);
    found.data.push(...page.data);
    found.after = page.after;
  }
  return found;
}

function sql(source) {
  const head = make("tr", {}, ...source.columns.map((name) => make("th", {}, name)));
  const rows = source.rows.map((row) => make("tr", {}, ...row.map((cell) => make("td", {}, cell === null ? "∅" : String(cell)))));
  return [
    make("pre", {}, source.statement),
    make("p", { class: "hint" }, `${text("params")}: ${JSON.stringify(source.params)}`),
    make("div", { class: "scroll" }, make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows))),
  ];
}

function web(source) {
  const safe = /^https?:\/\//.test(source.url);
  return [
    make("p", {}, safe ? make("a", { href: source.url, target: "_blank", rel: "noopener noreferrer nofollow" }, source.url) : source.url),
    make("p", { class: "passage cited" }, source.quote ?? ""),
    make("p", { class: "hint" }, text("untrusted")),
  ];
}

function show(title, children) {
  $("#source-title").textContent = title;
  $("#source-body").replaceChildren(...children);
  $("#source-body").scrollTop = 0;
  if (!$("#source").open) $("#source").showModal();
}
