// Speaks to the gateway with the key of this tab.

export const key = {
  get() { return sessionStorage.getItem("key") ?? ""; },
  set(value) { sessionStorage.setItem("key", value.trim()); },
  forget() { sessionStorage.removeItem("key"); },
};

// `make up` prints an address with the key behind #, which no server and no log ever sees.
const given = new URLSearchParams(location.hash.slice(1)).get("key");
if (given) {
  key.set(given);
  history.replaceState(null, "", location.pathname);
}

export class Refused extends Error {
  constructor(status, message) { super(message); this.status = status; }
}

export async function call(method, path, body) {
  const isForm = body instanceof FormData;
  const response = await fetch(`/v1${path}`, {
    method,
    headers: { authorization: `Bearer ${key.get()}`, ...(body && !isForm ? { "content-type": "application/json" } : {}) },
    body: isForm || !body ? body : JSON.stringify(body),
  });
  if (!response.ok) throw await refusal(response);
  return response.json();
}

export async function* ask(messages, signal) {
  const response = await fetch("/v1/chat/completions", {
    method: "POST",
    signal,
    headers: { authorization: `Bearer ${key.get()}`, "content-type": "application/json" },
    body: JSON.stringify({ model: "sabueso", stream: true, messages, sabueso: { include_steps: true } }),
  });
  if (!response.ok) throw await refusal(response);
  let rest = "";
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    for (const event of events) {
      const data = event.split("\n").filter((line) => line.startsWith("data: ")).map((line) => line.slice(6)).join("\n");
      if (data === "[DONE]") return;
      if (!data) continue;
      const chunk = JSON.parse(data);
      if (chunk.error) throw new Refused(500, chunk.error.message);
      yield chunk;
    }
  }
}

async function refusal(response) {
  const body = await response.json().catch(() => null);
  return new Refused(response.status, body?.error?.message ?? `${response.status}`);
}
