// What services say in English, in the person's words where it is one of the things that are known; else as it came.

import { counted, duration, has, text } from "../texts/texts.js";
import { withoutControls } from "../ui/dom.js";

const TOOLS = {
  vector_search: "toolDocuments",
  sql_query: "toolDatabase",
  web_search: "toolWeb",
  calculate: "toolCalculator",
};

export const toolName = (tool) => (tool in TOOLS ? text(TOOLS[tool]) : withoutControls(tool));

export const serviceName = (service) => text(`service_${service}`, {}, withoutControls(service));

const named = (service) => ({ service: serviceName(service.replace(/^The /, "")) });
const listed = (tools) => ({ tools: tools.split(", ").map(toolName).join(", ") });

// Each: what is said, the name of the words, and what is put into them.
const LINES = [
  [/^timeout after ([\d.]+)s$/, "told_timeout", (seconds) => ({ time: duration(1000 * Number(seconds)) })],
  [/^(The model|[a-z_]+|mcp:[\w.-]+) (?:does not answer|did not answer in time|broke off)$/, "told_no_answer", named],
  [/^(The model|[a-z_]+|mcp:[\w.-]+) took too long$/, "told_too_long", named],
  [/^(The model|[a-z_]+|mcp:[\w.-]+) failed(?: twice(?: and is not asked again)?)?$/, "told_failed", named],
  [/^the question itself says what it needs: ([\w, ]+)$/, "told_needs", listed],
  [/^(\w+): the model has to write its arguments$/, "told_arguments", listed],
  [/^there is no tool `(\w+)`, which the question needs$/, "told_no_tool", listed],
  [/^in ([\w-]+(?:, [\w-]+)*)$/, "told_in", (names) => ({ names })],
];
const COUNTED = [
  [/^(\d+) passages?$/, "passages"],
  [/^(\d+) pages?$/, "pages"],
  [/^(\d+) rows?$/, "rows"],
  [/^(\d+) characters?$/, "characters"],
];

// One line.
export function told(line) {
  const said = withoutControls(line);
  for (const [pattern, name, values] of LINES) {
    const match = said.match(pattern);
    if (match) return text(name, values(match[1]));
  }
  // Others are whole sentences; what stands in brackets, or after a colon, is for those who mend the thing.
  const name = `why_${said
    .split(/: | \(/)[0]
    .toLowerCase()
    .replace(/[^a-z]+/g, "_")}`;
  return has(name) ? text(name) : said;
}

// What a tool gave in a few words, such as "5 passages; in legal".
export const toldOutcome = (summary) => String(summary ?? "").split("; ").map(toldPart).join("; ");

function toldPart(part) {
  const [whole, bare, more] = part.match(/^(.*?)( \(truncated\))?$/s) ?? [part, part];
  for (const [pattern, name] of COUNTED) {
    const match = bare.match(pattern);
    if (match) return counted(name, Number(match[1])) + (more ? ` (${text("truncated")})` : "");
  }
  const queries = whole.match(/^(\d+) quer(?:y|ies) \((\w+)\)$/);
  if (queries) return `${counted("queries", Number(queries[1]))} (${text(`transform_${queries[2]}`, {}, queries[2])})`;
  return told(whole);
}

// What was suspicious: "2 text(s) of this result: orders to the model".
export function toldSuspicion(reason) {
  const match = String(reason).match(/^(\d+) text\(s\) of this result: (.+)$/s);
  return match ? `${counted("suspectTexts", Number(match[1]))}: ${match[2].split(", ").map(told).join(", ")}` : told(reason);
}
