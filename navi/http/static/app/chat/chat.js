// The view "Chat" of a session: the conversation, and the input below it.

import { html } from "../html.js";
import { runningTurn } from "../folds/conversation.js";
import { Composer } from "./composer.js";
import { Conversation } from "./conversation.js";

export function Chat({ session }) {
  const state = session.conversation.value;
  const isRunning = runningTurn(state) !== null;
  return html`
    <${Conversation} session=${session} state=${state} />
    <${Composer}
      draftName=${`draft.${session.id}`}
      isRunning=${isRunning}
      onSend=${(message) => {
        session.outbox.send(message);
        return true;
      }}
      onStop=${() => session.stop()}
    />
  `;
}
