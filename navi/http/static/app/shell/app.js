// The whole page: the list of sessions, what is open, what goes on, and what went wrong.

import { signedOut } from "../api.js";
import { html } from "../html.js";
import { lazy } from "../lazy.js";
import { route } from "../router.js";
import { Connection } from "./connection.js";
import { Dialogs, modals } from "./dialogs.js";
import { isOpen } from "./drawer.js";
import { Lines } from "./lines.js";
import { SessionPage } from "./session_page.js";
import "./shortcuts.js";
import { Sidebar } from "./sidebar.js";
import { StartPage } from "./start_page.js";
import "./way_back.js";

const PlacePage = lazy(() => import("./place_page.js").then((module) => module.PlacePage));
const SignIn = lazy(() => import("./sign_in.js").then((module) => module.SignIn), { isQuiet: true });

export function App() {
  if (route.value.setup || signedOut.value) return html`<${SignIn} /><${Lines} />`;
  return html`
    <div class="app">
      <${Sidebar} />
      <div class="page" inert=${isOpen()}>
        <${Connection} />
        <${Open} />
      </div>
      ${modals.value === 0 && html`<${Lines} />`}
      <${Dialogs} />
    </div>
  `;
}

function Open() {
  const { place, sessionId } = route.value;
  if (place !== null) return html`<${PlacePage} />`;
  return sessionId === null ? html`<${StartPage} />` : html`<${SessionPage} />`;
}
