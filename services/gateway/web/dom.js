// Small helpers to build nodes. Text is always set as text: nothing that a document or a page says becomes markup.

export const $ = (selector) => document.querySelector(selector);

export function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== null && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

// Paragraphs, list items, **bold** and [n] marks; everything else stays as it is.
export function renderAnswer(text, mark) {
  const blocks = [];
  let list = null;
  for (const line of text.split("\n")) {
    const item = line.match(/^\s*(?:[-*•]|\d+\.)\s+(.*)$/);
    if (item) {
      if (!list) blocks.push(list = make("ul"));
      list.append(make("li", {}, ...inline(item[1], mark)));
    } else {
      list = null;
      if (line.trim()) blocks.push(make("p", {}, ...inline(line, mark)));
    }
  }
  return blocks;
}

function inline(line, mark) {
  return line.split(/(\[\d+\]|\*\*[^*]+\*\*)/).filter(Boolean).map((part) => {
    const cited = part.match(/^\[(\d+)\]$/);
    if (cited) return mark(Number(cited[1])) ?? part;
    return part.startsWith("**") && part.length > 4 ? make("strong", {}, part.slice(2, -2)) : part;
  });
}
