// What OpenAI's own client for Node makes of the gateway. Arguments: URL, key. Prints what it got, as JSON.
import OpenAI, { APIError, AuthenticationError } from "openai";

const [url, apiKey] = process.argv.slice(2);
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey, maxRetries: 0 });
const messages = [{ role: "user", content: "¿Cuántos contratos?" }];
const got = {};

const whole = await client.chat.completions.create({ model: "sabueso", messages });
got.whole = whole.choices[0].message.content;
got.annotations = whole.choices[0].message.annotations.map((one) => one.type);
got.answerId = whole.sabueso.answer_id;

const runner = client.chat.completions.stream({
  model: "sabueso",
  messages,
  stream_options: { include_usage: true },
});
got.streamed = await runner.finalContent();
got.tokens = (await runner.totalUsage()).total_tokens;

const response = await client.responses.create({ model: "sabueso", input: "¿Cuántos contratos?" });
got.response = response.output_text;
got.items = response.output.map((item) => item.type);

const kinds = new Set();
const stream = client.responses.stream({ model: "sabueso", input: "¿Cuántos contratos?" });
for await (const event of stream) kinds.add(event.type);
got.kinds = [...kinds];
got.final = (await stream.finalResponse()).output_text;

got.models = [];
for await (const model of client.models.list()) got.models.push(model.id);

const embedded = await client.embeddings.create({ model: "small", input: ["a", "abc"] });
got.embeddings = embedded.data.map((one) => Array.from(one.embedding));

const stranger = new OpenAI({ baseURL: `${url}/v1`, apiKey: "nobody", maxRetries: 0 });
const refused = await stranger.models.list().catch((error) => error);
got.refused = [refused instanceof AuthenticationError, refused.code, Boolean(refused.requestID)];

const broken = await client.chat.completions.create({
  model: "sabueso",
  messages: [{ role: "user", content: "fail half-way" }],
  stream: true,
});
try {
  for await (const _ of broken);
} catch (error) {
  got.broken = [error instanceof APIError, error.code];
}

const brokenResponse = await client.responses.create({ model: "sabueso", input: "fail half-way", stream: true });
try {
  for await (const _ of brokenResponse);
} catch (error) {
  got.brokenResponse = [error instanceof APIError, error.code];
}

console.log(JSON.stringify(got));
