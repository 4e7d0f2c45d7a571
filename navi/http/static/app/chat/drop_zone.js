// Files that are dropped anywhere on the page.

import { html, useEffect, useRef, useState } from "../html.js";
import { t } from "../strings.js";

export function DropZone({ onFiles }) {
  const [isOver, setOver] = useState(false);
  const take = useRef();
  take.current = onFiles;
  useEffect(() => {
    const hasFiles = (event) => event.dataTransfer?.types.includes("Files");
    const over = (event) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      setOver(true);
    };
    const leave = (event) => {
      if (event.relatedTarget === null) setOver(false);
    };
    const drop = (event) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      setOver(false);
      take.current([...event.dataTransfer.files]);
    };
    const listening = new AbortController();
    for (const [type, listener] of Object.entries({ dragenter: over, dragover: over, dragleave: leave, drop })) {
      addEventListener(type, listener, { signal: listening.signal });
    }
    return () => listening.abort();
  }, []);
  return isOver && html`<div class="drop-zone">${t("drop-here")}</div>`;
}
