// Small helpers to build nodes. Text is always set as text: nothing that a document or a page says becomes markup.

export const $ = (selector) => document.querySelector(selector);

// Attributes; `on…` are listeners; null, undefined and false leave an attribute out. The CSP forbids `style` here.
export function make(tag, attributes = {}, ...children) {
  return dress(document.createElement(tag), attributes, children);
}

const SVG = "http://www.w3.org/2000/svg";
const ICONS = {
  half: "M8 2.5a5.5 5.5 0 1 0 0 11zM8 2.5a5.5 5.5 0 0 1 0 11",
  plus: "M8 3v10M3 8h10",
  cross: "M4 4l8 8M12 4l-8 8",
  check: "M3 8.5l3.2 3.2L13 5",
  copy: "M5.5 5.5V3h7.5v7.5h-2.5M3 5.5h7.5V13H3z",
  up: "M5 7.2L7.6 2.4c1.2 0 1.9.9 1.7 2L9 6.2h3.2c.9 0 1.5.8 1.3 1.6l-1 4.2c-.2.6-.7 1-1.3 1H5zM5 7.2H2.7V13H5",
  down: "M11 8.8l-2.6 4.8c-1.2 0-1.9-.9-1.7-2L7 9.8H3.8c-.9 0-1.5-.8-1.3-1.6l1-4.2c.2-.6.7-1 1.3-1H11zM11 8.8h2.3V3H11",
  again: "M13 8a5 5 0 1 1-1.6-3.7M13 2.5v2.8h-2.8",
  edit: "M10.5 3.2l2.3 2.3L6 12.3l-3 .7.7-3z",
  bin: "M3 4.5h10M6.5 4.5V3h3v1.5M4.5 4.5l.6 8.5h5.8l.6-8.5",
  menu: "M2.5 4.5h11M2.5 8h11M2.5 11.5h7",
  send: "M8 13V3.5M4 7.2L8 3.2l4 4",
  stop: "M4.5 4.5h7v7h-7z",
  left: "M10 3.5L5.5 8l4.5 4.5",
  right: "M6 3.5L10.5 8 6 12.5",
  out: "M6.5 3.5h-3v9h9v-3M9 3h4v4M13 3L7.5 8.5",
  file: "M4 2.5h5l3 3v8H4zM9 2.5v3h3",
  table: "M2.5 3.5h11v9h-11zM2.5 6.7h11M2.5 9.7h11M7 6.7v5.8",
  globe: "M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11M2.5 8h11M8 2.5c3.4 3.4 3.4 7.6 0 11M8 2.5c-3.4 3.4-3.4 7.6 0 11",
  thought: "M8 2.8l1.4 3.8 3.8 1.4-3.8 1.4L8 13.2 6.6 9.4 2.8 8l3.8-1.4z",
  warning: "M8 2.8l5.7 10H2.3zM8 6.6v3M8 11.2v.2",
  shield: "M8 2.3l5 1.8v3.6c0 3-2 5-5 6-3-1-5-3-5-6V4.1zM5.8 8l1.6 1.6 2.8-3.2",
  way: "M4 13V9.5c0-1.5 1-2.5 2.5-2.5H12M9.5 4.5L12 7 9.5 9.5M4 7V3",
  sum: "M3.5 2.5h9v11h-9zM5.5 5h5M5.5 8h1M9.5 8h1M5.5 11h1M9.5 11h1",
  plug: "M6 2.5v3M10 2.5v3M4 5.5h8v2.5a4 4 0 0 1-8 0zM8 12v2",
  upload: "M8 10.5V3M4.8 6L8 2.8 11.2 6M3 10v3h10v-3",
};

// Decoration only: whoever uses one says in words what it is for.
export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", ICONS[name]);
  svg.append(path);
  return dress(svg, { viewBox: "0 0 16 16", class: "icon", "aria-hidden": "true", focusable: "false" }, []);
}

// A name from outside. Its direction is its own, and controls that would reverse its letters are taken out.
export const foreign = (text) => make("bdi", {}, withoutControls(text));

export const withoutControls = (text) =>
  String(text ?? "").replace(/[\u202A-\u202E\u2066-\u2069\u0000-\u0008\u000B-\u001F]/g, "");

function dress(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== null && value !== false)
      node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

// An element with an icon and words; `hidden` words are read out and shown as a tooltip only.
export function iconButton(name, words, attributes = {}, { wordless = true } = {}) {
  const said = wordless ? { "aria-label": words, title: words } : {};
  return make(
    "button",
    { type: "button", class: wordless ? "quiet small" : "quiet", ...said, ...attributes },
    icon(name),
    !wordless && make("span", {}, words),
  );
}
