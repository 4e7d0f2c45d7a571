// What is chosen on this device.

import { html } from "../html.js";
import { notLoaded } from "../lazy.js";
import { THEMES, chooseEnterSends, chooseShortcuts, chooseTheme, enterSends, shortcuts, theme } from "../preferences.js";
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
        <select value=${language.value} onChange=${({ target }) => chooseLanguage(target.value).catch(notLoaded)}>
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
