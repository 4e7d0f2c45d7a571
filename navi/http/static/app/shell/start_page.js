// Where a session begins: an input, and nothing yet above it.

import { doing } from "../session/open_session.js";
import { Outbox } from "../session/outbox.js";
import { post } from "../api.js";
import { html, useEffect } from "../html.js";
import { go } from "../router.js";
import { readSessions } from "../session/session_list.js";
import { t } from "../strings.js";
import { Composer } from "../chat/composer.js";

export function StartPage() {
  useEffect(() => {
    document.title = "navi";
  }, []);
  const begin = (message) =>
    doing(async () => {
      const made = await post("/sessions", message.profileId ? { profile_id: message.profileId } : {});
      await Outbox.send(made.id, message);
      go({ sessionId: made.id });
      readSessions();
    });
  return html`
    <main class="session start">
      <div class="empty">
        <h1>${t("start-title")}</h1>
        <p>${t("start-hint")}</p>
      </div>
      <${Composer} onBegin=${begin} />
    </main>
  `;
}
