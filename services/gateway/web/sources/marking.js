// Finds in a passage the words that an answer rests on.

// A number keeps its % or currency.
const WORD = /[\p{L}\p{N}]+(?:[.,:/-][\p{L}\p{N}]+)*(?:(?<=\p{N})\s?[%€$])?/gu;
const STOP = new Set(
  [
    "a al and are as at be by con de del do e el en es esta este for from ha han has have in is it la las lo los más no o of",
    "on or para per por que se según si sin sobre su sus that the their this to un una was were which with y",
  ].flatMap((words) => words.split(" ")),
);

const folded = (word) =>
  word
    .toLowerCase()
    .normalize("NFD")
    .replace(/[\p{M}\s]/gu, "")
    .replace(/(?<=\p{L}{3})(?:es|s)$/u, "");

function tokensOf(text) {
  return [...text.matchAll(WORD)].map(({ 0: word, index }) => ({
    word,
    start: index,
    end: index + word.length,
    key: folded(word),
  }));
}

// How much a word tells: numbers most, small words nothing.
function weight({ word, key }) {
  if (/\d/.test(word)) return word.length > 1 ? 3 : 2;
  return STOP.has(word.toLowerCase()) || key.length < 3 ? 0 : 1;
}

// The sentences of the answer that carry the mark [n].
export function claimsOf(answer, mark) {
  const named = `[${mark}]`;
  return answer
    .split(/\n|(?<=[.!?](?:\s?\[\d+\])*)\s+(?=[\p{Lu}\p{N}¿¡"«“*-])/u)
    .filter((one) => one.includes(named))
    .map((one) => one.replace(/\[\d+\]/g, " "));
}

// [start, end] of the runs of words in `passage` that `claims` say too; the tellingest only, in order.
export function runsIn(passage, claims) {
  const known = new Set(claims.flatMap((one) => tokensOf(one).map(({ key }) => key)));
  const runs = [];
  let run = null;
  for (const token of tokensOf(passage)) {
    // A run does not go on over the end of a line.
    if (run && passage.slice(run.end, token.start).includes("\n")) run = close(run, runs);
    if (!known.has(token.key)) run = close(run, runs);
    else if (run) run = { ...run, end: token.end, tokens: [...run.tokens, token] };
    else run = { end: token.end, tokens: [token] };
  }
  close(run, runs);
  const best = Math.max(0, ...runs.map((one) => one.weight));
  return runs.filter((one) => one.weight >= Math.max(2, best * 0.4)).map(({ start, end }) => [start, end]);
}

// Small words at the ends of a run say nothing.
function close(run, runs) {
  if (!run) return null;
  const telling = run.tokens.filter((token) => weight(token) > 0);
  if (telling.length)
    runs.push({
      start: telling[0].start,
      end: telling.at(-1).end,
      weight: telling.reduce((sum, token) => sum + weight(token), 0),
    });
  return null;
}

// [start, end] of `quote` in `passage`, white space apart; null where it is not there.
export function placeOf(passage, quote) {
  const wanted = squeezed(quote.replace(/\s*…\s*$/, "")).text;
  const { text, places } = squeezed(passage);
  const at = wanted ? text.indexOf(wanted) : -1;
  return at < 0 ? null : [places[at], places[at + wanted.length - 1] + 1];
}

function squeezed(text) {
  let kept = "";
  const places = [];
  for (let at = 0; at < text.length; at += 1) {
    const blank = /\s/.test(text[at]);
    if (blank && (!kept || kept.endsWith(" "))) continue;
    kept += blank ? " " : text[at];
    places.push(at);
  }
  return { text: kept.trimEnd(), places };
}

// `text` cut at the runs: [[piece, isMarked], …].
export function cutAt(text, runs) {
  const pieces = [];
  let at = 0;
  for (const [start, end] of runs) {
    pieces.push([text.slice(at, start), false], [text.slice(start, end), true]);
    at = end;
  }
  return [...pieces, [text.slice(at), false]].filter(([piece]) => piece);
}
