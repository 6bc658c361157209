// The list of conversations.

import { key } from "../gateway/key.js";
import { language, text, when } from "../texts/texts.js";
import { asked } from "../ui/dialogs.js";
import { $, foreign, iconButton, make } from "../ui/dom.js";
import * as history from "./history.js";

const DAY_MS = 86_400_000;
let actions;
let current;
let drawn = "";

// `given`: {remove(head), removeAll(), renamed(id, title)}.
export function begin(given) {
  actions = given;
  $("#remove-all").addEventListener("click", () => actions.removeAll());
  $("#find").addEventListener("input", () => draw(current));
}

export async function draw(id) {
  current = id;
  const heads = key.owner ? await history.list(key.owner) : [];
  const wanted = $("#find").value.trim().toLowerCase();
  const found = heads.filter((head) => head.title.toLowerCase().includes(wanted));
  const groups = [...Map.groupBy(found, (head) => period(head.updated))];
  $("#find").hidden = heads.length < 6;
  $("#remove-all").hidden = heads.length === 0;
  // The end of an answer draws the list as well: what would look the same stays, and with it the focus and a click.
  const looks = JSON.stringify([
    language.code,
    current,
    heads.length > 0,
    groups.map(([name, members]) => [name, members.map((head) => [head.id, head.title])]),
  ]);
  if (looks !== drawn) redraw(groups, heads.length > 0);
  drawn = looks;
  for (const { id: known, updated } of found) linkOf(known).title = when(updated);
}

function redraw(groups, some) {
  const focused = document.activeElement?.closest("#conversations li")?.dataset.id;
  const which = document.activeElement?.dataset.does;
  $("#conversations").replaceChildren(
    ...groups.flatMap(([name, members]) => [
      make("h2", {}, text(name)),
      make(
        "ul",
        {},
        members.map((head) => entry(head, head.id === current)),
      ),
    ]),
  );
  if (!groups.length)
    $("#conversations").append(make("p", { class: "hint" }, text(some ? "noneFound" : "noConversations")));
  if (focused) focusOn(focused, which);
}

const lines = () => [...document.querySelectorAll("#conversations li")];
const lineOf = (id) => lines().find((one) => one.dataset.id === id);
const linkOf = (id) => lineOf(id).querySelector("a");

// On the line of that conversation, or what it `does`; on "new" where there is no such line.
export function focusOn(id, does) {
  const line = lineOf(id);
  const target = line?.querySelector("a") ?? $("#new");
  // On a phone a dialog closes the list.
  (target.checkVisibility() ? target : $("#open-sidebar")).focus();
  // The buttons of a line are there only while the focus is in it.
  if (line && does) line.querySelector(`[data-does="${does}"]`)?.focus();
}

// The conversation that stands below, or above where there is none.
export function neighbourOf(id) {
  const all = lines();
  const at = all.findIndex((one) => one.dataset.id === id);
  return (all[at + 1] ?? all[at - 1])?.dataset.id;
}

function period(time) {
  const midnight = new Date().setHours(0, 0, 0, 0);
  if (time >= midnight) return "today";
  if (time >= midnight - DAY_MS) return "yesterday";
  return time >= midnight - 7 * DAY_MS ? "thisWeek" : "earlier";
}

function entry(head, isCurrent) {
  const close = () => $("#sidebar").matches(":popover-open") && $("#sidebar").hidePopover();
  return make(
    "li",
    { class: isCurrent ? "current" : null, "data-id": head.id },
    make(
      "a",
      { href: `#/c/${head.id}`, "aria-current": isCurrent ? "page" : null, onclick: close },
      foreign(head.title),
    ),
    iconButton("edit", text("rename", { title: head.title }), { "data-does": "rename", onclick: () => rename(head) }),
    iconButton("bin", text("forget", { title: head.title }), {
      "data-does": "forget",
      onclick: () => actions.remove(head),
    }),
  );
}

async function rename(head) {
  const given = await asked(
    text("renameTitle"),
    [{ name: "title", label: text("title"), value: head.title, required: true, maxlength: 120 }],
    text("save"),
  );
  if (!given?.title) return focusOn(head.id, "rename");
  // First where it is open: an answer that ends meanwhile keeps the conversation under the title that it knows.
  actions.renamed(head.id, given.title);
  await history.rename(head.id, given.title);
  await draw(current);
  focusOn(head.id);
}
