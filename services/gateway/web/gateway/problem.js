// Failures in the words of people: what happened, and what to do.

import { has, text } from "../texts/texts.js";

// {title, advice, canRetry, needsKey, retryAt, technical}; `retryAt` is a time in milliseconds, or null.
export function problemOf(error) {
  const { status = 0, code = "", message = "", retryAt = null, requestId = "" } = error;
  const kind = [`${code}`, `${status}`, status >= 500 ? "500" : "400"].find((name) => has(`problem_${name}`)) ?? "0";
  return {
    title: text(`problem_${kind}`),
    advice: has(`advice_${kind}`) ? text(`advice_${kind}`) : "",
    // A request that was wrong once is wrong again.
    canRetry: ![400, 401, 403, 404, 405, 413, 415].includes(status),
    needsKey: status === 401,
    retryAt,
    technical: [status || null, code, message, requestId && `x-request-id: ${requestId}`].filter(Boolean).join(" · "),
  };
}

// What a problem says when it is kept with a conversation.
export const toKeep = ({ status = 0, code, message, requestId, retryAt }) => ({
  status,
  code,
  message,
  requestId,
  retryAt,
});
