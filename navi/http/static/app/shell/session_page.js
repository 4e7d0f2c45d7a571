// A session: its title, its views, and what belongs to all of them.

import { Chat } from "../chat/chat.js";
import { html, useLayoutEffect, useRef } from "../html.js";
import { AlertIcon, SearchIcon } from "../icons.js";
import { lazy } from "../lazy.js";
import { MomentBar } from "../moments/moment_bar.js";
import { VIEWS, go, route } from "../router.js";
import { current, reopen } from "../session/open_session.js";
import { t } from "../strings.js";
import { newSession } from "./new_session.js";
import { Notice } from "./notice.js";
import { PageHeader } from "./page_header.js";
import { useTitle } from "./title.js";

const VIEW_OF = {
  chat: Chat,
  timeline: lazy(() => import("../timeline/timeline_view.js").then((module) => module.TimelineView)),
  context: lazy(() => import("../context/context_view.js").then((module) => module.ContextView)),
  events: lazy(() => import("../events/events_view.js").then((module) => module.EventsView)),
};

export function SessionPage() {
  const session = current.value;
  const state = session.state.value;
  const title = state === "gone" ? t("gone") : session.row.value ? session.row.value.name || t("unnamed") : "";
  useTitle(title);
  return html`
    <main class="session" key=${session.id}>
      <${PageHeader} title=${state === "gone" ? "" : title}>${state === "here" && html`<${Tabs} />`}<//>
      ${state === "gone" &&
      html`
        <${Notice} icon=${SearchIcon} role="alert" title=${t("gone")} text=${t("gone-explained")}>
          <button onClick=${newSession}>${t("begin-another")}</button>
        <//>
      `}
      ${state === "failed" &&
      html`
        <${Notice} icon=${AlertIcon} role="alert" title=${t("session-failed")} text=${session.problem.value.message}>
          <button onClick=${reopen}>${t("try-again")}</button>
        <//>
      `}
      ${state === "loading" && html`<div class="empty late">${t("loading")}</div>`}
      ${state === "here" && html`<${Views} key=${session.id} session=${session} />`}
    </main>
  `;
}

function Tabs() {
  const list = useRef();
  const chosen = route.value.view;
  const choose = (view) => go({ ...route.value, view });
  const onKeyDown = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const next = (VIEWS.indexOf(chosen) + step + VIEWS.length) % VIEWS.length;
    choose(VIEWS[next]);
    list.current.children[next].focus();
  };
  return html`
    <div role="tablist" aria-label=${t("views")} class="tabs" ref=${list} onKeyDown=${onKeyDown}>
      ${VIEWS.map(
        (view) => html`
          <button
            key=${view}
            role="tab"
            id=${`tab-${view}`}
            aria-selected=${view === chosen}
            aria-controls="view"
            tabindex=${view === chosen ? 0 : -1}
            onClick=${() => choose(view)}
          >
            ${t(`view-${view}`)}
          </button>
        `,
      )}
    </div>
  `;
}

function Views({ session }) {
  const { view } = route.value;
  const before = useRef(view);
  useLayoutEffect(() => {
    // What had the focus may have gone with the view that it was in.
    if (before.current !== view && document.activeElement === document.body) document.getElementById(`tab-${view}`)?.focus();
    before.current = view;
  }, [view]);
  return html`
    <section id="view" role="tabpanel" aria-labelledby=${`tab-${view}`} class="view">
      <${VIEW_OF[view]} session=${session} />
    </section>
    <${MomentBar} session=${session} />
  `;
}
