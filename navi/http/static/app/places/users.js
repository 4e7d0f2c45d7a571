// Who may use this navi, for admins; and everybody's own tokens and password.

import { patch, post, remove } from "../api.js";
import { focusBeside } from "../focus.js";
import { html, useState } from "../html.js";
import { isAdmin, me } from "../session/me.js";
import { doing } from "../session/open_session.js";
import { ago, t, time } from "../strings.js";
import { Missing, useAnswer } from "./answer.js";

export function Place() {
  return html`
    <div class="place-body">
      ${isAdmin.value && html`<${Users} />`}
      <${Tokens} />
      <${Password} />
    </div>
  `;
}

function Users() {
  const [answer, again] = useAnswer("/users");
  if (!answer?.users) return html`<${Missing} answer=${answer} again=${again} />`;
  const change = async (user, body) => {
    const isDone = await doing(() => patch(`/users/${user.id}`, body));
    if (isDone) again();
    return isDone;
  };
  return html`
    <section aria-label=${t("users")}>
      <h2>${t("users")}</h2>
      <div class="scroll">
        <table>
          <thead>
            <tr>
              <th scope="col">${t("name")}</th>
              <th scope="col">${t("role")}</th>
              <th scope="col">${t("user-since")}</th>
              <th scope="col"><span class="hidden">${t("actions")}</span></th>
            </tr>
          </thead>
          <tbody>
            ${answer.users.map(
              (user) => html`
                <tr key=${user.id}>
                  <th scope="row">${user.name}${user.disabled && html` <span class="fine">${t("user-disabled")}</span>`}</th>
                  <td>
                    <select
                      aria-label=${t("role-of", { name: user.name })}
                      value=${user.role}
                      disabled=${user.id === me.value?.id}
                      onChange=${async ({ target }) => {
                        if (!(await change(user, { role: target.value }))) target.value = user.role;
                      }}
                    >
                      <option value="user">${t("role-user")}</option>
                      <option value="admin">${t("role-admin")}</option>
                    </select>
                  </td>
                  <td title=${time(user.created_at)}>${ago(user.created_at)}</td>
                  <td>
                    ${user.id !== me.value?.id &&
                    html`<button aria-label=${t(user.disabled ? "enable-user" : "disable-user", { name: user.name })} onClick=${() => change(user, { disabled: !user.disabled })}>
                      ${t(user.disabled ? "enable" : "disable")}
                    </button>`}
                  </td>
                </tr>
              `,
            )}
          </tbody>
        </table>
      </div>
      <${NewUser} onMade=${again} />
    </section>
  `;
}

function NewUser({ onMade }) {
  const submit = async (event) => {
    event.preventDefault();
    const form = event.target;
    const { name, password, role } = Object.fromEntries(new FormData(form));
    if (await doing(() => post("/users", { name, password, role }))) {
      form.reset();
      onMade();
    }
  };
  return html`
    <form class="actions" aria-label=${t("user-new")} onSubmit=${submit}>
      <label>${t("name")}<input name="name" required maxlength="64" autocomplete="off" /></label>
      <label>${t("password")}<input name="password" type="password" required minlength="12" autocomplete="new-password" /></label>
      <label>
        ${t("role")}
        <select name="role">
          <option value="user">${t("role-user")}</option>
          <option value="admin">${t("role-admin")}</option>
        </select>
      </label>
      <button>${t("user-add")}</button>
    </form>
  `;
}

function Tokens() {
  const [answer, again] = useAnswer("/auth/tokens");
  const [made, setMade] = useState(null);
  const revoke = async ({ id }, { target }) => {
    if (!(await doing(() => remove(`/auth/tokens/${id}`)))) return;
    focusBeside(target.closest("li"), target.closest("section"));
    again();
  };
  if (!answer?.tokens) return html`<${Missing} answer=${answer} again=${again} />`;
  const submit = async (event) => {
    event.preventDefault();
    const form = event.target;
    const { name, scope } = Object.fromEntries(new FormData(form));
    const token = await doing(() => post("/auth/tokens", { name, scopes: [scope] }));
    if (!token) return;
    form.reset();
    setMade(token.token);
    again();
  };
  return html`
    <section aria-label=${t("tokens")}>
      <h2>${t("tokens")}</h2>
      <p class="fine">${t("tokens-explained")}</p>
      ${made && html`<p class="shown-once">${t("token-once")} <code tabindex="0">${made}</code></p>`}
      <ul class="tokens">
        ${answer.tokens.map(
          (token) => html`
            <li key=${token.id}>
              <b>${token.name}</b> <span class="fine">${token.scopes.join(", ")} · ${token.used_at ? t("token-used", { ago: ago(token.used_at) }) : t("token-unused")}</span>
              <button aria-label=${t("revoke-token", { name: token.name })} onClick=${(event) => revoke(token, event)}>${t("revoke")}</button>
            </li>
          `,
        )}
      </ul>
      <form class="actions" aria-label=${t("token-new")} onSubmit=${submit}>
        <label>${t("token-for")}<input name="name" required maxlength="64" /></label>
        <label>
          ${t("token-scope")}
          <select name="scope">
            <option value="chat">${t("scope-chat")}</option>
            <option value="read">${t("scope-read")}</option>
            ${isAdmin.value && html`<option value="admin">${t("scope-admin")}</option>`}
          </select>
        </label>
        <button>${t("token-add")}</button>
      </form>
    </section>
  `;
}

function Password() {
  const [isDone, setDone] = useState(false);
  const submit = async (event) => {
    event.preventDefault();
    const form = event.target;
    const { old, new: next } = Object.fromEntries(new FormData(form));
    const done = await doing(() => post("/auth/password", { old, new: next }, { hasPassword: true }));
    if (done) form.reset();
    setDone(Boolean(done));
  };
  return html`
    <section aria-label=${t("password-change")}>
      <h2>${t("password-change")}</h2>
      <form class="actions" onSubmit=${submit}>
        <label>${t("password-old")}<input name="old" type="password" required autocomplete="current-password" /></label>
        <label>${t("password-new")}<input name="new" type="password" required minlength="12" autocomplete="new-password" /></label>
        <button>${t("password-change")}</button>
      </form>
      ${isDone && html`<p class="fine">${t("password-changed")}</p>`}
    </section>
  `;
}
