// What people call the tools, the specialists and the ways of answering.

import { text } from "../texts/texts.js";
import { withoutControls } from "../ui/dom.js";

const ICONS = { vector_search: "file", sql_query: "table", web_search: "globe", calculate: "sum" };
const SPECIALISTS = { documents: "toolDocuments", sql: "toolDatabase", web: "toolWeb", external: "toolExternal" };

// A tool of the tenant is a statement that was written for it; one of another server bears the server's name as well.
export const toolIcon = (tool) => ICONS[tool] ?? (tool.includes("__") ? "plug" : "table");

export const specialistName = (name) => (name in SPECIALISTS ? text(SPECIALISTS[name]) : withoutControls(name));

// Where a tool looks, inside a sentence.
export const placeName = (tool) => text(`in_${tool}`, {}, withoutControls(tool));

export const isSearch = (tool) => ["vector_search", "sql_query", "web_search"].includes(tool);

export const strategyName = (strategy) => text(`strategy_${strategy}`, {}, withoutControls(strategy));
