// Markdown, which is read by modules that a page without a conversation does not need: until they are here
// the text stands as it was written.

import { html, useEffect, useRef, useState } from "../html.js";
import { notLoaded } from "../lazy.js";
import { onceUnmarked } from "../markdown/words.js";
import { stylesheet } from "../stylesheet.js";

let view = null; // that of `document.js`, once it is here
let loading = null;

/** Load what reads Markdown, before there is any. */
export function loadMarkdown() {
  loading ??= load();
  return loading;
}

async function load() {
  // Named together, they come together; where one is missing the text stays as it is, and the next one tries again.
  const modules = ["document.js", "block.js", "inline.js", "lex.js"].map((name) => import(`../markdown/${name}`));
  const look = stylesheet("../../style/markdown.css", import.meta.url);
  const [drawing] = await Promise.all([...modules, import("../../vendor/marked.js"), look]).catch(() => []);
  view = drawing?.MarkdownDocument ?? null;
  if (view) return;
  loading = null;
  notLoaded();
}

/** A text in Markdown; `isOpen` while it is being written. */
export function Markdown({ text, isOpen = false }) {
  const [Drawn, setDrawn] = useState(() => view);
  const box = useRef();
  useEffect(() => {
    if (Drawn) return;
    let isOver = false;
    let end = null;
    loadMarkdown().then(() => {
      if (view && !isOver) end = onceUnmarked(box.current, () => setDrawn(() => view));
    });
    return () => {
      isOver = true;
      end?.();
    };
  }, []);
  if (Drawn) return html`<${Drawn} text=${text} isOpen=${isOpen} />`;
  return html`<div class="markdown"><p class="as-written said" dir="auto" ref=${box}>${String(text ?? "")}</p></div>`;
}
