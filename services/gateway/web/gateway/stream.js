// Server-sent events out of bytes, whatever the pieces that they come in.

// The data of each event. Throws `Silent` when nothing, not even a keep-alive comment, came for `silence_ms`.
export async function* events(body, silence_ms) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  const lines = new Lines();
  let data = [];
  try {
    for (;;) {
      const { done, value } = await within(reader.read(), silence_ms);
      for (const line of lines.take(done ? null : value)) {
        if (line.startsWith("data:")) data.push(line.slice(line[5] === " " ? 6 : 5));
        else if (line === "" && data.length) {
          yield data.join("\n");
          data = [];
        }
      }
      if (done) return;
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

export class Silent extends Error {}

// Lines end with \n, \r\n or \r; one that has not ended stays here.
class Lines {
  #rest = "";

  take(piece) {
    const text = this.#rest + (piece ?? "");
    // A \r at the very end may be the first half of \r\n: it waits for what follows.
    const whole = piece !== null && text.endsWith("\r") ? text.slice(0, -1) : text;
    const lines = whole.split(/\r\n|\n|\r/);
    this.#rest = lines.pop() + text.slice(whole.length);
    return lines;
  }
}

function within(reading, milliseconds) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Silent()), milliseconds);
  });
  return Promise.race([reading, late]).finally(() => clearTimeout(timer));
}
