// The list of sessions: what waits and runs first, the others by the day they were last active; and the
// search over what was said in them.

import { PinIcon, PlusIcon, SearchIcon } from "../icons.js";
import { html, useEffect, useMemo, useRef, useSignal, useState } from "../html.js";
import { lazy } from "../lazy.js";
import { route } from "../router.js";
import { reached, readFurther, sessions } from "../session/session_list.js";
import { t } from "../strings.js";
import { DRAWER, closeDrawer, isOpen, isShut } from "./drawer.js";
import { isComposed } from "./keys.js";
import { Me } from "./me_menu.js";
import { newSession } from "./new_session.js";
import { SessionEntry, shownOf } from "./session_entry.js";
import { groupsOf } from "./session_groups.js";
import { UsageLine } from "./usage_line.js";

const Found = lazy(() => import("./search.js").then((module) => module.Found), { isQuiet: true });

export function Sidebar() {
  const query = useSignal("");
  const nav = useRef();
  const field = useRef();
  const stop = useSignal(null);
  const far = useSignal(FAR);
  const open = isOpen();
  useEffect(() => {
    if (open) field.current.focus();
  }, [open]);
  const onKeyDown = (event) => {
    if (isComposed(event)) return;
    if (event.key === "Escape") {
      if (query.value) query.value = "";
      else closeDrawer();
    } else moveFocus(nav.current, event);
  };
  const onFocusIn = ({ target }) => {
    const id = target.closest("[data-session]")?.dataset.session;
    if (id) stop.value = id;
  };
  const onScroll = ({ currentTarget: { scrollHeight, scrollTop, clientHeight } }) => {
    if (scrollHeight - scrollTop > 3 * clientHeight) return;
    far.value = nav.current.querySelectorAll("[data-session]").length + FAR;
    readFurther();
  };
  return html`
    ${open && html`<div class="backdrop" onClick=${closeDrawer}></div>`}
    <nav
      id=${DRAWER}
      ref=${nav}
      class=${`sidebar${open ? " open" : ""}`}
      inert=${isShut()}
      aria-label=${t("sessions")}
      onKeyDown=${onKeyDown}
      onFocusIn=${onFocusIn}
    >
      <header>
        <button class="new" onClick=${newSession}><${PlusIcon} />${t("new-session")}</button>
        <div class="search">
          <${SearchIcon} />
          <input
            ref=${field}
            type="search"
            aria-label=${t("search-sessions")}
            placeholder=${t("search-hint")}
            value=${query}
            onInput=${({ target }) => {
              query.value = target.value;
            }}
          />
        </div>
      </header>
      <div class="entries" onScroll=${onScroll}>
        <${Sessions} key=${query.value ? "some" : "all"} query=${query.value.trim()} stop=${stop.value} far=${far.value} />
      </div>
      <footer><${UsageLine} /><${Me} /></footer>
    </nav>
  `;
}

const AT_ONCE = 60; // sessions; the others are drawn a part at a time, so that nothing waits for them
const FAR = 600; // beyond where somebody has scrolled to

function Sessions({ query, stop, far }) {
  const [most, setMost] = useState(AT_ONCE);
  const rows = sessions.value;
  const groups = useMemo(() => (rows ? groupsOf(rows, query) : []), [rows, query]);
  const isMore = rows?.length > most && most < far;
  useEffect(() => {
    if (!isMore) return;
    const timer = setTimeout(() => setMost(most + AT_ONCE), 30);
    return () => clearTimeout(timer);
  }, [isMore, most]);
  useEffect(() => {
    if (query) readFurther(true);
  }, [query, rows]);
  if (rows === null) return html`<p class="hint">${t(reached.value ? "loading" : "no-answer")}</p>`;
  if (!query && !rows.length) return html`<p class="hint">${t("no-sessions")}</p>`;
  const shown = groups.flatMap(({ rows: some }) => some);
  const opened = route.value.sessionId;
  let drawn = 0;
  const first = [stop, opened].find((id) => shown.some((row) => row.id === id)) ?? shown[0]?.id;
  return html`
    ${groups.map(
      ({ name, rows: some }) => html`
        <section key=${name} aria-labelledby=${`group-${name}`}>
          <h2 id=${`group-${name}`}>${name === "pinned" && html`<${PinIcon} />`}${t(`group-${name}`)}</h2>
          <ul>
            ${some
              .filter(() => drawn++ < most)
              .map((row) => html`<${SessionEntry} key=${row.id} ...${shownOf(row)} isStop=${row.id === first} />`)}
          </ul>
        </section>
      `,
    )}
    ${query && html`<${Found} query=${query} named=${shown} />`}
  `;
}

/** Arrows go through the links, and along a session's buttons. */
function moveFocus(nav, event) {
  if (event.altKey || event.ctrlKey || event.metaKey) return;
  const inField = event.target instanceof HTMLInputElement;
  const along = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  let next = null;
  if (along && !inField) {
    const item = [...(event.target.closest("[data-session]")?.querySelectorAll("a, .entry-actions button") ?? [])];
    next = item[item.indexOf(event.target) + along];
  } else {
    const links = [...nav.querySelectorAll(".entries a")];
    const at = links.indexOf(event.target.closest("[data-session], .found")?.querySelector("a") ?? null);
    const places = { ArrowDown: at + 1, ArrowUp: at - 1, ...(inField ? {} : { Home: 0, End: links.length - 1 }) };
    if (!(event.key in places) || (inField && event.target.type !== "search")) return;
    next = places[event.key] < 0 ? nav.querySelector("input") : links[places[event.key]];
  }
  if (!next) return;
  event.preventDefault();
  next.focus();
}
