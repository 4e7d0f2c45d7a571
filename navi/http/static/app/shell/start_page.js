// Where a session begins: an input, and nothing yet above it.

import { doing } from "../session/open_session.js";
import { me } from "../session/me.js";
import { Outbox, inNew } from "../session/outbox.js";
import { post } from "../api.js";
import { html } from "../html.js";
import { go } from "../router.js";
import { readSessions } from "../session/session_list.js";
import { t } from "../strings.js";
import { Composer } from "../chat/composer.js";
import { Notice } from "./notice.js";
import { PageHeader } from "./page_header.js";
import { useTitle } from "./title.js";

export function StartPage() {
  useTitle("");
  const begin = (message) =>
    doing(async () => {
      let sessionId = message.sessionId; // made when its first file came
      if (sessionId) await Outbox.send(sessionId, message);
      else {
        sessionId = (await post("/sessions", message.profileId ? { profile_id: message.profileId } : {})).id;
        await inNew(sessionId, () => Outbox.send(sessionId, message));
      }
      go({ sessionId });
      readSessions();
    });
  return html`
    <main class="session start">
      <${PageHeader} title="" />
      <${Notice} title=${t("start-title")} text=${t("start-hint")} />
      ${me.value && html`<${Composer} onBegin=${begin} />`}
    </main>
  `;
}
