// The view in which one asks: the conversation that is open, the box to write in, the list at the side.

import { key } from "../gateway/key.js";
import { counted, text } from "../texts/texts.js";
import { confirmed } from "../ui/dialogs.js";
import { $, icon, make } from "../ui/dom.js";
import { announce } from "../ui/live.js";
import { AnswerView } from "./answer.js";
import { Conversation, SENT_TURNS } from "./conversation.js";
import * as history from "./history.js";
import * as sidebar from "./sidebar.js";
import * as ways from "./ways.js";

let current = null;
let views = [];
let wanted;
let opening = Promise.resolve();
let reading = 0;
// Conversations whose answers are being made while another one is looked at.
const working = new Map();
let onRefused = () => {};

export function begin(refused) {
  onRefused = refused;
  $("#ask-form").addEventListener("submit", (event) => {
    event.preventDefault();
    send();
  });
  $("#question").addEventListener("keydown", onKey);
  $("#question").addEventListener("input", fit);
  $("#new").addEventListener("click", () => go(null));
  $("#new-here").addEventListener("click", () => go(null));
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || document.querySelector("dialog[open], :popover-open") || $("#view-ask").hidden)
      return;
    if (current?.running) stop();
  });
  ways.begin();
  sidebar.begin({ remove, removeAll, renamed });
  // Follows the answer as it grows, unless the person has scrolled up to read.
  let atEnd = true;
  addEventListener(
    "scroll",
    () => {
      atEnd = innerHeight + scrollY > document.documentElement.scrollHeight - 80;
    },
    { passive: true },
  );
  new ResizeObserver(() => current?.running && atEnd && scrollToEnd()).observe($("#conversation"));
  history.onChangeElsewhere(() => key.owner && sidebar.draw(current?.id));
}

// Shows the conversation of that id, or a new one.
export async function show(id) {
  const mine = open(id);
  opening = Promise.allSettled([opening, mine]);
  await mine;
  if (views.length) scrollToEnd();
}

async function open(id) {
  wanted = id;
  if (current && (current.id === id || (!id && !current.turns.length))) return;
  const found = id ? (working.get(id) ?? (await read(id))) : null;
  // Somebody clicked on, meanwhile, or it has been opened twice: then something may have been asked in it already.
  if (wanted !== id || (id && current?.id === id)) return;
  detach();
  // Of another key's: as if it were not there.
  current = found?.owner === key.owner ? found : Conversation.begun(key.owner);
  current.changed = changed;
  redraw();
  sidebar.draw(current.id);
}

async function read(id) {
  reading += 1;
  try {
    return await Conversation.opened(id);
  } finally {
    reading -= 1;
  }
}

// For when the language has changed, too.
export function redraw() {
  if (!current) return;
  // A rating may be kept when another conversation is looked at already.
  const conversation = current;
  views = current.turns.map((turn) => new AnswerView(turn, { again, keep: () => conversation.save() }));
  $("#conversation").replaceChildren(...views.map((view) => view.node));
  const first = views.length - SENT_TURNS;
  if (first > 0)
    views[first].node.before(make("p", { class: "divider", role: "note" }, counted("onlyLast", SENT_TURNS)));
  $("#start").hidden = views.length > 0;
  $("#examples").replaceChildren(
    ...text("examples").map((question) =>
      make("button", { type: "button", class: "example", onclick: () => ask(question) }, question),
    ),
  );
  $("#chat-title").textContent = current.title || text("newConversation");
  drawButton();
}

export const refreshList = () => sidebar.draw(current?.id);

// The key is another one, or none. `discard`: what is being answered is not kept either.
export function forget(discard = false) {
  for (const conversation of working.values()) discard ? conversation.discard() : conversation.stop();
  detach();
  current = null;
  views = [];
  $("#conversation").replaceChildren();
}

function detach() {
  if (current) current.changed = () => {};
}

function changed(turn) {
  if (turn) {
    views.find((view) => view.turn === turn)?.update();
    return drawButton();
  }
  redraw();
  scrollToEnd();
}

async function ask(question, options = {}) {
  if (!key.get()) return onRefused();
  const conversation = current;
  if (conversation.running) return;
  working.set(conversation.id, conversation);
  const asking = conversation.ask(question, { ...options, extras: { ...ways.chosenWays(), ...options.extras } });
  if (location.hash !== `#/c/${conversation.id}`) window.history.pushState(null, "", `#/c/${conversation.id}`);
  sidebar.draw(conversation.id);
  await asking;
  working.delete(conversation.id);
  sidebar.draw(current?.id);
  if (conversation.turns.at(-1)?.problem?.status === 401) onRefused();
}

function again(turn, extras) {
  const focused = document.activeElement?.closest(".turn");
  if (!current.running) ask(turn.question, { again: turn, extras });
  // The button that was pressed is gone.
  if (focused) $("#question").focus();
}

function send() {
  // A conversation is being read from the browser's store: what is typed meanwhile is asked in it.
  if (!current || reading) return void opening.then(() => current && !current.running && send());
  if (current.running) return stop();
  const question = $("#question").value.trim();
  if (!question) return $("#question").focus();
  $("#question").value = "";
  fit();
  ask(question);
}

function stop() {
  current?.stop();
  announce(text("stopped"));
}

function onKey(event) {
  const sends = event.key === "Enter" && !event.shiftKey && !event.isComposing;
  if (!sends) return;
  event.preventDefault();
  if (reading || !current?.running) send();
}

// The box grows with what is written in it.
function fit() {
  const box = $("#question");
  box.style.blockSize = "auto";
  box.style.blockSize = `${Math.min(box.scrollHeight + 2, window.innerHeight * 0.4)}px`;
}

function drawButton() {
  const running = Boolean(current.running);
  const words = text(running ? "stop" : "send");
  if ($("#send").textContent === words) return;
  $("#send").replaceChildren(icon(running ? "stop" : "send"), make("span", {}, words));
  $("#send").classList.toggle("stopping", running);
}

const scrollToEnd = () => window.scrollTo({ top: document.documentElement.scrollHeight });

function go(id) {
  const there = id ? `#/c/${id}` : "#/";
  location.hash = there;
  // Now, and not when the browser tells of the new address: what is typed next belongs there.
  show(id);
  $("#question").focus();
}

async function remove({ id, title }) {
  if (!(await confirmed(text("reallyForget", { title }), text("remove")))) return sidebar.focusOn(id, "forget");
  const beside = sidebar.neighbourOf(id);
  working.get(id)?.discard();
  await history.remove(id);
  const open = current?.id === id;
  if (open) go(null);
  await sidebar.draw(current?.id);
  // The button that was pressed is gone.
  if (!open) sidebar.focusOn(beside);
  announce(text("removed"));
}

function renamed(id, title) {
  const open = working.get(id) ?? (current?.id === id ? current : null);
  if (open) open.title = title;
  if (current?.id === id) $("#chat-title").textContent = title;
}

async function removeAll() {
  if (!(await confirmed(text("reallyForgetAll"), text("removeAll")))) return $("#remove-all").focus();
  for (const conversation of working.values()) conversation.discard();
  await history.removeAll(key.owner);
  go(null);
  await sidebar.draw();
  announce(text("removed"));
}
