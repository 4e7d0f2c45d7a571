// What an event is about, in one line, and whether it is one of those that are wanted.

const MOST = 240; // characters

const TEXTS = {
  tool_started: ({ name, arguments: given }) => [name, JSON.stringify(given)],
  tool_finished: ({ name, outcome, output }) => [name, outcome, output],
  approval_requested: ({ name, preview }) => [name, preview],
  approval_decided: ({ decision, scope, note }) => [decision, scope, note],
  model_called: ({ purpose, model, backend }) => [purpose, model, backend === model ? "" : backend],
  model_replied: ({ content, tool_calls: calls }) => [content, ...(calls ?? []).map(({ name }) => name)],
  model_call_failed: ({ kind, error }) => [kind, error],
  turn_completed: ({ iterations, usage }) => [`${iterations}`, `${usage?.prompt_tokens ?? "?"} → ${usage?.completion_tokens ?? "?"}`],
  context_compressed: ({ tokens_before: before, tokens_after: after, summary }) => [`${before} → ${after}`, summary],
  todo_updated: ({ items }) => (items ?? []).map(({ status, text }) => `${status}: ${text}`),
  profile_switched: ({ from_profile: from, to_profile: to }) => [`${from} → ${to}`],
};
const TELLING = ["content", "text", "name", "plan", "summary", "error", "result", "task", "output", "verdict", "kind", "by", "path", "profile_id"];

const BY_PEOPLE = new Set([
  ...["user_message_received", "stop_requested", "approval_decided", "compression_undone", "file_uploaded"],
  ...["session_created", "session_renamed", "session_pinned", "session_deleted", "profile_switched", "conversation_taken_in"],
]);
const PERSON = "you";
const NOT_A_PERSON = new Set(["auto", "tool", "stop", "fork"]);

/** Whose an event is: "you" for a person's, "" for the session's agent, else the id of a subagent. */
export function actorOf({ type, subagent_id: subagent, data }) {
  if (BY_PEOPLE.has(type) && !NOT_A_PERSON.has(data?.by)) return PERSON;
  return subagent ?? "";
}

/** What an event is about: the text, the tool, the outcome. */
export function textOf({ type, data }) {
  const said = TEXTS[type]?.(data ?? {}) ?? [TELLING.map((name) => data?.[name]).find((value) => typeof value === "string" && value)];
  const text = said.filter(Boolean).join(" · ").replace(/\s+/g, " ");
  return text.length > MOST ? `${text.slice(0, MOST)}…` : text;
}

const written = new WeakMap();

/** An event as JSON in small letters, made once. */
function searchable(event) {
  let text = written.get(event);
  if (text === undefined) {
    text = JSON.stringify(event).toLowerCase();
    written.set(event, text);
  }
  return text;
}

/** The events of a type, of an actor (as `actorOf` names them, null for all), with a text somewhere in them. */
export function filtered(events, { type = null, actor = null, text = "" }) {
  const wanted = text.trim().toLowerCase();
  if (type === null && actor === null && !wanted) return events;
  return events.filter(
    (event) =>
      (type === null || event.type === type) &&
      (actor === null || actorOf(event) === actor) &&
      (!wanted || searchable(event).includes(wanted)),
  );
}
