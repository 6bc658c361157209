// A statement over the database, as it ran: its text, its parameters, the rows.

import { counted, number, text } from "../texts/texts.js";
import { foreign, make } from "../ui/dom.js";
import { givenParts } from "./given.js";

export function statementParts(source) {
  const columns = source.columns ?? [];
  const aligned = columns.map((_, column) => (source.rows?.some((row) => isNumber(row[column])) ? "at-end" : null));
  const cell = (value, column) =>
    value === null
      ? make("td", { class: "null" }, "∅")
      : make("td", { class: aligned[column] }, foreign(shownCell(value)));
  const params = source.params ?? [];
  const shownCount = source.rows?.length ?? 0;
  return [
    make("h3", {}, text("statement")),
    make("pre", { tabindex: 0 }, make("code", {}, laidOut(source.statement))),
    givenParts(
      text("params"),
      params.map((value, index) => [`$${index + 1}`, value]),
    ),
    make("h3", {}, counted("rows", source.row_count)),
    shownCount > 0 &&
      make(
        "div",
        { class: "scroll", tabindex: 0, role: "group", "aria-label": text("result") },
        make(
          "table",
          { class: "rows" },
          make(
            "thead",
            {},
            make(
              "tr",
              {},
              columns.map((name, column) => make("th", { scope: "col", class: aligned[column] }, foreign(name))),
            ),
          ),
          make(
            "tbody",
            {},
            source.rows.map((row) => make("tr", {}, row.map(cell))),
          ),
        ),
      ),
    shownCount < source.row_count && make("p", { class: "hint" }, text("firstRows", { count: shownCount })),
  ];
}

// Exact decimals come as text, so that none of their digits is lost; they are shown as they are.
const isNumber = (value) => typeof value === "number" || /^-?\d+(\.\d+)?$/.test(value);

function shownCell(value) {
  if (typeof value === "number") return number(value, { maximumFractionDigits: 20 });
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

// The clauses of a statement on lines of their own, where it came on one.
function laidOut(statement) {
  if (statement.includes("\n") || /['"$]{2}|--|\/\*/.test(statement.replace(/'[^']*'/g, ""))) return statement;
  return statement
    .split(/('[^']*'|"[^"]*")/)
    .map((part, index) =>
      index % 2
        ? part
        : part.replace(
            /\s+(?=(?:FROM|(?:LEFT |RIGHT |FULL |INNER |CROSS )?JOIN|WHERE|GROUP BY|HAVING|ORDER BY|LIMIT|UNION)\b)/gi,
            "\n",
          ),
    )
    .join("");
}
