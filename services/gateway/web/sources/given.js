// What a statement or a tool was given, as a small table.

import { foreign, make } from "../ui/dom.js";

export const asWords = (value) => (typeof value === "string" ? value : JSON.stringify(value));

// `pairs`: [name, value]. Nothing where nothing was given.
export const givenParts = (title, pairs) =>
  pairs.length > 0 && [
    make("h3", {}, title),
    make(
      "div",
      { class: "scroll" },
      make(
        "table",
        { class: "slim" },
        make(
          "tbody",
          {},
          pairs.map(([name, value]) =>
            make("tr", {}, make("th", { scope: "row" }, foreign(name)), make("td", {}, foreign(asWords(value)))),
          ),
        ),
      ),
    ),
  ];
