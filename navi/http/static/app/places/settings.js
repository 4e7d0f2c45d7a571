// What is chosen on this device, and the password of whoever has one.

import { Problem, post } from "../api.js";
import { html, useState } from "../html.js";
import { THEMES, chooseEnterSends, chooseShortcuts, chooseTheme, enterSends, shortcuts, theme } from "../preferences.js";
import { hasLogin } from "../session/me.js";
import { languageName } from "../shell/commands.js";
import { openShortcuts } from "../shell/dialogs.js";
import { chooseLanguage, language, languages, t } from "../strings.js";

export function Place() {
  return html`
    <div class="settings">
      <fieldset>
        <legend>${t("theme")}</legend>
        <div class="choices">
          ${THEMES.map(
            (name) => html`
              <label class="choice">
                <input type="radio" name="theme" checked=${theme.value === name} onChange=${() => chooseTheme(name)} />
                ${t(`theme-${name}`)}
              </label>
            `,
          )}
        </div>
      </fieldset>
      <label>
        <b>${t("language")}</b>
        <select value=${language.value} onChange=${({ target }) => chooseLanguage(target.value)}>
          ${languages.map((name) => html`<option value=${name} lang=${name}>${languageName(name)}</option>`)}
        </select>
      </label>
      <fieldset>
        <legend>${t("keyboard")}</legend>
        <${Choice} name=${t("enter-sends")} text=${t("enter-sends-explained")} isOn=${enterSends.value} choose=${chooseEnterSends} />
        <${Choice} name=${t("shortcuts-on")} text=${t("shortcuts-explained")} isOn=${shortcuts.value} choose=${chooseShortcuts} />
        <p><button onClick=${openShortcuts}>${t("show-shortcuts")}</button></p>
      </fieldset>
      <p class="fine">${t("settings-kept")}</p>
      ${hasLogin.value && html`<${PasswordForm} />`}
    </div>
  `;
}

function Choice({ name, text, isOn, choose }) {
  return html`
    <label class="choice">
      <input type="checkbox" checked=${isOn} onChange=${({ target }) => choose(target.checked)} />
      <span>${name}<br /><span class="fine">${text}</span></span>
    </label>
  `;
}

function PasswordForm() {
  const [outcome, setOutcome] = useState(null);
  const submit = async (event) => {
    event.preventDefault();
    const form = event.target;
    try {
      await post("/auth/password", Object.fromEntries(new FormData(form)));
      form.reset();
      setOutcome({ text: t("password-changed") });
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      setOutcome({ isProblem: true, text: error.status === 0 ? t("no-answer") : error.message });
    }
  };
  return html`
    <form onSubmit=${submit}>
      <h2>${t("change-password")}</h2>
      <label>${t("password-old")}<input name="old" type="password" required maxlength="1024" autocomplete="current-password" /></label>
      <label>
        ${t("password-new")}
        <input name="new" type="password" required minlength="12" maxlength="1024" autocomplete="new-password" />
        <span class="fine">${t("password-rule")}</span>
      </label>
      <p class="actions"><button>${t("change-password")}</button></p>
      ${outcome && html`<p role=${outcome.isProblem ? "alert" : "note"} class=${outcome.isProblem ? "problem" : ""}>${outcome.text}</p>`}
    </form>
  `;
}
