// Folds recorded events as the page's conversation does: `node page_conversation.mjs < sessions`, a JSON list
// of lists of envelopes; prints a JSON list of the messages that each shows, as the server's `messages` has
// them, and of what does not hold of it.
import { readFileSync } from "node:fs";

const APP = new URL("../../navi/http/static/app/folds/", import.meta.url);
const { conversation } = await import(new URL("conversation.js", APP));
const TAIL = 10; // events that a page has which was opened in the middle of a long turn
const DELTAS = new Set(["text_delta", "thinking_delta", "tool_output_delta", "model_waiting"]);

const MESSAGES = {
  user: (item) => [{ seq: item.seq, role: "user", content: item.content, gone: item.state === "withdrawn" }],
  answer: (item) => (item.repliedSeq ? [{ seq: item.repliedSeq, role: "assistant", content: item.text, gone: false }] : []),
  tool: (item) => (item.resultSeq ? [{ seq: item.resultSeq, role: "tool", content: item.output, gone: false }] : []),
  subagent: (item) => [{ seq: item.taskSeq, role: "user", content: item.task, gone: false }, ...MESSAGES.tool(item)],
  plan: (item) => (item.text ? [{ seq: item.seq, role: "assistant", content: item.text, gone: false }] : []),
  summary: (item) => [{ seq: item.seq, role: "assistant", content: item.summary, gone: false }],
  taken_in: (item) => [{ seq: item.seq, role: "user", content: "", gone: false }],
  note: () => [],
};

function messagesOf(items) {
  return items.flatMap((item) => [...MESSAGES[item.kind](item), ...(item.items ? messagesOf(item.items) : [])]);
}

function shown(state) {
  const messages = [...messagesOf(state.turns.flatMap((turn) => turn.items)), ...messagesOf(state.waiting)];
  return messages.filter(({ content, role }) => content || role !== "assistant").sort((a, b) => a.seq - b.seq);
}

/** Freeze a state, so that a fold that changes one in place fails. */
function frozen(value) {
  if (value && typeof value === "object" && !Object.isFrozen(value)) {
    Object.freeze(value);
    Object.values(value).forEach(frozen);
  }
  return value;
}

/** The keys that stand twice in a state; a page would draw one of them only. */
function doubled(state) {
  const keysOf = (items) => items.flatMap((item) => [item.key, ...(item.items ? keysOf(item.items) : [])]);
  const keys = [...state.turns.map((turn) => turn.key), ...keysOf(state.turns.flatMap((turn) => turn.items))];
  return keys.filter((key, index) => keys.indexOf(key) !== index);
}

/** The answers of a tail that do not say as whom they were given, though their calls say so. */
function unnamed(tail, state) {
  const called = new Map(tail.filter(({ type }) => type === "model_called").map(({ data }) => [data.call_id, data.profile_id]));
  const inner = (items) => items.flatMap((item) => [item, ...inner(item.items ?? [])]);
  const answers = inner(state.turns.flatMap((turn) => turn.items)).filter(({ kind }) => kind === "answer");
  return answers.filter(({ callId, profileId }) => profileId !== called.get(callId) && called.get(callId)).map(({ key }) => key);
}

const sessions = JSON.parse(readFileSync(0, "utf8"));
const results = sessions.map((events) => {
  const state = events.reduce((before, event) => conversation.apply(before, frozen(event)), frozen(conversation.initial()));
  const facts = events.filter((event) => !DELTAS.has(event.type)).reduce(conversation.apply, conversation.initial());
  const end = events.slice(-TAIL);
  const tail = end.reduce(conversation.apply, conversation.initial());
  const running = (of) => of.turns.filter((turn) => turn.status === "running").length;
  return { messages: shown(state), facts: shown(facts), isSame: JSON.stringify(state.turns) === JSON.stringify(facts.turns), doubled: doubled(state), running: running(state), tailRunning: running(tail), unnamed: unnamed(end, tail) };
});
process.stdout.write(JSON.stringify(results));
