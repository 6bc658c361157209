// What a run says of itself: how it was chosen to answer, what was kept from the model, what of it is not confirmed.

import { foreign, icon, make } from "../ui/dom.js";
import { duration, number, text } from "../texts/texts.js";
import { placeName, strategyName } from "./names.js";
import { told, toldSuspicion } from "./told.js";

const LEADS_NOWHERE = /^(.+) that leads to no source of this answer was removed$/;
const MOST = 12;

const ofKind = (entries, kind) => entries.filter((entry) => entry.kind === kind);

// The way of answering and why; another line where the run changed over.
export function drawChosen(entries) {
  return ofKind(entries, "chosen").map(({ strategy, reason, confidence }, index, all) => {
    const sure = confidence ? text("sure", { share: number(confidence, { style: "percent" }) }) : "";
    const why = [told(reason), sure].filter(Boolean).join(" · ");
    return make(
      "p",
      { class: "chosen" },
      icon("way"),
      make(
        "span",
        {},
        index > 0 && strategy !== all[index - 1].strategy && `${text("changedTo")} `,
        make("strong", {}, strategyName(strategy)),
        why && make("span", { class: "facts" }, " ", foreign(why)),
      ),
    );
  });
}

export const suspicionsIn = (entries) => ofKind(entries, "suspicion");

// Never the suspicious text itself: only where it stood and what was done.
export function drawSuspicion({ tool, action, reason }) {
  return make(
    "span",
    { class: "suspicion" },
    icon("shield"),
    make(
      "span",
      {},
      text(
        `suspicion_${action}`,
        { where: placeName(tool) },
        text("suspicion_unspecified", { where: placeName(tool) }),
      ),
      reason && [" ", make("span", { class: "facts" }, foreign(toldSuspicion(reason)))],
    ),
  );
}

// What the sources do not support, below the answer.
export function drawFindings(entries) {
  const found = ofKind(entries, "finding");
  if (!found.length) return [];
  const numbers = found.filter(({ about }) => about === "number");
  const others = found.filter(({ about }) => about !== "number");
  const lines = new Map();
  if (numbers.length)
    lines.set("number", [
      `${text("finding_number")} `,
      numbers.map((one, index) => [index > 0 && " · ", make("strong", {}, foreign(one.text))]),
    ]);
  for (const one of others) lines.set(JSON.stringify([one.about, one.text, one.mark, one.reason]), findingWords(one));
  const shown = [...lines.values()].slice(0, MOST);
  return [
    make(
      "section",
      { class: "notice warn findings", "aria-label": text("findings") },
      icon("warning"),
      make(
        "div",
        {},
        make("strong", {}, text("findings")),
        make(
          "ul",
          {},
          shown.map((words) => make("li", {}, words)),
        ),
      ),
    ),
  ];
}

function findingWords({ about, text: said, mark, reason }) {
  if (about === "link") return LEADS_NOWHERE.test(reason) ? text("finding_link") : foreign(told(reason));
  const words = text(`finding_${about}`, { mark }, "");
  if (!words) return foreign(told(reason));
  return [words, said && [" ", make("q", {}, foreign(said))]];
}

// What it took to have the answer checked by a model; nothing where none was asked.
export function drawChecking(summary, entries) {
  const { tokens, duration_ms } = summary?.checking ?? {};
  const count = (tokens?.prompt ?? 0) + (tokens?.completion ?? 0);
  if (!count) return [];
  const clean = !ofKind(entries, "finding").length;
  const cost = text("checkingCost", { tokens: number(count), time: duration(duration_ms) });
  return [
    make(
      "p",
      { class: "facts checked" },
      clean && icon("check"),
      make("span", {}, [clean && text("checkedAll"), cost].filter(Boolean).join(" · ")),
    ),
  ];
}
