// A button that copies a text, and says that it did.

import { copy } from "../clipboard.js";
import { html, useEffect, useRef, useState } from "../html.js";
import { CheckIcon, CopyIcon } from "../icons.js";
import { t } from "../strings.js";

const SHOWN = 1500; // ms

/** A button of a name; with `isWordy` words stand in it beside its icon. */
export function CopyButton({ text, name = t("copy-text"), isWordy = false }) {
  const [isCopied, setCopied] = useState(false);
  const timer = useRef();
  useEffect(() => () => clearTimeout(timer.current), []);
  const onClick = async () => {
    if (!(await copy(text))) return;
    setCopied(true);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => setCopied(false), SHOWN);
  };
  const label = isCopied ? t("copied") : name;
  return html`<button
    type="button"
    class=${isWordy ? "plain copy" : "plain icon-only"}
    aria-label=${label}
    title=${isWordy ? undefined : label}
    onClick=${onClick}
  >
    <${isCopied ? CheckIcon : CopyIcon} />${isWordy && t(isCopied ? "copied" : "copy")}
  </button>`;
}
