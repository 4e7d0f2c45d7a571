// The view "Events" of a session: the log itself, to look through, open, link to and take away.

import { copy } from "../clipboard.js";
import { kindOf } from "../folds/event_kinds.js";
import { html, memo, useEffect, useId, useLayoutEffect, useMemo, useRef, useState } from "../html.js";
import { typeName } from "../moments/event_words.js";
import { PLACES } from "../moments/strip.js";
import { addressOf } from "../router.js";
import { clock, t } from "../strings.js";
import { stylesheet } from "../stylesheet.js";
import { useEvents } from "./all_events.js";
import { actorOf, filtered, textOf } from "./event_text.js";
import { OPEN, ROW, inSight, topOf } from "./rows.js";

await stylesheet("../../style/events.css", import.meta.url);

export function EventsView({ session }) {
  const [type, setType] = useState(null);
  const [actor, setActor] = useState(null);
  const [text, setText] = useState("");
  const [withDeltas, setWithDeltas] = useState(false);
  const searched = useLater(text);
  const all = useEvents(session, withDeltas);
  const types = useMemo(() => [...new Set(all.map((event) => event.type))].sort(), [all]);
  const actors = useMemo(() => [...new Set(all.map(actorOf))].filter(Boolean), [all]);
  const events = useMemo(() => filtered(all, { type, actor, text: searched }), [all, type, actor, searched]);
  return html`
    <div class="events">
      <div class="events-tools">
        <input
          type="search"
          aria-label=${t("events-search")}
          placeholder=${t("events-search")}
          value=${text}
          onInput=${({ target }) => setText(target.value)}
        />
        <select aria-label=${t("events-type")} value=${type ?? ""} onChange=${({ target }) => setType(target.value || null)}>
          <option value="">${t("events-all-types")}</option>
          ${types.map((name) => html`<option key=${name} value=${name}>${typeName(name)}</option>`)}
        </select>
        <select
          aria-label=${t("actor")}
          value=${actor === null ? "all" : actor || "agent"}
          onChange=${({ target }) => setActor(target.value === "all" ? null : target.value === "agent" ? "" : target.value)}
        >
          <option value="all">${t("events-all-actors")}</option>
          <option value="agent">${t("actor-main")}</option>
          ${actors.map((name) => html`<option key=${name} value=${name}>${actorName(name)}</option>`)}
        </select>
        <label class="events-deltas">
          <input type="checkbox" checked=${withDeltas} onChange=${({ target }) => setWithDeltas(target.checked)} />
          ${t("events-deltas")}
        </label>
        <span class="events-count fine">${t("moment-events", { count: events.length })}</span>
        <button disabled=${events.length === 0} onClick=${() => download(session, events)}>${t("export")}</button>
      </div>
      <${Rows} session=${session} events=${events} />
    </div>
  `;
}

/** A value a little later, so that typing does not wait for what is done with it. */
function useLater(value) {
  const [later, setLater] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setLater(value), 120);
    return () => clearTimeout(timer);
  }, [value]);
  return later;
}

function download(session, events) {
  const lines = events.map((event) => `${JSON.stringify(event)}\n`);
  const href = URL.createObjectURL(new Blob(lines, { type: "application/jsonl" }));
  const name = (session.row.value?.name || session.id).replace(/[^\p{L}\p{N}]+/gu, "-").slice(0, 60);
  Object.assign(document.createElement("a"), { href, download: `${name}.jsonl` }).click();
  setTimeout(() => URL.revokeObjectURL(href), 60_000);
}

function Rows({ session, events }) {
  const room = useRef();
  const [place, setPlace] = useState({ scrollTop: 0, height: 600 });
  const [opened, setOpened] = useState(() => new Set());
  const [active, setActive] = useState(null);
  const at = session.moment.value;
  const follows = useRef(true);

  const open = useMemo(() => events.flatMap(({ seq }, index) => (opened.has(seq) ? [index] : [])), [events, opened]);
  const [first, last] = inSight({ count: events.length, open, ...place });
  const activeIndex = Math.max(0, events.findIndex(({ seq }) => seq === (active ?? at)));
  const shown = Array.from({ length: last - first }, (_, index) => first + index);
  // The row that has the focus stays, wherever one scrolls.
  if (active !== null && events[activeIndex]?.seq === active && (activeIndex < first || activeIndex >= last)) shown.push(activeIndex);

  const measure = () => setPlace({ scrollTop: room.current.scrollTop, height: room.current.clientHeight });
  useLayoutEffect(() => {
    const watch = new ResizeObserver(measure);
    watch.observe(room.current);
    return () => watch.disconnect();
  }, []);
  // The newest are in sight as long as nobody looks elsewhere.
  useLayoutEffect(() => {
    if (follows.current && at === null) room.current.scrollTop = room.current.scrollHeight;
  }, [events]);
  useLayoutEffect(() => {
    if (at !== null) show(events.findLastIndex(({ seq }) => seq <= at));
  }, [at, events.length > 0]);

  const show = (index) => {
    if (index < 0) return;
    const top = topOf(index, open);
    const { scrollTop, clientHeight } = room.current;
    if (top < scrollTop) room.current.scrollTop = top;
    else if (top + ROW > scrollTop + clientHeight - ROW) room.current.scrollTop = top - clientHeight / 2;
  };
  const onScroll = ({ target }) => {
    follows.current = target.scrollTop + target.clientHeight > target.scrollHeight - ROW;
    measure();
  };
  const focus = (index) => {
    show(index);
    setActive(events[index].seq);
    // It may have to be drawn first.
    requestAnimationFrame(() => room.current?.querySelector(`[data-seq="${events[index].seq}"] .event-seq`)?.focus());
  };
  const onKeyDown = (event) => {
    if (event.target.closest("pre")) return;
    const page = Math.max(1, Math.floor(place.height / ROW) - 1);
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity }[event.key];
    if (step !== undefined) focus(Math.min(Math.max(activeIndex + step, 0), events.length - 1));
    else if (event.key === "ArrowRight" || event.key === "ArrowLeft") toggle(events[activeIndex].seq, event.key === "ArrowRight");
    else return;
    event.preventDefault();
  };
  const toggle = (seq, isOpen) =>
    setOpened((before) => {
      const after = new Set(before);
      if (isOpen) after.add(seq);
      else after.delete(seq);
      return after;
    });
  return html`
    <div role="table" class="event-table" aria-label=${t("view-events")} aria-rowcount=${events.length + 1} aria-colcount="5">
      <div role="rowgroup">
        <div role="row" class="event-row event-head" aria-rowindex="1">
          <span role="columnheader">${t("event")}</span>
          <span role="columnheader">${t("event-time")}</span>
          <span role="columnheader">${t("events-type")}</span>
          <span role="columnheader" class="event-actor">${t("actor")}</span>
          <span role="columnheader" class="event-what">${t("event-what")}</span>
        </div>
      </div>
      <div role="rowgroup" class="event-rows" ref=${room} onScroll=${onScroll} onKeyDown=${events.length ? onKeyDown : undefined}>
        <div role="presentation" class="event-space" style=${{ height: `${topOf(events.length, open)}px` }}>
          ${shown.map((index) => {
            const event = events[index];
            return html`
              <${Row}
                key=${event.seq}
                session=${session}
                event=${event}
                index=${index}
                top=${topOf(index, open)}
                isOpen=${opened.has(event.seq)}
                isAt=${event.seq === at}
                isLater=${at !== null && event.seq > at}
                isFirst=${index === activeIndex}
                onToggle=${toggle}
                onActive=${setActive}
              />
            `;
          })}
        </div>
        ${events.length === 0 && html`<div class="empty">${t("events-none")}</div>`}
      </div>
    </div>
  `;
}

function Row({ session, event, index, top, isOpen, isAt, isLater, isFirst, onToggle, onActive }) {
  const panel = useId();
  const kind = kindOf(event);
  const [from, until] = PLACES[kind];
  const look = () => session.lookAt(event.seq, { replace: false });
  const tab = isFirst ? 0 : -1;
  return html`
    <div
      role="row"
      class=${`event-row${isAt ? " at" : ""}${isLater ? " later" : ""}`}
      aria-rowindex=${index + 2}
      aria-current=${isAt ? "true" : undefined}
      data-seq=${event.seq}
      style=${{ transform: `translateY(${top}px)` }}
      onClick=${(click) => click.target.closest("button, .event-json") === null && look()}
      onFocusIn=${() => onActive(event.seq)}
    >
      <span role="cell">
        <button
          class="plain event-open"
          tabindex=${tab}
          aria-expanded=${isOpen}
          aria-controls=${isOpen ? panel : undefined}
          aria-label=${t("event-json", { seq: event.seq })}
          onClick=${() => onToggle(event.seq, !isOpen)}
        >
          ${isOpen ? "▾" : "▸"}
        </button>
        <button class="plain event-seq" tabindex=${tab} aria-label=${t("look-at", { seq: event.seq })} onClick=${look}>${event.seq}</button>
      </span>
      <span role="cell">${clock(event.at)}</span>
      <span role="cell" class="event-type">
        <svg width="6" height="20" viewBox="0 0 6 100" preserveAspectRatio="none" aria-hidden="true">
          <path class=${`tick ${kind}`} d=${`M3 ${from}V${until}`} />
        </svg>
        ${typeName(event.type)}
      </span>
      <span role="cell" class="event-actor">${actorName(actorOf(event))}</span>
      <span role="cell" class="event-what" dir="auto">${textOf(event)}</span>
      ${isOpen && html`<${Opened} id=${panel} session=${session} event=${event} />`}
    </div>
  `;
}

function actorName(actor) {
  return { "": t("actor-main"), you: t("you") }[actor] ?? actor;
}

/** An event as JSON, below its row. */
const Opened = memo(({ id, session, event }) => {
  const json = JSON.stringify(event, null, 2);
  const link = () => copy(location.origin + addressOf({ sessionId: session.id, view: "events", at: event.seq }));
  return html`
    <div role="cell" class="event-json" id=${id}>
      <div class="actions">
        <button onClick=${link}>${t("copy-link")}</button>
        <button onClick=${() => copy(json)}>${t("copy-json")}</button>
      </div>
      <pre tabindex="0" aria-label=${t("event-json", { seq: event.seq })}>${json}</pre>
    </div>
  `;
});
