// The page: which view is shown, in which language and colours, with which key.

import * as asking from "./ask/asking.js";
import * as history from "./ask/history.js";
import * as documents from "./documents/documents.js";
import { limitTo } from "./documents/uploads.js";
import { call } from "./gateway/api.js";
import { key } from "./gateway/key.js";
import { problemOf } from "./gateway/problem.js";
import * as limits from "./limits/limits.js";
import * as sources from "./sources/sources.js";
import { language, text, translatePage } from "./texts/texts.js";
import { confirmed } from "./ui/dialogs.js";
import { $, icon, make } from "./ui/dom.js";
import { announce } from "./ui/live.js";
import { forThisBrowser } from "./ui/storage.js";

const VIEWS = {
  ask: { show: (id) => asking.show(id), hide: () => {} },
  documents: { show: () => documents.show(), hide: documents.hide },
  limits: { show: () => limits.show(), hide: limits.hide },
};
const THEMES = ["system", "light", "dark"];

// #/documents, #/limits, #/c/<id of a conversation>, #/
function route() {
  const [, name, id] = location.hash.split("/");
  return name in VIEWS ? { view: name } : { view: "ask", id: name === "c" ? id : undefined };
}

async function showRoute() {
  const { view, id } = route();
  for (const name of Object.keys(VIEWS)) {
    const chosen = name === view;
    $(`#view-${name}`).hidden = !chosen;
    $(`#tab-${name}`).setAttribute("aria-selected", String(chosen));
    $(`#tab-${name}`).tabIndex = chosen ? 0 : -1;
    if (!chosen) VIEWS[name].hide();
  }
  document.title = view === "ask" ? "sabueso" : `${text(view)} · sabueso`;
  scrollTo(0, 0);
  try {
    await VIEWS[view].show(id);
  } catch (error) {
    if (error.status === 401) return askForKey(error);
    const { title, advice } = problemOf(error);
    $("#list-problem").replaceChildren(make("p", { class: "notice bad", role: "alert" }, title, " ", advice));
  }
}

// The key

let entering = false;

async function enter(value, remember) {
  // Twice at once, the second would take the first's key, perhaps a wrong one, for what to go back to.
  if (entering) return;
  entering = true;
  try {
    await tryKey(value, remember);
  } finally {
    entering = false;
  }
}

async function tryKey(value, remember) {
  $("#key-problem").textContent = text("checking");
  const before = { value: key.get(), remembered: key.remembered };
  key.set(value, remember);
  try {
    await identify();
  } catch (error) {
    if (before.value) key.set(before.value, before.remembered);
    else key.forget();
    const { title, advice } = problemOf(error);
    $("#key-problem").textContent = `${title} ${advice}`;
    $("#key").setAttribute("aria-invalid", "true");
    return $("#key").select();
  }
  $("#key-form").reset();
  showApp();
  $("#question").focus();
}

// Who we are decides whose conversations are shown.
async function identify() {
  const usage = await call("GET", "/usage");
  const owner = `${usage.tenant}/${usage.key}`;
  if (key.owner !== owner) asking.forget();
  key.owner = owner;
  limits.take(usage);
  limitTo(limits.bodyBytes());
}

function showApp() {
  $("#welcome").hidden = true;
  $("#app").hidden = false;
  $("#tabs").hidden = false;
  showRoute();
}

function askForKey(error) {
  for (const view of Object.values(VIEWS)) view.hide();
  for (const dialog of document.querySelectorAll("dialog[open]")) dialog.close();
  $("#welcome").hidden = false;
  $("#app").hidden = true;
  $("#tabs").hidden = true;
  $("#key").removeAttribute("aria-invalid");
  $("#key-problem").textContent = error ? `${problemOf(error).title} ${problemOf(error).advice}` : "";
  $("#key").focus();
}

async function forgetKey() {
  const agreed = await confirmed(text("forgetQuestion"), text("forgetKey"), { conversations: text("forgetToo") });
  if (!agreed) return;
  asking.forget(agreed.conversations);
  if (agreed.conversations) await history.removeAll(key.owner);
  key.forget();
  location.hash = "#/";
  askForKey();
}

// Language and colours

function draw() {
  translatePage();
  const other = text("otherLanguage");
  $("#language").replaceChildren(
    make("span", { class: "long" }, other),
    make("span", { class: "short", "aria-hidden": "true" }, language.other.toUpperCase()),
  );
  $("#language").setAttribute("aria-label", other);
  $("#language").lang = language.other;
  drawTheme();
  asking.redraw();
  asking.refreshList();
  documents.redraw();
  limits.redraw();
}

function drawTheme() {
  const theme = document.documentElement.dataset.theme;
  $("#theme").setAttribute("aria-label", text(`theme_${theme}`));
  $("#theme").title = text(`theme_${theme}`);
}

function nextTheme() {
  const theme = THEMES[(THEMES.indexOf(document.documentElement.dataset.theme) + 1) % THEMES.length];
  document.documentElement.dataset.theme = theme;
  forThisBrowser.set("theme", theme);
  drawTheme();
  announce(text(`theme_${theme}`));
}

// Tabs: the arrow keys go round, Home and End to the ends.
function onTabKey(event) {
  const tabs = [...document.querySelectorAll("[role=tab]")];
  const at = tabs.indexOf(document.activeElement);
  const to = { ArrowRight: at + 1, ArrowLeft: at - 1 + tabs.length, Home: 0, End: tabs.length - 1 }[event.key];
  if (to === undefined || at < 0) return;
  event.preventDefault();
  const tab = tabs[to % tabs.length];
  tab.focus();
  tab.click();
}

$("#tabs").addEventListener("click", (event) => {
  const view = event.target.closest("[role=tab]")?.dataset.view;
  if (view) location.hash = view === "ask" ? "#/" : `#/${view}`;
});
$("#tabs").addEventListener("keydown", onTabKey);
$("#skip").addEventListener("click", (event) => {
  event.preventDefault();
  $("#main").focus();
});
$("#language").addEventListener("click", () => {
  language.toggle();
  draw();
});
$("#theme").addEventListener("click", nextTheme);
$("#key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  enter($("#key").value, $("#remember").checked);
});
$("#show-key").addEventListener("click", () => {
  const hidden = $("#key").type === "text";
  $("#key").type = hidden ? "password" : "text";
  $("#show-key").textContent = text(hidden ? "showKey" : "hideKey");
  $("#show-key").dataset.text = hidden ? "showKey" : "hideKey";
});
$("#forget").addEventListener("click", forgetKey);
addEventListener("hashchange", () => key.get() && showRoute());

for (const node of document.querySelectorAll("[data-icon]")) node.prepend(icon(node.dataset.icon));
sources.begin();
documents.begin();
limits.begin();
asking.begin(() => askForKey({ status: 401 }));
draw();

if (key.get()) {
  // A server that is not there now must not hide what is kept here.
  identify().then(showApp, (error) => (error.status === 401 || !key.owner ? askForKey(error) : showApp()));
} else {
  askForKey();
}
