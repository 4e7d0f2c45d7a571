// One thread with the official client: each line of standard input is a message or an answer to an
// interrupt, each line of standard output what the client then has. A broken run prints its error.
import { createInterface } from "node:readline";
import { HttpAgent } from "@ag-ui/client";

const agent = new HttpAgent({ url: process.argv[2], threadId: process.argv[3] });
let interrupts = [];
for await (const line of createInterface({ input: process.stdin })) {
  const wanted = JSON.parse(line);
  const types = [];
  let outcome = null;
  if (wanted.message) agent.addMessage({ role: "user", ...wanted.message });
  const resume = wanted.payload
    ? interrupts.map(({ id }) => ({ interruptId: id, status: "resolved", payload: wanted.payload }))
    : undefined;
  try {
    await agent.runAgent(
      { runId: wanted.runId, ...(resume && { resume }) },
      {
        onEvent: ({ event }) => void types.push(event.type),
        onRunFinishedEvent: ({ event }) => void (outcome = event.outcome),
      },
    );
  } catch (error) {
    outcome = { error: String(error) };
  }
  interrupts = outcome?.interrupts ?? [];
  console.log(JSON.stringify({ types, outcome, messages: agent.messages, state: agent.state }));
}
