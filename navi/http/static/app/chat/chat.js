// The view "Chat" of a session: the conversation, what goes on, and the input below it.

import { Gauge } from "../context/gauge.js";
import { runningTurn } from "../folds/conversation.js";
import { html } from "../html.js";
import { isForeign, me } from "../session/me.js";
import { t } from "../strings.js";
import { Activity } from "./activity.js";
import { Composer } from "./composer.js";
import { Conversation } from "./conversation.js";

export function Chat({ session }) {
  const state = session.conversation.value;
  return html`
    <${Conversation} session=${session} state=${state} />
    ${me.value &&
    (isForeign(session)
      ? html`<p class="foreign fine">${t("not-yours")}</p>`
      : html`<${Composer} session=${session} isRunning=${runningTurn(state) !== null} canStop=${state.line !== null} />`)}
    <footer class="below"><${Activity} session=${session} /><${Gauge} session=${session} /></footer>
  `;
}
