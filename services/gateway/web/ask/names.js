// What people call the tools, the specialists and the ways of answering.

import { text } from "../texts/texts.js";
import { withoutControls } from "../ui/dom.js";

const TOOLS = {
  vector_search: ["toolDocuments", "file"],
  sql_query: ["toolDatabase", "table"],
  web_search: ["toolWeb", "globe"],
  calculate: ["toolCalculator", "sum"],
};
const SPECIALISTS = { documents: "toolDocuments", sql: "toolDatabase", web: "toolWeb", external: "toolExternal" };

export const toolName = (tool) => (tool in TOOLS ? text(TOOLS[tool][0]) : withoutControls(tool));

// A tool of the tenant is a statement that was written for it; one of another server bears the server's name as well.
export const toolIcon = (tool) => TOOLS[tool]?.[1] ?? (tool.includes("__") ? "plug" : "table");

export const specialistName = (name) => (name in SPECIALISTS ? text(SPECIALISTS[name]) : withoutControls(name));

// Where a tool looks, inside a sentence.
export const placeName = (tool) => text(`in_${tool}`, {}, withoutControls(tool));

export const isSearch = (tool) => ["vector_search", "sql_query", "web_search"].includes(tool);

export const strategyName = (strategy) => text(`strategy_${strategy}`, {}, withoutControls(strategy));

// A reason as the orchestrator gives it, in the person's words where it is one of those that are known.
export function reasonWords(reason) {
  const [said, ...more] = withoutControls(reason).split(/: | \(/);
  const name = `why_${said.toLowerCase().replace(/[^a-z]+/g, "_")}`;
  const words = text(name, {}, "");
  if (!words) return withoutControls(reason);
  return more.length && name === "why_the_question_itself_says_what_it_needs"
    ? `${words}: ${more.join(" ").split(", ").map(toolName).join(", ")}`
    : words;
}
