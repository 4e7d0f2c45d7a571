// Views that are loaded when they are first looked at, so that the first load stays small.

import { complain } from "./announce.js";
import { html, useEffect, useState } from "./html.js";
import { t } from "./strings.js";

/**
 * A view that is loaded when it is first drawn: `lazy(() => import("./x.js").then((m) => m.X))`; `isQuiet`
 * if nothing but its children shall stand in its place until then.
 *
 * A file that is no longer there, because navi was updated, is told with a way to load the page again.
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
        () => complain(t("not-loaded"), { name: t("load-again"), run: () => location.reload() }),
      );
    }, []);
    if (View) return html`<${View} ...${properties} />`;
    return isQuiet ? properties.children : html`<div class="empty">${t("loading")}</div>`;
  };
}
