// A button that copies a text, and says that it did.

import { copy } from "../clipboard.js";
import { html, useState } from "../html.js";
import { CheckIcon, CopyIcon } from "../icons.js";
import { t } from "../strings.js";

const SHOWN = 1500; // ms

export function CopyButton({ text }) {
  const [isCopied, setCopied] = useState(false);
  const onClick = async () => {
    if (!(await copy(text))) return;
    setCopied(true);
    setTimeout(() => setCopied(false), SHOWN);
  };
  const name = t(isCopied ? "copied" : "copy-text");
  return html`<button class="plain icon-only" aria-label=${name} title=${name} onClick=${onClick}>
    <${isCopied ? CheckIcon : CopyIcon} />
  </button>`;
}
