// A program with OpenAI's official client for Node: says as one line of JSON what it has met.
// node openai_client.mjs BASE_URL PATH_OF_THE_PACKAGE
import { pathToFileURL } from "node:url";

const [baseURL, path] = process.argv.slice(2);
const { default: OpenAI, NotFoundError, BadRequestError } = await import(pathToFileURL(path));
const client = new OpenAI({ baseURL, apiKey: "any" });
const model = "assistant";
const met = {};

met.models = (await client.models.list()).data.map((each) => each.id);

const messages = [{ role: "user", content: "!think hm\n!say One" }];
const first = await client.chat.completions.create({ model, messages }).withResponse();
const message = first.data.choices[0].message;
met.whole = [message.content, message.reasoning_content, first.data.usage.total_tokens];

messages.push(message, { role: "user", content: "!say Two" });
const stream = client.chat.completions.stream({
  model,
  messages,
  stream_options: { include_usage: true },
});
const final = await stream.finalChatCompletion();
met.streamed = [final.choices[0].message.content, final.choices[0].finish_reason, final.usage.total_tokens];

messages.push(final.choices[0].message, { role: "user", content: "!say Three" });
const third = await client.chat.completions.create({ model, messages }).withResponse();
met.sessions = [first, third].map((each) => each.response.headers.get("x-navi-session"));

const errors = [
  client.chat.completions.create({ model: "gpt-5", messages }),
  client.chat.completions.create({ model, messages, n: 2 }),
];
met.errors = (await Promise.allSettled(errors)).map(({ reason }) => [
  reason instanceof NotFoundError,
  reason instanceof BadRequestError,
  reason.code,
]);

const left = await client.chat.completions
  .create({ model, messages: [{ role: "user", content: "!say Begun\n!sleep 60\n!say never" }], stream: true })
  .withResponse();
for await (const chunk of left.data) {
  if (chunk.choices[0].delta.content) break; // which closes the connection
}
met.left = left.response.headers.get("x-navi-session");

console.log(JSON.stringify(met));
