// A text in Markdown as nodes, also while it is being written: blocks that are settled are not read again.

import { html, useEffect, useRef, useState } from "../html.js";
import { Block } from "./block.js";
import { NOTHING, read } from "./settling.js";

const SHARE = 5; // reading takes at most a fifth of the time, however hard a text is to read
const EASY = 8; // ms of reading that any frame has

export function MarkdownDocument({ text, isOpen = false }) {
  const source = String(text ?? "").replace(/\r\n?/g, "\n");
  const state = useRef(null);
  state.current ??= { isLive: isOpen, seen: null, wasOpen: null, result: NOTHING, next: 0 };
  const { blocks, links } = current(state.current, source, isOpen);
  const [, setDrawn] = useState(0);
  const isBehind = state.current.seen !== source;
  useEffect(() => {
    if (!isBehind) return;
    const timer = setTimeout(() => setDrawn((count) => count + 1), state.current.next - performance.now());
    return () => clearTimeout(timer);
  });
  return html`<div class="markdown">
    ${blocks.map(
      ({ at, token, isSettled }) =>
        html`<${Block} key=${at} token=${token} links=${links} isSettled=${isSettled} isLive=${state.current.isLive} />`,
    )}
  </div>`;
}

function current(state, source, isOpen) {
  if (state.seen === source && state.wasOpen === isOpen) return state.result;
  const now = performance.now();
  if (isOpen && now < state.next) return state.result;
  state.result = read(state.result, source, isOpen);
  const cost = performance.now() - now;
  state.next = cost > EASY ? now + SHARE * cost : 0;
  state.seen = source;
  state.wasOpen = isOpen;
  return state.result;
}
