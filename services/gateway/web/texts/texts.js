// The page's words, numbers and times, in the language of the person.

import { forThisBrowser } from "../ui/storage.js";
import en from "./en.js";
import es from "./es.js";

export const TEXTS = { en, es };

export const language = {
  get code() {
    const chosen = forThisBrowser.get("language");
    return chosen in TEXTS ? chosen : navigator.language.startsWith("es") ? "es" : "en";
  },
  get other() {
    return this.code === "es" ? "en" : "es";
  },
  toggle() {
    forThisBrowser.set("language", this.other);
  },
};

export const has = (name) => name in TEXTS[language.code];

// The words of that name, with `{value}`s filled in; `otherwise` where there are none.
export function text(name, values = {}, otherwise = name) {
  const words = has(name) ? TEXTS[language.code][name] : otherwise;
  return typeof words === "string" ? filled(words, values) : words;
}

// Words that depend on a number: {one: …, other: …}.
export function counted(name, count) {
  const forms = TEXTS[language.code][name];
  const form = forms[new Intl.PluralRules(language.code).select(count)] ?? forms.other;
  return filled(form, { count: number(count) });
}

const filled = (words, values) => words.replace(/\{(\w+)\}/g, (whole, name) => String(values[name] ?? whole));

// As the person's own country writes it, where the browser's language is the page's.
const locale = () => navigator.languages.find((one) => one.split("-")[0] === language.code) ?? language.code;

export const number = (value, options) => new Intl.NumberFormat(locale(), options).format(value);

const measured = (value, unit, digits = 0, unitDisplay = "narrow") =>
  number(value, { style: "unit", unit, unitDisplay, maximumFractionDigits: digits });

// Milliseconds in the unit that gives a small number; empty for what is not known.
export function duration(milliseconds) {
  if (milliseconds === null || milliseconds === undefined) return "";
  if (milliseconds === 0) return measured(0, "second");
  if (milliseconds < 100) return measured(milliseconds, "millisecond", milliseconds < 10 ? 1 : 0);
  const seconds = milliseconds / 1000;
  if (seconds < 60) return measured(seconds, "second", seconds < 10 ? 2 : 0);
  if (seconds < 3600)
    return `${measured(Math.floor(seconds / 60), "minute")} ${measured(Math.floor(seconds % 60), "second")}`;
  return `${measured(Math.floor(seconds / 3600), "hour")} ${measured(Math.floor((seconds % 3600) / 60), "minute")}`;
}

// "2 min old".
export function age(seconds) {
  const [unit, size] = [
    ["day", 86400],
    ["hour", 3600],
    ["minute", 60],
    ["second", 1],
  ].find(([, least]) => seconds >= least) ?? ["second", 1];
  return text("old", { age: measured(Math.round(seconds / size), unit, 0, "short") });
}

export function bytes(count) {
  const [unit, size] = [
    ["gigabyte", 2 ** 30],
    ["megabyte", 2 ** 20],
    ["kilobyte", 2 ** 10],
    ["byte", 1],
  ].find(([, least]) => count >= least) ?? ["byte", 1];
  return measured(count / size, unit, size > 1 && count / size < 10 ? 1 : 0, "short");
}

// A time: of today the hour, else the day too.
export function when(milliseconds) {
  const today = new Date().toDateString() === new Date(milliseconds).toDateString();
  return new Intl.DateTimeFormat(
    locale(),
    today ? { timeStyle: "short" } : { dateStyle: "medium", timeStyle: "short" },
  ).format(milliseconds);
}

export function translatePage() {
  document.documentElement.lang = language.code;
  for (const node of document.querySelectorAll("[data-text]")) node.textContent = text(node.dataset.text);
  for (const node of document.querySelectorAll("[data-placeholder]")) node.placeholder = text(node.dataset.placeholder);
  for (const node of document.querySelectorAll("[data-label]")) {
    node.setAttribute("aria-label", text(node.dataset.label));
    if (node.tagName === "BUTTON") node.title = text(node.dataset.label);
  }
}
