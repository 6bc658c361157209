// What another tool said, one of an external server or the calculator: what it was asked, and its words.

import { text } from "../texts/texts.js";
import { make } from "../ui/dom.js";
import { asWords, givenParts } from "./given.js";
import { passageNode } from "./passages.js";

const CALCULATOR = "calculate";
const MOST = 80;

// In one short line.
export function askedOf(given) {
  const values = typeof given === "object" && given ? Object.values(given) : [given];
  const words = values
    .filter((value) => value !== null && value !== undefined && value !== "")
    .map(asWords)
    .join(", ");
  return words.length > MOST ? `${words.slice(0, MOST)}…` : words;
}

export function toolParts({ tool, arguments: given, quote }, claims) {
  const fields = typeof given === "object" && given ? Object.entries(given) : given ? [["", given]] : [];
  return [
    givenParts(text("toolAsked"), fields),
    quote && [make("h3", {}, text("toolSaid")), passageNode({ text: quote }, true, claims)],
    tool !== CALCULATOR && make("p", { class: "hint" }, text("untrustedTool")),
  ];
}
