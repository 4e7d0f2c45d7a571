// The state of a tool, a subagent or a step: a shape and a word.

import { html } from "../html.js";
import { CheckIcon, CircleIcon, CrossIcon, DeniedIcon, RunningIcon, SkippedIcon, UnknownIcon, WaitingIcon } from "../icons.js";
import { t } from "../strings.js";

const SHAPES = {
  waiting: WaitingIcon,
  running: RunningIcon,
  done: CheckIcon,
  failed: CrossIcon,
  denied: DeniedIcon,
  skipped: SkippedIcon,
  unknown: UnknownIcon,
  pending: CircleIcon,
  in_progress: RunningIcon,
};

export function StateShape({ state }) {
  return html`<span class="shape" data-state=${state}><${SHAPES[state] ?? UnknownIcon} /></span>`;
}

export function StateWord({ state }) {
  return html`<span class="state" data-state=${state}>${t(`state-${state}`)}</span>`;
}
