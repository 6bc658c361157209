// What the tenant, the key and the models may use, and what is used of it; and the key itself.

import { call } from "../gateway/api.js";
import { key } from "../gateway/key.js";
import { problemOf } from "../gateway/problem.js";
import { bytes, number, text, when } from "../texts/texts.js";
import { $, foreign, make } from "../ui/dom.js";
import { countDown } from "../ui/countdown.js";

const METERS = ["requests_per_minute", "tokens_per_minute", "daily_tokens", "concurrent_requests"];
const AGAIN_MS = 30_000;

let usage = null;
let at = 0;
let timer = null;

export function begin() {
  $("#usage-reload").addEventListener("click", () => show());
  document.addEventListener("visibilitychange", () => lookAgain());
}

export async function show() {
  clearTimeout(timer);
  try {
    take(await call("GET", "/usage"));
    $("#usage-problem").replaceChildren();
  } catch (error) {
    if (error.status === 401) throw error;
    const problem = problemOf(error);
    $("#usage-problem").replaceChildren(
      make("p", { class: "notice bad", role: "alert" }, problem.title, " ", problem.advice),
    );
  }
  if (!$("#view-limits").hidden) timer = setTimeout(lookAgain, AGAIN_MS);
}

// Nobody looks at a hidden page; it is looked at again when it comes back.
function lookAgain() {
  if (!document.hidden && key.get() && !$("#view-limits").hidden) show().catch(() => {});
}

export function hide() {
  clearTimeout(timer);
}

export function take(found) {
  usage = found;
  at = Date.now();
  redraw();
}

export function redraw() {
  if (!usage) return;
  $("#account").replaceChildren(
    ...accountOf(usage).flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]),
  );
  $("#meters").replaceChildren(
    ...groupsOf(usage).map(({ title, meters }) =>
      make("section", { class: "card" }, make("h2", {}, title), meters.map(meterOf)),
    ),
  );
}

function accountOf({ tenant, key: name, scopes, expires_at }) {
  const kept = text(key.remembered ? "keptInBrowser" : "keptInTab");
  return [
    [text("tenant"), foreign(tenant)],
    [text("keyName"), foreign(name)],
    [
      text("scopes"),
      (scopes ?? []).map((scope) =>
        make("span", { class: "badge", title: text(`scope_${scope}`, {}, scope) }, foreign(scope)),
      ),
    ],
    expires_at && [text("expires"), when(Date.parse(expires_at))],
    [text("keyKept"), kept],
  ].filter(Boolean);
}

// Meters by whom they count: the tenant, this key, single models. Older gateways say less, newer ones more.
export function groupsOf(usage) {
  const limits = usage.limits ?? {};
  const tenant = METERS.map((name) => ({
    name,
    ...(usage[name] ?? {}),
    limit: usage[name]?.limit ?? limits[name] ?? 0,
  }));
  const groups = [
    { title: text("limitsOfTenant"), meters: [...tenant, { name: "body_bytes", limit: limits.body_bytes ?? 0 }] },
  ];
  const own = metersIn(usage.key_limits);
  if (own.length) groups.push({ title: text("limitsOfKey"), meters: own });
  for (const [model, given] of Object.entries(usage.models ?? {})) {
    const meters = metersIn(given);
    if (meters.length) groups.push({ title: [text("limitsOfModel"), " ", foreign(model)], meters });
  }
  return groups;
}

const metersIn = (given) => METERS.filter((name) => given?.[name]?.limit > 0).map((name) => ({ name, ...given[name] }));

function meterOf({ name, limit, used, remaining, reset_seconds }) {
  const taken = used ?? (Number.isFinite(remaining) && limit ? limit - remaining : null);
  const title = text(`limit_${name}`);
  if (!limit)
    return make(
      "div",
      { class: "meter" },
      make("span", {}, title),
      make("span", { class: "facts" }, text("unlimited")),
    );
  const shown = name === "body_bytes" ? bytes(limit) : number(limit);
  if (taken === null || taken === undefined)
    return make("div", { class: "meter" }, make("span", {}, title), make("strong", {}, shown));
  const share = Math.min(1, Math.max(0, taken / limit));
  const fill = make("span", { class: share >= 0.9 ? "fill full" : "fill" });
  fill.style.inlineSize = share ? `max(3px, ${100 * share}%)` : 0;
  const words = text("usedOf", { used: number(taken), limit: shown });
  return make(
    "div",
    { class: "meter" },
    make("span", {}, title),
    make("strong", {}, words),
    make(
      "div",
      {
        class: "gauge",
        role: "meter",
        "aria-label": title,
        "aria-valuemin": 0,
        "aria-valuemax": limit,
        // A long answer may have cost more than was left.
        "aria-valuenow": Math.min(taken, limit),
        "aria-valuetext": words,
      },
      fill,
    ),
    make("span", { class: "facts" }, resetOf(name, taken, reset_seconds)),
  );
}

// Tokens and requests come back evenly: this is when all of them are there again.
function resetOf(name, taken, seconds) {
  if (!taken || !seconds || name === "concurrent_requests") return "";
  const node = make("span");
  countDown(
    node,
    at + 1000 * seconds,
    (time) => text("fullIn", { time }),
    () => {
      node.textContent = text("fullAgain");
    },
  );
  return node;
}

export const bodyBytes = () => usage?.limits?.body_bytes ?? 0;
