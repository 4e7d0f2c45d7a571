// Who is there: signing in, and the making of the first user behind the set-up link.

import { Problem, post } from "../api.js";
import { html, useEffect, useRef, useState } from "../html.js";
import { go, route } from "../router.js";
import { me, signedIn } from "../session/me.js";
import { t } from "../strings.js";
import { stylesheet } from "../stylesheet.js";
import { useTitle } from "./title.js";

// The token stands in the fragment, which never reaches a server's log, and is not kept in the history.
const token = new URLSearchParams(location.hash.slice(1)).get("token");
if (token !== null) history.replaceState(null, "", location.pathname);

await stylesheet("../../style/sign_in.css", import.meta.url);

const TOO_MANY = 429;

export function SignIn() {
  const isSetup = route.value.setup;
  const [problem, setProblem] = useState(null);
  const [isBusy, setBusy] = useState(false);
  const wait = useCountdown();
  const [first, password] = [useRef(), useRef()];
  useTitle(t(isSetup ? "set-up" : "sign-in"));
  useEffect(() => (first.current.value ? password : first).current.focus(), [isSetup]);

  const submit = async (event) => {
    event.preventDefault();
    const who = Object.fromEntries(new FormData(event.target));
    setProblem(null);
    setBusy(true);
    try {
      if (isSetup) await post("/auth/setup", { token: token ?? "", ...who });
      else await post("/auth/login", who);
      if (isSetup) go({});
      await signedIn();
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      if (error.status === TOO_MANY && error.retryAfter) wait.begin(error.retryAfter);
      setProblem(error.message);
      setBusy(false);
      password.current.select();
    }
  };

  return html`
    <main class="sign-in">
      <form onSubmit=${submit}>
        <h1>navi</h1>
        <p>${t(isSetup ? "set-up-explained" : me.value ? "sign-in-again" : "sign-in-explained")}</p>
        ${isSetup && token === null && html`<p class="problem">${t("set-up-without-token")}</p>`}
        <label>
          ${t("name")}
          <input name="name" autocomplete="username" required maxlength="64" defaultValue=${me.value?.name ?? ""} ref=${first} />
        </label>
        <label>
          ${t("password")}
          <input
            ref=${password}
            name="password"
            type="password"
            required
            autocomplete=${isSetup ? "new-password" : "current-password"}
            aria-describedby=${isSetup ? "password-rule" : undefined}
            minlength=${isSetup ? 12 : undefined}
            maxlength="1024"
          />
        </label>
        ${isSetup && html`<p id="password-rule" class="fine">${t("password-rule")}</p>`}
        <button class="primary" disabled=${isBusy || wait.seconds > 0}>${t(isSetup ? "set-up" : "sign-in")}</button>
        ${problem && html`<p role="alert" class="problem">${problem}</p>`}
        ${wait.seconds > 0 && html`<p class="fine">${t("again-in", { seconds: wait.seconds })}</p>`}
      </form>
    </main>
  `;
}

/** Seconds that go by: `{seconds, begin(seconds)}`. */
function useCountdown() {
  const [seconds, setSeconds] = useState(0);
  useEffect(() => {
    if (!seconds) return;
    const timer = setTimeout(() => setSeconds(seconds - 1), 1000);
    return () => clearTimeout(timer);
  }, [seconds]);
  return { seconds, begin: (from) => setSeconds(Math.ceil(from)) };
}
