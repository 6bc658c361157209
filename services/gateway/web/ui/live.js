// Tells those who listen to a screen reader what happens, once and in whole sentences.

import { $ } from "./dom.js";

export function announce(words) {
  const region = $("#live");
  // The same words twice are news too: an emptied region makes the reader say them again.
  region.textContent = "";
  setTimeout(() => {
    region.textContent = words;
  }, 60);
}
