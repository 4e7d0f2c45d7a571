// All events of a session for the table: facts, and deltas if they are wanted.

import { get, pathOf } from "../api.js";
import { useEffect, useMemo, useRef, useState } from "../html.js";
import { isDelta } from "../session/event_log.js";
import { doing } from "../session/open_session.js";

const PAGE = 10_000; // deltas a request
const SHOWN_EVERY = 200; // ms, while events come

/** The events in order of seq; loaded when the view is opened, and followed. */
export function useEvents(session, withDeltas) {
  const { log } = session;
  const grown = log.grown.value;
  const [count, setCount] = useState(0);
  const [erasures, setErasures] = useState(0);
  const deltas = useRef([]);
  useEffect(() => void doing(() => log.reach(0)), []);

  useEffect(() => {
    let timer = null;
    const show = () => {
      timer = null;
      setCount((before) => before + 1);
    };
    const stop = log.listen((event) => {
      if (isDelta(event) && !withDeltas) return;
      if (event.type === "content_erased") setErasures((before) => before + 1);
      if (isDelta(event)) deltas.current.push(event);
      timer ??= setTimeout(show, SHOWN_EVERY);
    });
    return () => {
      stop();
      clearTimeout(timer);
    };
  }, [withDeltas]);

  useEffect(() => {
    deltas.current = [];
    if (!withDeltas) return;
    const stop = new AbortController();
    doing(async () => {
      const found = [];
      for (let page = null; page === null || page.length === PAGE; ) {
        const query = new URLSearchParams({ kind: "delta", after: String(found.at(-1)?.seq ?? 0), limit: String(PAGE) });
        page = (await get(`${pathOf(session.id, "events")}?${query}`, { signal: stop.signal })).events;
        found.push(...page);
      }
      const last = found.at(-1)?.seq ?? 0;
      deltas.current = [...found, ...deltas.current.filter(({ seq }) => seq > last)];
      setCount((before) => before + 1);
    }).catch((error) => {
      if (!stop.signal.aborted) throw error;
    });
    return () => stop.abort();
  }, [withDeltas, erasures]);

  return useMemo(() => {
    if (!withDeltas || !deltas.current.length) return [...log.facts];
    return [...log.facts, ...deltas.current].sort((a, b) => a.seq - b.seq);
  }, [grown, count, withDeltas]);
}
