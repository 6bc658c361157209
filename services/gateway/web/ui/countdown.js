// Seconds that run down. Not spoken every second: a reader of the screen hears only the end.

import { duration } from "../texts/texts.js";

// Shows in `node` what `words` says of the time that is left until `at` (milliseconds), and calls `over` then.
export function countDown(node, at, words, over) {
  const tick = () => {
    const left = Math.ceil((at - Date.now()) / 1000);
    if (left <= 0) return over();
    node.textContent = words(duration(left * 1000));
    // One that has left the page needs no more ticks.
    setTimeout(() => node.isConnected && tick(), at - Date.now() - (left - 1) * 1000 + 5);
  };
  tick();
}
