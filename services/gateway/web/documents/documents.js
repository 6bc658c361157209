// The documents of the tenant: what there is, how far what comes in is, and taking it away.

import { call } from "../gateway/api.js";
import { problemOf } from "../gateway/problem.js";
import { openDocument } from "../sources/sources.js";
import { counted, language, text, when } from "../texts/texts.js";
import { asked, confirmed } from "../ui/dialogs.js";
import { $, foreign, icon, iconButton, make } from "../ui/dom.js";
import { announce } from "../ui/live.js";
import { place } from "../ui/place.js";
import * as uploads from "./uploads.js";

const PAGE = 50;
const UNFINISHED = ["queued", "parsing", "embedding"];
const SOONEST_MS = 700;
const LATEST_MS = 10_000;

let timer = null;
let wait = SOONEST_MS;
let known = [];
// Whether the list has come at all.
let listed = false;
let following = "";
let collections = null;
let collectionsKnown = Promise.resolve();
let askedFor = 0;
let loading = Promise.resolve();
// Rows by document: {looks, node}.
let rows = new Map();

export function begin() {
  uploads.begin({
    started: hurry,
    collection: () => $("#collection").value,
    collectionsKnown: () => collectionsKnown,
  });
  $("#filter").addEventListener("change", () => load());
  $("#more").addEventListener("click", () => load({ more: true }));
  $("#reload").addEventListener("click", () => show());
  $("#new-collection").addEventListener("click", newCollection);
}

export async function show() {
  await loadCollections();
  await load();
}

// Stops looking; the uploads go on.
export function hide() {
  clearTimeout(timer);
}

export function redraw() {
  drawCollections();
  draw();
  uploads.redraw();
}

function loadCollections() {
  const mine = readCollections();
  collectionsKnown = mine.catch(() => {});
  return mine;
}

async function readCollections() {
  const mine = (askedFor += 1);
  const found = (await call("GET", "/collections")).data ?? [];
  // What was asked for later is newer, whichever comes first.
  if (mine !== askedFor) return;
  collections = found;
  drawCollections();
}

function drawCollections() {
  for (const [select, none] of [
    [$("#collection"), null],
    [$("#filter"), text("allCollections")],
  ]) {
    const before = select.value;
    select.replaceChildren(
      ...(none ? [make("option", { value: "" }, none)] : []),
      ...(collections ?? []).map(({ name, document_count }) =>
        make("option", { value: name }, none ? `${name} (${document_count ?? "?"})` : name),
      ),
    );
    if (collections?.some(({ name }) => name === before)) select.value = before;
  }
  // Until they are known there may be some.
  const none = collections?.length === 0;
  $("#no-collections").hidden = !none;
  $("#drop").hidden = none;
}

// One after the other: an answer that comes late must not draw an older list, or that of another collection.
function load(options) {
  const mine = loading.then(() => read(options));
  loading = mine.catch(() => {});
  return mine;
}

async function read({ more = false } = {}) {
  clearTimeout(timer);
  if (more && !following) return;
  const query = new URLSearchParams({ limit: PAGE, collection: $("#filter").value, after: more ? following : "" });
  const page = await call("GET", `/documents?${query}`).catch((error) => {
    if (error.status === 401) throw error;
    return failed(error);
  });
  if (!page) return;
  listed = true;
  const from = more ? known.length : 0;
  // What was loaded further down stays; only the first page is looked at again and again.
  const later =
    more || page.data.length < PAGE
      ? []
      : known
          .filter((one) => !page.data.some((other) => other.document_id === one.document_id))
          .slice(0, known.length - page.data.length);
  known = more ? [...known, ...page.data] : [...page.data, ...later];
  if (more || !later.length) following = page.after ?? "";
  $("#list-problem").replaceChildren(
    page.degraded?.length ? make("p", { class: "notice warn" }, text("jobsUnknown")) : "",
  );
  draw();
  if (more) $("#documents").children[from]?.querySelector("button")?.focus();
  const settled = uploads.follow(known);
  plan(page.data, settled);
}

// Looks again soon while something moves, and ever more seldom while nothing does.
function plan(documents, settled) {
  const state = JSON.stringify(
    documents
      .filter((one) => UNFINISHED.includes(one.status))
      .map((one) => [one.document_id, one.status, one.chunk_count]),
  );
  wait = state === plan.before ? Math.min(LATEST_MS, wait * 1.6) : SOONEST_MS;
  plan.before = state;
  const busy = state !== "[]" || !settled;
  if (busy && !$("#view-documents").hidden)
    timer = setTimeout(() => (document.hidden ? plan(documents, settled) : load().catch(() => {})), wait);
}

function hurry() {
  clearTimeout(timer);
  wait = SOONEST_MS;
  timer = setTimeout(() => load().catch(() => {}), SOONEST_MS);
}

function failed(error) {
  const problem = problemOf(error);
  $("#list-problem").replaceChildren(
    make("p", { class: "notice bad", role: "alert" }, problem.title, " ", problem.advice),
  );
  const later = problem.retryAt ? problem.retryAt - Date.now() : LATEST_MS;
  if (problem.canRetry && !$("#view-documents").hidden)
    timer = setTimeout(() => load().catch(() => {}), Math.max(SOONEST_MS, later));
  return null;
}

function draw() {
  const focused = document.activeElement?.closest("#documents tr")?.dataset.id;
  const which = document.activeElement?.className;
  place($("#documents"), rowsOf(known));
  $("#more").hidden = !following;
  $("#none").hidden = known.length > 0 || !listed;
  $("#table").hidden = known.length === 0;
  if (focused)
    [...$("#documents").children]
      .find((one) => one.dataset.id === focused)
      ?.querySelector(`button[class="${which}"]`)
      ?.focus();
}

function rowsOf(documents) {
  const before = rows;
  rows = new Map();
  for (const one of documents) {
    const looks = JSON.stringify([language.code, one]);
    const kept = before.get(one.document_id);
    rows.set(one.document_id, kept?.looks === looks ? kept : { looks, node: row(one) });
  }
  return [...rows.values()].map(({ node }) => node);
}

function row(one) {
  const title = one.title || one.source || one.document_id;
  const size = [
    one.page_count && counted("pages", one.page_count),
    one.chunk_count && counted("passages", one.chunk_count),
  ]
    .filter(Boolean)
    .join(" · ");
  const opens = one.status === "ready" || one.chunk_count > 0;
  const node = make(
    "tr",
    {},
    make(
      "th",
      { scope: "row" },
      opens
        ? make(
            "button",
            {
              type: "button",
              class: "open",
              onclick: () =>
                openDocument(one.document_id, title, () => rows.get(one.document_id)?.node.querySelector("button")),
            },
            foreign(title),
          )
        : make("span", {}, foreign(title)),
      make("span", { class: "facts" }, foreign([one.source !== title && one.source, size].filter(Boolean).join(" · "))),
    ),
    make("td", { "data-head": text("collection") }, foreign(one.collection)),
    make("td", { "data-head": text("status") }, statusOf(one)),
    make(
      "td",
      { "data-head": text("changed"), class: "facts" },
      one.updated_at ? when(Date.parse(one.updated_at)) : "",
    ),
    make(
      "td",
      { class: "tools" },
      iconButton("bin", text("removeDocument", { title }), {
        class: "quiet small remove",
        onclick: () => drop(one, title),
      }),
    ),
  );
  node.dataset.id = one.document_id;
  return node;
}

export function statusOf(one) {
  const moving = UNFINISHED.includes(one.status);
  const of = one.total_chunk_count;
  const bar =
    moving &&
    make("progress", { max: 1, value: of ? one.chunk_count / of : null, "aria-label": text(`status_${one.status}`) });
  const notes = [one.reason, ...(one.warnings ?? [])].filter(Boolean).join(" ");
  return make(
    "div",
    { class: "state" },
    make(
      "span",
      { class: `badge ${one.status}` },
      one.status === "ready" && icon("check"),
      one.status === "failed" && icon("warning"),
      text(`status_${one.status}`),
      of && moving ? ` ${one.chunk_count}/${of}` : "",
    ),
    bar,
    notes && make("span", { class: one.status === "failed" ? "bad" : "facts" }, foreign(notes)),
  );
}

async function drop({ document_id: id }, title) {
  // The list may have changed behind the dialog: its row is found by the document, not by the object.
  const at = () => known.findIndex((one) => one.document_id === id);
  const removeButton = (row) => $("#documents").children[row]?.querySelector("button.remove");
  if (!(await confirmed(text("reallyRemove", { title }), text("remove")))) return removeButton(at())?.focus();
  try {
    await call("DELETE", `/documents/${encodeURIComponent(id)}`);
  } catch (error) {
    // Somebody was quicker.
    if (error.status !== 404) return failed(error);
  }
  const row = at();
  known = known.filter((one) => one.document_id !== id);
  draw();
  announce(text("removed"));
  (removeButton(Math.min(row, known.length - 1)) ?? $("#reload")).focus();
  await loadCollections().catch(() => {});
  // A list that was on its way while this was deleted has it still.
  await load().catch(() => {});
}

async function newCollection() {
  const given = await asked(
    text("newCollection"),
    [
      {
        name: "name",
        label: text("collectionName"),
        required: true,
        pattern: "[a-z0-9][a-z0-9_\\-]{0,63}",
        title: text("collectionNameHint"),
        placeholder: "handbook",
      },
      { name: "description", label: text("collectionDescription"), maxlength: 1000 },
    ],
    text("create"),
  );
  if (!given?.name) return;
  try {
    await call("PUT", `/collections/${encodeURIComponent(given.name)}`, { description: given.description });
    await loadCollections();
    $("#collection").value = given.name;
    announce(text("collectionMade", { name: given.name }));
  } catch (error) {
    failed(error);
  }
}
