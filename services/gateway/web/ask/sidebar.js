// The list of conversations.

import { key } from "../gateway/key.js";
import { text, when } from "../texts/texts.js";
import { asked } from "../ui/dialogs.js";
import { $, foreign, iconButton, make } from "../ui/dom.js";
import * as history from "./history.js";

const DAY_MS = 86_400_000;
let actions;
let current;

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
  const groups = Map.groupBy(found, (head) => period(head.updated));
  $("#conversations").replaceChildren(
    ...[...groups].flatMap(([name, members]) => [
      make("h2", {}, text(name)),
      make(
        "ul",
        {},
        members.map((head) => entry(head, head.id === id)),
      ),
    ]),
  );
  if (!found.length)
    $("#conversations").append(make("p", { class: "hint" }, text(heads.length ? "noneFound" : "noConversations")));
  $("#find").hidden = heads.length < 6;
  $("#remove-all").hidden = heads.length === 0;
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
    { class: isCurrent ? "current" : null },
    make(
      "a",
      { href: `#/c/${head.id}`, "aria-current": isCurrent ? "page" : null, title: when(head.updated), onclick: close },
      foreign(head.title),
    ),
    iconButton("edit", text("rename", { title: head.title }), { onclick: () => rename(head) }),
    iconButton("bin", text("forget", { title: head.title }), { onclick: () => actions.remove(head) }),
  );
}

async function rename(head) {
  const given = await asked(
    text("renameTitle"),
    [{ name: "title", label: text("title"), value: head.title, required: true, maxlength: 120 }],
    text("save"),
  );
  if (!given?.title) return;
  await history.rename(head.id, given.title);
  actions.renamed(head.id, given.title);
  await draw(current);
  [...document.querySelectorAll("#conversations a")].find((link) => link.hash === `#/c/${head.id}`)?.focus();
}
