// What navi remembers about whoever looks: searched, added, changed, forgotten, and where it came from.

import { patch, post, remove } from "../api.js";
import { focusBeside } from "../focus.js";
import { html, useEffect, useRef, useState } from "../html.js";
import { addressOf, follow } from "../router.js";
import { doing } from "../session/open_session.js";
import { ago, t, time } from "../strings.js";
import { Missing, useAnswer } from "./answer.js";

const WAIT = 300; // ms after the last letter of a search

export function Place() {
  const [query, setQuery] = useState("");
  const [asked, setAsked] = useState("");
  const [timer, setTimer] = useState(null);
  const [answer, again] = useAnswer(asked ? `/memories?${new URLSearchParams({ query: asked })}` : "/memories");
  const search = (text) => {
    setQuery(text);
    clearTimeout(timer);
    setTimer(setTimeout(() => setAsked(text.trim()), WAIT));
  };
  return html`
    <div class="place-body">
      <p class="fine">${t("memories-explained")}</p>
      <${NewMemory} onMade=${again} />
      <input type="search" aria-label=${t("memories-search")} placeholder=${t("memories-search")} value=${query} onInput=${({ target }) => search(target.value)} />
      ${answer?.memories
        ? html`
            <ul class="memories">
              ${answer.memories.map((memory) => html`<${Memory} key=${memory.id} memory=${memory} onChange=${again} />`)}
            </ul>
            ${answer.memories.length === 0 && html`<p class="empty">${t(asked ? "memories-not-found" : "memories-none")}</p>`}
          `
        : html`<${Missing} answer=${answer} again=${again} />`}
    </div>
  `;
}

function NewMemory({ onMade }) {
  const [text, setText] = useState("");
  const submit = async (event) => {
    event.preventDefault();
    if (text.trim() && (await doing(() => post("/memories", { text: text.trim() })))) {
      setText("");
      onMade();
    }
  };
  return html`
    <form class="actions" onSubmit=${submit}>
      <input class="wide" aria-label=${t("memory-new")} placeholder=${t("memory-new")} value=${text} onInput=${({ target }) => setText(target.value)} />
      <button disabled=${!text.trim()}>${t("memory-add")}</button>
    </form>
  `;
}

function Memory({ memory, onChange }) {
  const [edited, setEdited] = useState(null);
  const [field, button] = [useRef(), useRef()];
  const wasEdited = useRef(false);
  useEffect(() => {
    if (edited !== null) field.current.focus();
    else if (wasEdited.current) button.current.focus();
    wasEdited.current = edited !== null;
  }, [edited === null]);
  const path = `/memories/${encodeURIComponent(memory.id)}`;
  const place = { sessionId: memory.session_id, at: memory.source_seq };
  const save = async (event) => {
    event.preventDefault();
    if (await doing(() => patch(path, { text: edited.trim() }))) {
      setEdited(null);
      onChange();
    }
  };
  const forget = async ({ target }) => {
    if (!(await doing(() => remove(path)))) return;
    focusBeside(target.closest("li"), target.closest(".place-body"));
    onChange();
  };
  if (edited !== null) {
    return html`
      <li>
        <form class="actions" onSubmit=${save}>
          <input class="wide" aria-label=${t("memory-text")} value=${edited} ref=${field} onInput=${({ target }) => setEdited(target.value)} />
          <button class="primary" disabled=${!edited.trim()}>${t("save")}</button>
          <button type="button" onClick=${() => setEdited(null)}>${t("cancel")}</button>
        </form>
      </li>
    `;
  }
  return html`
    <li>
      <p dir="auto">${memory.text}</p>
      <div class="actions fine">
        <span title=${time(memory.at)}>${ago(memory.at)}</span>
        ${memory.source_seq !== null && html`<a href=${addressOf(place)} onClick=${(event) => follow(event, place)}>${t("memory-source")}</a>`}
        <button class="plain" ref=${button} onClick=${() => setEdited(memory.text)}>${t("edit")}</button>
        <button class="plain" onClick=${forget}>${t("forget")}</button>
      </div>
    </li>
  `;
}
