// Views that are loaded when they are first looked at, so that the first load stays small.

import { complain } from "./announce.js";
import { html, useEffect, useState } from "./html.js";
import { t } from "./strings.js";

/** Tell of a file that is no longer there, because navi was updated, with a way to load the page again. */
export function notLoaded() {
  complain(t("not-loaded"), { name: t("load-again"), run: () => location.reload() });
  return false;
}

/**
 * A view that is loaded when it is first drawn: `lazy(() => import("./x.js").then((m) => m.X))`; `isQuiet`
 * if nothing but its children shall stand in its place until then.
 */
export function lazy(load, { isQuiet = false } = {}) {
  let loaded = null;
  return function Lazy(properties) {
    const [View, setView] = useState(() => loaded);
    useEffect(() => {
      if (View) return;
      load().then(
        (view) => {
          loaded = view;
          setView(() => view);
        },
        notLoaded,
      );
    }, []);
    if (View) return html`<${View} ...${properties} />`;
    return isQuiet ? properties.children : html`<div class="empty">${t("loading")}</div>`;
  };
}
