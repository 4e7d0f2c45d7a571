// What goes on now, in one line; and the same, without the seconds, for screen readers.

import { status } from "../announce.js";
import { useElapsed } from "../clock.js";
import { awaitingApproval, runningTurn } from "../folds/conversation.js";
import { html, useEffect, useRef } from "../html.js";
import { RunningIcon, WaitingIcon } from "../icons.js";
import { isForeign } from "../session/me.js";
import { profileName, profiles } from "../session/profiles.js";
import { t } from "../strings.js";
import { doing } from "./about_tool.js";
import { wholeSeconds } from "./elapsed.js";

export function Activity({ session }) {
  const state = session.conversation.value;
  const turn = runningTurn(state);
  const isPast = session.moment.value !== null;
  useStatus(state, turn, isPast);
  const isAsked = turn !== null && awaitingApproval(turn.items).length > 0;
  return html`
    <p class=${isAsked ? "activity asked fine" : "activity fine"}>
      ${!isPast && turn && html`<${Doing} turn=${turn} asks=${isForeign(session) ? "legend-asking" : "waiting-for-you"} profileId=${state.profileId} />`}
      ${!isPast && !turn && state.line && html`<${WaitingIcon} /> <span>${t("now-in-line", { place: state.line.place })}</span>`}
    </p>
  `;
}

function Doing({ turn, asks, profileId }) {
  const asked = awaitingApproval(turn.items);
  const now = turn.now ?? { what: "starting", since: turn.startedAt };
  const isAsked = asked.length > 0 && now.what !== "stopping";
  const elapsed = useElapsed(isAsked ? asked[0].approval.at : now.since);
  const most = profiles.value.get(profileId)?.max_iterations;
  const parts = [
    ...(now.subagent ? [profileName(now.subagent)] : []),
    ...(now.iteration && !now.subagent ? [most ? t("call-of", { number: now.iteration, most }) : t("call", { number: now.iteration })] : []),
    isAsked ? t(asks) : wordsOf(now),
    wholeSeconds(elapsed),
  ];
  return html`<${isAsked ? WaitingIcon : RunningIcon} /> <span dir="auto">${parts.filter(Boolean).join(" · ")}</span>`;
}

function wordsOf(now) {
  if (now.what === "tool") return doing(now.name, now.arguments);
  if (now.what === "waiting") return now.reason === "loading" ? t("now-loading") : t("now-in-line", { place: now.place });
  return t(`now-${now.what}`);
}

/** Say what changes: never what streams, never each second. */
function useStatus(state, turn, isPast) {
  const said = turn ? statusOf(turn) : "";
  const before = useRef(null);
  const last = state.turns.findLast((other) => other.status !== "between");
  useEffect(() => {
    if (isPast) return;
    const turnId = before.current;
    before.current = turn?.turnId ?? null;
    if (turn) status.value = said;
    else if (turnId !== null && last?.turnId === turnId) status.value = t(`ended-${last.status}`);
  }, [said, turn?.turnId, last?.status, isPast]);
}

function statusOf(turn) {
  if (turn.now?.what === "stopping") return t("now-stopping");
  const asked = awaitingApproval(turn.items);
  // By their names, so that one more is said too, and that one is left.
  if (asked.length) return `${t("approval")}: ${asked.map(({ name }) => name).join(", ")}`;
  if (turn.now?.what === "tool") return t("running-tool", { name: turn.now.name });
  if (turn.now?.what === "planning") return t("now-planning");
  return t("answering");
}
