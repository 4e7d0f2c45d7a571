// Who is there: signing in, and the making of the first user behind the set-up link.

import { Problem, post, signedOut } from "../api.js";
import { html, useEffect, useRef, useState } from "../html.js";
import { go, route } from "../router.js";
import { t } from "../strings.js";

// The token stands in the fragment, which never reaches a server's log, and is not kept in the history.
const token = new URLSearchParams(location.hash.slice(1)).get("token");
if (token !== null) history.replaceState(null, "", location.pathname);

export function SignIn() {
  const isSetup = route.value.setup;
  const [problem, setProblem] = useState(null);
  const [isBusy, setBusy] = useState(false);
  const first = useRef();
  useEffect(() => {
    document.title = `${t(isSetup ? "set-up" : "sign-in")} · navi`;
    first.current.focus();
  }, [isSetup]);

  const submit = async (event) => {
    event.preventDefault();
    const { name, password } = Object.fromEntries(new FormData(event.target));
    setProblem(null);
    setBusy(true);
    try {
      await post(isSetup ? "/auth/setup" : "/auth/login", isSetup ? { token: token ?? "", name, password } : { name, password });
      signedOut.value = false;
      if (isSetup) go({});
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      setProblem(error.status === 0 ? t("no-answer") : error.message);
    } finally {
      setBusy(false);
    }
  };

  return html`
    <main class="sign-in">
      <form onSubmit=${submit}>
        <h1>navi</h1>
        ${isSetup && html`<p>${t("set-up-explained")}</p>`}
        <label>${t("name")}<input name="name" autocomplete="username" required maxlength="64" ref=${first} /></label>
        <label>
          ${t("password")}
          <input
            name="password"
            type="password"
            required
            autocomplete=${isSetup ? "new-password" : "current-password"}
            minlength=${isSetup ? 12 : undefined}
            maxlength="1024"
          />
        </label>
        ${isSetup && html`<p class="fine">${t("password-rule")}</p>`}
        <button class="primary" disabled=${isBusy}>${t(isSetup ? "set-up" : "sign-in")}</button>
        ${problem && html`<p role="alert" class="problem">${problem}</p>`}
      </form>
    </main>
  `;
}
