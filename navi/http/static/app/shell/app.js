// The whole page: the list of sessions, what is open, what goes on, and what went wrong.

import { close, status, trouble } from "../announce.js";
import { signedOut } from "../api.js";
import { html, useRef } from "../html.js";
import { lazy } from "../lazy.js";
import { route } from "../router.js";
import { t } from "../strings.js";
import { Connection } from "./connection.js";
import { Dialogs } from "./dialogs.js";
import { isOpen } from "./drawer.js";
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
      <${Lines} />
      <${Dialogs} />
    </div>
  `;
}

function Open() {
  const { place, sessionId } = route.value;
  if (place !== null) return html`<${PlacePage} />`;
  return sessionId === null ? html`<${StartPage} />` : html`<${SessionPage} />`;
}

/** What goes on, for screen readers; what went wrong, for everybody. */
function Lines() {
  const shown = trouble.value;
  const before = useRef(null);
  const shut = ({ currentTarget }) => {
    close();
    // The button goes. Not all browsers focus what is clicked: the focus may be elsewhere, and stays there.
    if (currentTarget === document.activeElement) before.current?.focus();
  };
  return html`
    <p role="status" class="hidden">${status}</p>
    ${shown &&
    html`
      <div
        role=${shown.mild ? "note" : "alert"}
        class=${shown.mild ? "trouble mild" : "trouble"}
        onFocusIn=${({ currentTarget, relatedTarget }) => {
          if (!currentTarget.contains(relatedTarget)) before.current = relatedTarget;
        }}
      >
        <span>${shown.text}</span>
        ${shown.actions.map(
          ({ name, run }) => html`<button
            onClick=${() => {
              close();
              run();
            }}
          >
            ${name}
          </button>`,
        )}
        <button class="plain" onClick=${shut}>${t("close")}</button>
      </div>
    `}
  `;
}
