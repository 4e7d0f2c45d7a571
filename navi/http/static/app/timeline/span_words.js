// Spans in words: the same in the table, under the pointer and for screen readers.

import { parts } from "../folds/turn_spans.js";
import { profileName } from "../session/profiles.js";
import { duration, t, tokens } from "../strings.js";

const PURPOSES = new Set(["planning", "review", "compression"]);

export function spanName(span) {
  if (span.kind === "call") return PURPOSES.has(span.purpose) ? t(`call-${span.purpose}`) : t("call-turn", { number: span.iteration });
  if (span.kind === "approval") return t("span-approval", { name: span.name });
  if (span.kind === "planning") return t("span-planning");
  if (span.kind === "subagent") return t("subagent-card", { name: profileName(span.name) });
  return span.name;
}

/** The name of each actor of a turn; subagents of one profile are numbered. */
export function actorNames(spans) {
  const names = new Map([[null, t("actor-main")]]);
  const subagents = spans.filter(({ kind }) => kind === "subagent");
  const counts = new Map();
  for (const span of subagents) {
    const number = (counts.get(span.name) ?? 0) + 1;
    counts.set(span.name, number);
    const isOnly = subagents.filter(({ name }) => name === span.name).length === 1;
    names.set(span.actor, isOnly ? profileName(span.name) : `${profileName(span.name)} ${number}`);
  }
  return names;
}

export function stateWords(span) {
  if (!span.failure) return t(`state-${span.state}`);
  const why = `${t(`state-${span.state}`)} (${span.failure.replaceAll("_", " ")})`;
  return span.willRetry ? `${why}, ${t("tried-again")}` : why;
}

export function tokenWords({ usage, estimate }) {
  const read = usage?.prompt_tokens ?? estimate?.prompt_tokens ?? null;
  const written = usage?.completion_tokens ?? estimate?.completion_tokens ?? null;
  if (read === null && written === null) return "";
  const isEstimate = (usage?.prompt_tokens ?? null) === null || (usage?.completion_tokens ?? null) === null;
  const words = t("tokens-in-out", { read: tokens(read ?? 0), written: tokens(written ?? 0) });
  return isEstimate ? `≈ ${words}` : words;
}

/** What a call waited, thought and wrote; what a tool waited for. */
export function partWords(span, approval) {
  if (approval) return t("part-approval", { time: duration(approval.until - approval.from) });
  if (span.kind !== "call") return "";
  const queued = span.queuedFrom === null ? [] : [t("part-queued", { time: duration(span.from - span.queuedFrom) })];
  return [...queued, ...parts(span).map(({ part, from, until }) => t(`part-${part}`, { time: duration(until - from) }))].join(", ");
}

/** All of it in one sentence. */
export function sentence(span, { turn, names, approval = null }) {
  return [
    spanName(span),
    span.kind === "subagent" ? "" : names.get(span.actor),
    t("span-start", { time: duration(span.from - turn.from) }),
    t("span-duration", { time: duration(span.until - span.from) }),
    partWords(span, approval),
    span.kind === "call" && tokenWords(span),
    stateWords(span),
  ]
    .filter(Boolean)
    .join(" · ");
}
