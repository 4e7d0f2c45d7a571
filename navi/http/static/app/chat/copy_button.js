// A button that copies a text, and says that it did.

import { complain } from "../announce.js";
import { html, useState } from "../html.js";
import { CheckIcon, CopyIcon } from "../icons.js";
import { t } from "../strings.js";

const SHOWN = 1500; // ms

export function CopyButton({ text }) {
  const [isCopied, setCopied] = useState(false);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setCopied(true);
      setTimeout(() => setCopied(false), SHOWN);
    } catch {
      complain(t("not-copied")); // browsers only let pages copy that came over https, or from this machine
    }
  };
  const name = t(isCopied ? "copied" : "copy-text");
  return html`<button class="plain icon-only" aria-label=${name} title=${name} onClick=${copy}>
    <${isCopied ? CheckIcon : CopyIcon} />
  </button>`;
}
