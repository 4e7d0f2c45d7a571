// The list of sessions.

import { html } from "../html.js";
import { addressOf, follow, route } from "../router.js";
import { sessions } from "../session/session_list.js";
import { ago, t } from "../strings.js";

export function Sidebar() {
  return html`
    <nav class="sidebar" aria-label=${t("sessions")}>
      <header>
        <a class="button" href="/" onClick=${(event) => follow(event, {})}>${t("new-session")}</a>
      </header>
      <ul>
        ${sessions.value?.map((session) => html`<${Entry} key=${session.id} session=${session} />`)}
      </ul>
    </nav>
  `;
}

function Entry({ session }) {
  const place = { sessionId: session.id };
  const isOpen = route.value.sessionId === session.id;
  return html`
    <li>
      <a href=${addressOf(place)} aria-current=${isOpen ? "page" : undefined} onClick=${(event) => follow(event, place)}>
        ${session.name || t("unnamed")}
      </a>
      <span class="fine">${session.status === "running" ? t("running") : ago(session.last_active)}</span>
    </li>
  `;
}
