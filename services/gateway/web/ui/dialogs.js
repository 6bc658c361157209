// Questions to the person: yes or no, or a line of text. The browser's <dialog> keeps the focus in and gives it back.

import { text } from "../texts/texts.js";
import { make } from "./dom.js";

// True when agreed. `options` are check boxes: {name: label}; their state comes back as the answer's properties.
export function confirmed(question, yes, options = {}) {
  const boxes = Object.entries(options).map(([name, label]) => [name, make("input", { type: "checkbox" }), label]);
  const body = boxes.map(([, box, label]) => make("label", { class: "check" }, box, make("span", {}, label)));
  return shown(question, body, yes, "danger", () =>
    Object.fromEntries(boxes.map(([name, box]) => [name, box.checked])),
  );
}

// What was written, or null.
export function asked(title, fields, yes) {
  const inputs = fields.map(({ name, label, value = "", ...attributes }) => {
    const input = make("input", { name, autocomplete: "off", maxlength: 200, ...attributes });
    input.value = value;
    return [name, input, make("label", {}, make("span", {}, label), input)];
  });
  const read = () => Object.fromEntries(inputs.map(([name, input]) => [name, input.value.trim()]));
  const wanted = shown(
    title,
    inputs.map(([, , label]) => label),
    yes,
    "",
    read,
  );
  inputs[0][1].focus();
  inputs[0][1].select();
  return wanted;
}

function shown(title, body, yes, kind, read) {
  const form = make(
    "form",
    { novalidate: false },
    make("h2", { id: "dialog-title" }, title),
    body,
    make(
      "div",
      { class: "row end" },
      make("button", { type: "button", class: "quiet", onclick: () => dialog.close() }, text("cancel")),
      make("button", { type: "submit", class: kind }, yes),
    ),
  );
  const dialog = make("dialog", { class: "ask", "aria-labelledby": "dialog-title" }, form);
  closable(dialog);
  document.body.append(dialog);
  return new Promise((resolve) => {
    let answer = null;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      answer = read();
      dialog.close();
    });
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(answer);
    });
    dialog.showModal();
  });
}

// A click beside the dialog closes it, as Esc does.
export function closable(dialog) {
  dialog.addEventListener("mousedown", (event) => event.target === dialog && dialog.close());
}
