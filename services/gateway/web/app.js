// The page: which view is shown, which language, which key.

import { call, key } from "./api.js";
import * as conversation from "./conversation.js";
import * as documents from "./documents.js";
import { $, make } from "./dom.js";
import { language, text, translatePage } from "./texts.js";

const VIEWS = { ask: async () => {}, documents: documents.show, limits: showLimits };

function askForKey() {
  $("#key-form").hidden = false;
  $("#key").focus();
}

async function guarded(work) {
  try {
    await work();
  } catch (error) {
    if (error.status === 401) askForKey();
    else alert(error.status ? error.message : text("lost"));
  }
}

function showView(name) {
  for (const view of Object.keys(VIEWS)) {
    $(`#view-${view}`).hidden = view !== name;
    $(`#tab-${view}`).setAttribute("aria-selected", view === name);
  }
  guarded(VIEWS[name]);
}

async function showLimits() {
  const usage = await call("GET", "/usage");
  const rows = [[text("tenant"), usage.tenant]];
  for (const [name, limit] of Object.entries(usage.limits)) {
    const used = { requests_per_minute: usage.requests_per_minute?.used, concurrent_requests: usage.concurrent_requests?.used }[name];
    const value = limit === 0 ? text("none") : limit.toLocaleString(language.code);
    rows.push([text(name), used === undefined || used === null || limit === 0 ? value : text("used", used, value)]);
  }
  $("#limits").replaceChildren(...rows.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, String(value))]));
}

function showExamples() {
  const buttons = text("examples").map((question) => make("button", { type: "button", onclick: () => submit(question) }, question));
  $("#examples").replaceChildren(...buttons);
}

function submit(question) {
  if (!key.get()) return askForKey();
  conversation.start(question, askForKey);
}

function draw() {
  translatePage();
  $("#language").textContent = text("other");
  if (!$("#conversation").childElementCount) showExamples();
}

$("nav").addEventListener("click", (event) => event.target.dataset.view && showView(event.target.dataset.view));
$("#language").addEventListener("click", () => { language.toggle(); draw(); });
$("#key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  key.set($("#key").value);
  $("#key-form").hidden = true;
});
$("#ask-form").addEventListener("submit", (event) => {
  event.preventDefault();
  if (conversation.stop()) return;
  const question = $("#question").value.trim();
  if (!question) return;
  $("#question").value = "";
  submit(question);
});
$("#question").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    $("#ask-form").requestSubmit();
  }
});
$("#new").addEventListener("click", () => { conversation.reset(); showExamples(); });
$("#upload-form").addEventListener("submit", (event) => {
  event.preventDefault();
  guarded(() => documents.upload($("#files").files, $("#collection").value));
});
$("#more").addEventListener("click", () => guarded(documents.more));
$("#forget").addEventListener("click", () => { key.forget(); conversation.reset(); showView("ask"); askForKey(); });
$("#close").addEventListener("click", () => $("#source").close());
$("#source").addEventListener("click", (event) => event.target === $("#source") && $("#source").close());

draw();
if (!key.get()) askForKey();
