// How the next question is to be answered: what the person chose, remembered in this browser.

import { $ } from "../ui/dom.js";
import { forThisBrowser } from "../ui/storage.js";

const CHOICES = ["strategy", "reflection"];

export function begin() {
  for (const name of CHOICES) {
    const select = $(`#${name}`);
    const before = forThisBrowser.get(name) ?? "";
    // An older page may have known ways that this one does not.
    if ([...select.options].some(({ value }) => value === before)) select.value = before;
    select.addEventListener("change", () => forThisBrowser.set(name, select.value));
  }
}

// The fields of the request; what was left as it is says nothing, so that the server's own setting holds.
export const chosenWays = () =>
  Object.fromEntries(CHOICES.map((name) => [name, $(`#${name}`).value]).filter(([, value]) => value));
