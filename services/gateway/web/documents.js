// Uploading, watching and deleting documents.

import { call } from "./api.js";
import { $, make } from "./dom.js";
import { openDocument } from "./sources.js";
import { text } from "./texts.js";

const UNFINISHED = ["queued", "parsing", "embedding"];
let timer = null;
let following = null;

export async function show() {
  const collections = (await call("GET", "/collections")).data;
  $("#collection").replaceChildren(...collections.map(({ name }) => make("option", { value: name }, name)));
  await refresh();
}

export async function upload(files, collection) {
  const form = new FormData();
  for (const file of files) form.append("file", file);
  form.append("collection", collection);
  await call("POST", "/documents", form);
  $("#upload-result").textContent = text("sent", files.length);
  await refresh();
}

export async function more() { await refresh(following); }

async function refresh(after) {
  clearTimeout(timer);
  const page = await call("GET", `/documents?limit=100${after ? `&after=${encodeURIComponent(after)}` : ""}`);
  const rows = page.data.map(row);
  if (after) $("#documents").append(...rows);
  else $("#documents").replaceChildren(...rows);
  following = page.after;
  $("#more").hidden = !page.has_more;
  const busy = page.data.some(({ status }) => UNFINISHED.includes(status));
  if (busy && !after && !$("#view-documents").hidden) timer = setTimeout(refresh, 1000);
}

function row(document) {
  const title = document.title || document.source || document.document_id;
  const opener = make("button", { class: "open", onclick: () => openDocument(document.document_id) }, title);
  const progress = document.total_chunk_count ? ` ${document.chunk_count}/${document.total_chunk_count}` : "";
  const notes = [document.reason, ...(document.warnings ?? [])].filter(Boolean).join(" ");
  const status = text(document.status) + progress + (notes ? `: ${notes}` : "");
  const remove = make("button", { class: "quiet", "aria-label": text("remove"), title: text("remove"), onclick: () => drop(document.document_id, title) }, "✕");
  return make("tr", {}, make("td", {}, opener), make("td", {}, document.collection), make("td", {}, status), make("td", {}, remove));
}

async function drop(id, title) {
  if (!confirm(text("reallyRemove", title))) return;
  await call("DELETE", `/documents/${encodeURIComponent(id)}`);
  await refresh();
}
