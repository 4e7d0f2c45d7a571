// A session: its title, its views, and what belongs to all of them.

import { html, useEffect } from "../html.js";
import { Chat } from "../chat/chat.js";
import { current } from "../session/open_session.js";
import { t } from "../strings.js";

export function SessionPage() {
  const session = current.value;
  const row = session.row.value;
  const name = row?.name || t("unnamed");
  useEffect(() => {
    document.title = `${name} · navi`;
  }, [name]);
  const state = session.state.value;
  return html`
    <main class="session">
      <header class="session-header"><h1>${name}</h1></header>
      ${state === "gone" && html`<div class="empty"><h2>${t("gone")}</h2></div>`}
      ${state === "failed" && html`<div class="empty" role="alert">${session.problem.value.message}</div>`}
      ${state === "loading" && html`<div class="empty">${t("loading")}</div>`}
      ${state === "here" && html`<${Chat} key=${session.id} session=${session} />`}
    </main>
  `;
}
