// A session: its title, its views, and what belongs to all of them.

import { Chat } from "../chat/chat.js";
import { html, useEffect, useRef } from "../html.js";
import { lazy } from "../lazy.js";
import { MomentBar } from "../moments/moment_bar.js";
import { VIEWS, addressOf, go, route } from "../router.js";
import { current } from "../session/open_session.js";
import { t } from "../strings.js";

const VIEW_OF = {
  chat: Chat,
  timeline: lazy(() => import("../timeline/timeline_view.js").then((module) => module.TimelineView)),
  context: lazy(() => import("../context/context_view.js").then((module) => module.ContextView)),
  events: lazy(() => import("../events/events_view.js").then((module) => module.EventsView)),
};

export function SessionPage() {
  const session = current.value;
  const name = session.row.value?.name || t("unnamed");
  useEffect(() => {
    document.title = `${name} · navi`;
  }, [name]);
  const state = session.state.value;
  return html`
    <main class="session" key=${session.id}>
      <header class="session-header">
        <h1>${name}</h1>
        ${state === "here" && html`<${Tabs} />`}
      </header>
      ${state === "gone" && html`<div class="empty"><h2>${t("gone")}</h2></div>`}
      ${state === "failed" && html`<div class="empty" role="alert">${session.problem.value.message}</div>`}
      ${state === "loading" && html`<div class="empty">${t("loading")}</div>`}
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
  return html`
    <section id="view" role="tabpanel" aria-labelledby=${`tab-${view}`} class="view">
      <${VIEW_OF[view]} session=${session} />
    </section>
    <${MomentBar} session=${session} />
  `;
}
