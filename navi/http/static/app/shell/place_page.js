// A page that is not about one session: its heading, the way back, and what is loaded for it.

import { BackIcon } from "../icons.js";
import { html } from "../html.js";
import { lazy } from "../lazy.js";
import { route } from "../router.js";
import { t } from "../strings.js";
import { placeName } from "./me_menu.js";
import { PageHeader } from "./page_header.js";
import { useTitle } from "./title.js";
import { goBack } from "./way_back.js";

const place = (load) => lazy(() => load().then((module) => module.Place));
const VIEW_OF = {
  usage: place(() => import("../places/usage.js")),
  memories: place(() => import("../places/memories.js")),
  health: place(() => import("../places/health.js")),
  users: place(() => import("../places/users.js")),
  audit: place(() => import("../places/audit.js")),
  settings: place(() => import("../places/settings.js")),
};

export function PlacePage() {
  const name = route.value.place;
  const title = placeName(name);
  useTitle(title);
  return html`
    <main class="session" key=${name}>
      <${PageHeader} title=${title}>
        <button class="plain" onClick=${goBack}><${BackIcon} />${t("back")}</button>
      <//>
      <div class="place" tabindex="0"><${VIEW_OF[name]} key=${name} /></div>
    </main>
  `;
}
