// Code: what language it is in, a button that copies it, and highlighting once it is whole.

import { html, useEffect, useRef, useState } from "../html.js";
import { highlighted, isKnown } from "../markdown/highlight.js";
import { Words, onceUnmarked } from "../markdown/words.js";
import { t } from "../strings.js";
import { CopyButton } from "./copy_button.js";

const LONGEST_NAME = 24; // characters of a language

/** Code; `isSettled` once it changes no more, `isLive` where it did while it was shown. */
export function CodeBlock({ code, language = "", isSettled = true, isLive = false }) {
  const name = String(language).trim().split(/[\s{,:]/)[0].slice(0, LONGEST_NAME);
  const box = useRef();
  const [colours, setColours] = useState(null);
  const known = isKnown(name.toLowerCase());
  useEffect(() => {
    if (!isSettled || !known) return;
    let isOver = false;
    let end = null;
    highlighted(code, name.toLowerCase()).then(
      (nodes) => {
        if (nodes && !isOver && box.current) end = onceUnmarked(box.current, () => setColours({ code, nodes }));
      },
      () => {}, // files that are gone: the code is read without colours, too
    );
    return () => {
      isOver = true;
      end?.();
    };
  }, [code, name, isSettled]);
  const shown = colours?.code === code ? html`<code key="colours">${colours.nodes}</code>` : html`<code key="plain">${isLive ? html`<${Words} text=${code} />` : code}</code>`;
  return html`
    <div class="code-block">
      <div class="code-head"><span class="fine" dir="ltr">${name}</span><${CopyButton} text=${code} name=${t("copy-code")} isWordy /></div>
      <pre tabindex="0" dir="ltr" ref=${box}>${shown}</pre>
    </div>
  `;
}
