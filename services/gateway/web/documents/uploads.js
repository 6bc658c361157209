// Files on their way in: each a line with a bar of its own, a few at the same time.

import { call, upload } from "../gateway/api.js";
import { key } from "../gateway/key.js";
import { problemOf, toKeep } from "../gateway/problem.js";
import { bytes, counted, language, text } from "../texts/texts.js";
import { $, foreign, iconButton, make } from "../ui/dom.js";
import { announce } from "../ui/live.js";
import { place } from "../ui/place.js";

const AT_ONCE = 3;
const MOST_RETRIES = 3;
// How much of the bar each part of the way takes.
const STAGES = { waiting: 0, sending: 0, queued: 0.4, parsing: 0.5, embedding: 0.6, ready: 1, failed: 1, cancelled: 1 };
const ENDED = ["ready", "failed", "cancelled"];

let items = [];
let hooks = { started: () => {}, collection: () => "", collectionsKnown: async () => {} };
let mostBytes = 0;

// `given`: {started(): something is on its way, collection(): where to, collectionsKnown(): ends when they are}.
export function begin(given) {
  hooks = given;
  $("#files").addEventListener("change", () => {
    add($("#files").files);
    $("#files").value = "";
  });
  $("#choose").addEventListener("click", () => $("#files").click());
  $("#put-away").addEventListener("click", () => {
    items = items.filter((item) => !ENDED.includes(item.stage));
    redraw();
  });
  const zone = $("#view-documents");
  for (const name of ["dragenter", "dragover"]) zone.addEventListener(name, (event) => over(event, true));
  for (const name of ["dragleave", "drop"]) zone.addEventListener(name, (event) => over(event, false));
  zone.addEventListener("drop", (event) => {
    event.preventDefault();
    add(event.dataTransfer?.files ?? []);
  });
  // A file that is dropped beside the view must not replace the page.
  for (const name of ["dragover", "drop"]) addEventListener(name, (event) => event.preventDefault());
}

export const limitTo = (limit) => {
  mostBytes = limit;
};

function over(event, inside) {
  event.preventDefault();
  if (!inside && $("#view-documents").contains(event.relatedTarget)) return;
  $("#drop").classList.toggle("over", inside);
}

async function add(given) {
  const files = [...given];
  if (!files.length || !key.get()) return;
  // Somebody may be quicker than the list of collections.
  if (!hooks.collection()) await hooks.collectionsKnown();
  if (!hooks.collection()) return announce(text("noCollections"));
  const added = files.map((file) => ({
    file,
    collection: hooks.collection(),
    stage: "waiting",
    sent: 0,
    tries: 0,
    problem: null,
    id: "",
  }));
  for (const item of added) {
    if (!item.file.size) Object.assign(item, { stage: "failed", reason: text("fileEmpty") });
    else if (mostBytes && item.file.size > mostBytes)
      Object.assign(item, { stage: "failed", reason: text("fileTooLarge", { limit: bytes(mostBytes) }) });
  }
  items = [...added, ...items];
  announce(counted("filesAdded", added.length));
  redraw();
  next();
}

function next() {
  const sending = items.filter((item) => item.stage === "sending").length;
  const waiting = items.filter((item) => item.stage === "waiting" && !item.resting);
  for (const item of waiting.toReversed().slice(0, AT_ONCE - sending)) send(item);
}

async function send(item) {
  Object.assign(item, { stage: "sending", sent: 0, problem: null, reason: "", abort: new AbortController() });
  draw(item);
  const form = new FormData();
  form.append("collection", item.collection);
  if (item.id) form.append("document_id", item.id);
  form.append("file", item.file, item.file.name);
  try {
    const taken = await upload(
      form,
      (share) => {
        item.sent = share;
        draw(item);
      },
      item.abort.signal,
    );
    Object.assign(item, { stage: taken.status ?? "queued", id: taken.document_id });
    hooks.started();
  } catch (error) {
    ended(item, error);
  }
  draw(item);
  next();
}

function ended(item, error) {
  if (error.name === "AbortError") return Object.assign(item, { stage: "cancelled" });
  const wait = error.retryAt - Date.now();
  // Told to wait: it waits, a few times.
  if (error.retryAt && wait < 120_000 && item.tries < MOST_RETRIES) {
    Object.assign(item, { stage: "waiting", resting: true, tries: item.tries + 1 });
    return setTimeout(
      () => {
        item.resting = false;
        next();
      },
      Math.max(1000, wait),
    );
  }
  return Object.assign(item, { stage: "failed", problem: toKeep(error) });
}

// Reads from the list of documents how far each file is. True when nothing is on its way any more.
export function follow(documents) {
  for (const item of items.filter((one) => one.id && !ENDED.includes(one.stage))) {
    const found = documents.find((one) => one.document_id === item.id);
    if (found) moved(item, found);
    // What is ready may stand on a later page of the list.
    else if (!item.asked) {
      const { id } = item;
      item.asked = true;
      // It may have been cancelled meanwhile.
      const goesOn = () => item.id === id && !ENDED.includes(item.stage);
      call("GET", `/documents/${encodeURIComponent(id)}`)
        .then(
          (one) => goesOn() && moved(item, one),
          (error) => error.status === 404 && goesOn() && Object.assign(item, { stage: "cancelled" }),
        )
        .finally(() => {
          item.asked = false;
          draw(item);
        });
    }
  }
  return items.every((item) => ENDED.includes(item.stage) || !item.id);
}

function moved(item, { status, reason, warnings, chunk_count, total_chunk_count }) {
  const before = item.stage;
  Object.assign(item, {
    stage: status,
    reason: [reason, ...(warnings ?? [])].filter(Boolean).join(" "),
    done: chunk_count,
    of: total_chunk_count,
  });
  if (before !== status && ENDED.includes(status)) announce(`${item.file.name}: ${text(`status_${status}`)}`);
  draw(item);
}

export function redraw() {
  place($("#uploads"), items.map(draw));
  $("#uploads-part").hidden = items.length === 0;
}

// While only the bar moves, the line stays: a button that is made anew under the finger cannot be pressed.
function draw(item) {
  const looks = JSON.stringify([language.code, item.stage, saidOf(item), canRetry(item)]);
  if (!item.node || item.looks !== looks) renew(item);
  item.looks = looks;
  item.node.querySelector("progress").value = shareOf(item);
  item.node.querySelector(".badge").textContent = stateOf(item);
  $("#put-away").hidden = !items.some((one) => ENDED.includes(one.stage));
  return item.node;
}

function renew(item) {
  const node = lineOf(item);
  const focused = item.node?.contains(document.activeElement);
  if (item.node?.isConnected) item.node.replaceWith(node);
  if (focused) node.querySelector("button")?.focus();
  item.node = node;
}

function saidOf({ problem, reason }) {
  if (!problem) return reason;
  const { title, advice } = problemOf(problem);
  return `${title} ${advice}`;
}

const canRetry = ({ stage, file }) =>
  (stage === "failed" || stage === "cancelled") && file.size > 0 && (!mostBytes || file.size <= mostBytes);

function lineOf(item) {
  const { file, stage } = item;
  const name = make("bdi", { class: "name" }, foreign(file.name));
  const bar = make("progress", { max: 1, "aria-label": text("progressOf", { name: file.name }) });
  const said = saidOf(item);
  return make(
    "li",
    { class: `upload ${stage}` },
    make(
      "div",
      { class: "upload-head" },
      name,
      make("span", { class: "facts" }, `${bytes(file.size)} · `, foreign(item.collection)),
    ),
    make("div", { class: "upload-state" }, bar, make("span", { class: `badge ${stage}` })),
    said && make("p", { class: stage === "failed" ? "bad" : "facts" }, foreign(said)),
    make(
      "div",
      { class: "upload-tools" },
      canRetry(item) && iconButton("again", text("tryAgainOf", { name: file.name }), { onclick: () => retry(item) }),
      ENDED.includes(stage)
        ? iconButton("cross", text("putAwayOf", { name: file.name }), { onclick: () => putAway(item) })
        : iconButton("stop", text("cancelOf", { name: file.name }), { onclick: () => cancel(item) }),
    ),
  );
}

function shareOf({ stage, sent, done, of }) {
  if (stage === "sending") return 0.4 * sent;
  if (stage === "embedding" && of) return 0.6 + (0.4 * done) / of;
  return STAGES[stage] ?? 0;
}

function stateOf({ stage, sent, done, of, resting }) {
  if (stage === "sending") return sent < 1 ? text("sending", { share: Math.round(sent * 100) }) : text("keeping");
  if (stage === "waiting") return text(resting ? "resting" : "waiting");
  return text(`status_${stage}`) + (stage === "embedding" && of ? ` ${done}/${of}` : "");
}

function retry(item) {
  Object.assign(item, { stage: "waiting", tries: 0, problem: null, reason: "" });
  draw(item);
  next();
}

async function cancel(item) {
  item.abort?.abort();
  const { id } = item;
  Object.assign(item, { stage: "cancelled", id: "" });
  draw(item);
  next();
  if (!id) return;
  await call("DELETE", `/documents/${encodeURIComponent(id)}`).catch(() => {});
  hooks.started();
}

function putAway(item) {
  const at = items.indexOf(item);
  items = items.filter((one) => one !== item);
  redraw();
  ($("#uploads").children[Math.min(at, items.length - 1)]?.querySelector("button") ?? $("#choose")).focus();
}
