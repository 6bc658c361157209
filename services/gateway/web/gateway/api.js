// Speaks to the gateway.

import { key } from "./key.js";
import { events } from "./stream.js";

const CALL_MS = 60_000;
// The gateway sends a comment every 15 s while it works.
const SILENCE_MS = 90_000;

// A failure, as the gateway says it. Status 0: there was no answer, or it broke off.
export class Refused extends Error {
  constructor(status, { message = "", code = "", retryAfterSeconds = null, requestId = "" } = {}) {
    super(message);
    const retryAt = retryAfterSeconds === null ? null : Date.now() + 1000 * retryAfterSeconds;
    Object.assign(this, { status, code, retryAt, requestId });
  }
}

export async function call(method, path, body) {
  const response = await reached(
    fetch(`/v1${path}`, {
      method,
      headers: { ...authorization(), ...(body ? { "content-type": "application/json" } : {}) },
      body: body && JSON.stringify(body),
      signal: AbortSignal.timeout(CALL_MS),
    }),
  );
  if (!response.ok) throw await refusal(response);
  return response.status === 204 ? {} : response.json().catch(() => ({}));
}

// The chunks of an answer. It is whole when the generator ends; all else throws, AbortError when `signal` says so.
export async function* ask(messages, extras, signal) {
  const asked = { model: "sabueso", stream: true, messages, sabueso: { include_steps: true, ...extras } };
  const headers = { ...authorization(), "content-type": "application/json" };
  const response = await reached(
    fetch("/v1/chat/completions", { method: "POST", signal, headers, body: JSON.stringify(asked) }),
  );
  if (!response.ok) throw await refusal(response);
  const requestId = response.headers.get("x-request-id") ?? "";
  try {
    for await (const data of events(response.body, SILENCE_MS)) {
      if (data === "[DONE]") return;
      const chunk = JSON.parse(data);
      if (chunk.error) throw new Refused(0, { ...chunk.error, requestId });
      yield chunk;
    }
  } catch (error) {
    if (error instanceof Refused || error.name === "AbortError") throw error;
    throw new Refused(0, { code: "stream_cut", requestId });
  }
  throw new Refused(0, { code: "stream_cut", requestId });
}

// One file. XMLHttpRequest, because only it tells how much has been sent. `onSent` gets 0 to 1.
export function upload(form, onSent, signal) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", "/v1/documents");
    for (const [name, value] of Object.entries(authorization())) request.setRequestHeader(name, value);
    request.upload.addEventListener(
      "progress",
      (event) => event.lengthComputable && onSent(event.loaded / event.total),
    );
    request.addEventListener("error", () => reject(new Refused(0, { code: "unreachable" })));
    request.addEventListener("abort", () => reject(new DOMException("", "AbortError")));
    request.addEventListener("load", () => {
      const body = parsed(request.responseText);
      if (request.status < 300) resolve(body);
      else reject(refused(request.status, body, (name) => request.getResponseHeader(name)));
    });
    signal.addEventListener("abort", () => request.abort());
    request.send(form);
  });
}

const authorization = () => ({ authorization: `Bearer ${key.get()}` });

function reached(answer) {
  return answer.catch((error) => {
    throw error.name === "AbortError"
      ? error
      : new Refused(0, { code: error.name === "TimeoutError" ? "no_answer" : "unreachable" });
  });
}

const refusal = async (response) =>
  refused(response.status, parsed(await response.text().catch(() => "")), (name) => response.headers.get(name));

function refused(status, body, header) {
  const { message, code } = body?.error ?? {};
  const seconds = Number.parseInt(header("retry-after"), 10);
  return new Refused(status, {
    message: message ?? "",
    code: code ?? "",
    retryAfterSeconds: Number.isFinite(seconds) ? seconds : null,
    requestId: header("x-request-id") ?? "",
  });
}

function parsed(body) {
  try {
    return JSON.parse(body);
  } catch {
    return null;
  }
}
