// How a turn ended, where that is worth a line; what one can do about it.

import { html, memo } from "../html.js";
import { AlertIcon, RetryIcon } from "../icons.js";
import { isForeign } from "../session/me.js";
import { t } from "../strings.js";
import { focusInput } from "./reading.js";

const KINDS = new Set([
  ...["timeout_first_chunk", "timeout_chunk", "connection", "http", "protocol", "interrupted", "overflow"],
  ...["context_overflow", "runaway", "budget", "crash_loop", "no_model"],
]);

/** The end of a turn; of the last one of a session with a way to go on. */
export const TurnEnd = memo(({ turn, session, isLast }) => {
  if (turn.status === "failed") return html`<${Failed} turn=${turn} session=${session} isLast=${isLast} />`;
  const words = CUT_SHORT.find(({ is }) => is(turn))?.words;
  return words && html`<${CutShort} words=${words} session=${session} isLast=${isLast} />`;
});

// The ends after which there may be more to say.
const CUT_SHORT = [
  { is: (turn) => turn.status === "stopped", words: "stopped" },
  { is: (turn) => turn.limitReached, words: "limit-reached" },
  { is: (turn) => turn.isTruncated, words: "answer-cut" },
];

/** Whether one may go on from the end of a turn: it is the last one, and nothing was said since. */
export function canGoOn(session, isLast) {
  const isNow = isLast && session.moment.value === null && !isForeign(session);
  return isNow && !session.outbox.messages.value.length && !session.conversation.value.waiting.length;
}

/** Say it; what was clicked goes with that, and the focus to where one says more. */
function say(session, { content, files = [] }) {
  session.outbox.send({ content, files });
  focusInput();
}

function CutShort({ words, session, isLast }) {
  return html`
    <div class="turn-end fine">
      <p>${t(words)}</p>
      ${canGoOn(session, isLast) && html`<button onClick=${() => say(session, { content: t("go-on-said") })}>${t("go-on")}</button>`}
    </div>
  `;
}

function Failed({ turn, session, isLast }) {
  const message = turn.items.findLast((item) => item.kind === "user");
  const { kind, error } = turn.failure;
  return html`
    <div class="turn-end failed" role=${isLast ? "alert" : undefined}>
      <p><${AlertIcon} /> <strong>${t(`failed-${KINDS.has(kind) ? kind : "other"}`)}</strong></p>
      <p class="fine" dir="auto">${error}</p>
      ${message &&
      canGoOn(session, isLast) &&
      html`<button onClick=${() => say(session, message)}><${RetryIcon} /> ${t("retry")}</button>`}
    </div>
  `;
}
