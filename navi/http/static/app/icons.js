// The icons of the page, from Lucide (https://lucide.dev, ISC): 16 px, lines of about 1.5 px, and never without a
// name beside them or on their button.

import { html } from "./html.js";

function icon(...shapes) {
  return () => html`
    <svg
      class="icon"
      width="16"
      height="16"
      viewBox="0 0 24 24"
      fill="none"
      stroke="currentColor"
      stroke-width="2"
      stroke-linecap="round"
      stroke-linejoin="round"
      aria-hidden="true"
    >
      ${shapes.map((shape) => html`<path d=${shape} />`)}
    </svg>
  `;
}

export const AlertIcon = icon("M2 12a10 10 0 1 0 20 0 10 10 0 1 0-20 0", "M12 8L12 12", "M12 16L12.01 16");
export const AuditIcon = icon("M15 12h-5", "M15 8h-5", "M19 17V5a2 2 0 0 0-2-2H4", "M8 21h12a2 2 0 0 0 2-2v-1a1 1 0 0 0-1-1H11a1 1 0 0 0-1 1v1a2 2 0 1 1-4 0V5a2 2 0 1 0-4 0v2a1 1 0 0 0 1 1h3");
export const BackIcon = icon("m12 19-7-7 7-7", "M19 12H5");
export const BotIcon = icon("M12 8V4H8", "M6 8h12a2 2 0 0 1 2 2v8a2 2 0 0 1-2 2H6a2 2 0 0 1-2-2v-8a2 2 0 0 1 2-2z", "M2 14h2", "M20 14h2", "M15 13v2", "M9 13v2");
export const CheckIcon = icon("M20 6 9 17l-5-5");
export const ChevronIcon = icon("m9 18 6-6-6-6");
export const CircleIcon = icon("M2 12a10 10 0 1 0 20 0 10 10 0 1 0-20 0");
export const CommandsIcon = icon("M15 6v12a3 3 0 1 0 3-3H6a3 3 0 1 0 3 3V6a3 3 0 1 0-3 3h12a3 3 0 1 0-3-3");
export const CopyIcon = icon("M10 8h10a2 2 0 0 1 2 2v10a2 2 0 0 1-2 2H10a2 2 0 0 1-2-2V10a2 2 0 0 1 2-2z", "M4 16c-1.1 0-2-.9-2-2V4c0-1.1.9-2 2-2h10c1.1 0 2 .9 2 2");
export const CrossIcon = icon("M18 6 6 18", "m6 6 12 12");
export const DeniedIcon = icon("M2 12a10 10 0 1 0 20 0 10 10 0 1 0-20 0", "m4.9 4.9 14.2 14.2");
export const DownIcon = icon("M12 5v14", "m19 12-7 7-7-7");
export const FileIcon = icon("M6 22a2 2 0 0 1-2-2V4a2 2 0 0 1 2-2h8a2.4 2.4 0 0 1 1.704.706l3.588 3.588A2.4 2.4 0 0 1 20 8v12a2 2 0 0 1-2 2z", "M14 2v5a1 1 0 0 0 1 1h5");
export const FoldIcon = icon("m7 20 5-5 5 5", "m7 4 5 5 5-5");
export const ForkIcon = icon("M6 3v12", "M15 6a3 3 0 1 0 6 0 3 3 0 1 0-6 0", "M3 18a3 3 0 1 0 6 0 3 3 0 1 0-6 0", "M18 9a9 9 0 0 1-9 9");
export const HealthIcon = icon("M22 12h-2.48a2 2 0 0 0-1.93 1.46l-2.35 8.36a.25.25 0 0 1-.48 0L9.24 2.18a.25.25 0 0 0-.48 0l-2.35 8.36A2 2 0 0 1 4.49 12H2");
export const KeyboardIcon = icon("M10 8h.01", "M12 12h.01", "M14 8h.01", "M16 12h.01", "M18 8h.01", "M6 8h.01", "M7 16h10", "M8 12h.01", "M4 4h16a2 2 0 0 1 2 2v12a2 2 0 0 1-2 2h-16a2 2 0 0 1-2-2v-12a2 2 0 0 1 2-2z");
export const MemoriesIcon = icon("M12 18V5", "M15 13a4.17 4.17 0 01-3-4 4.17 4.17 0 01-3 4", "M17.707 6.294A3 3 0 1012 5a3 3 0 10-5.707 1.294", "M17.996 5.125a4 4 0 012.526 5.77", "M18 18a4 4 0 002-7.465", "M19.967 17.482a4 4 0 11-7.967.517 4 4 0 11-7.967-.517", "M6 18a4 4 0 01-2-7.465", "M6.004 5.125a4 4 0 00-2.526 5.77");
export const MenuIcon = icon("M4 5h16", "M4 12h16", "M4 19h16");
export const MoreIcon = icon("M11 12a1 1 0 1 0 2 0 1 1 0 1 0-2 0", "M18 12a1 1 0 1 0 2 0 1 1 0 1 0-2 0", "M4 12a1 1 0 1 0 2 0 1 1 0 1 0-2 0");
export const OfflineIcon = icon("M12 20h.01", "M8.5 16.429a5 5 0 0 1 7 0", "M5 12.859a10 10 0 0 1 5.17-2.69", "M19 12.859a10 10 0 0 0-2.007-1.523", "M2 8.82a15 15 0 0 1 4.177-2.643", "M22 8.82a15 15 0 0 0-11.288-3.764", "m2 2 20 20");
export const OutsideIcon = icon("M7 7h10v10", "M7 17 17 7");
export const PaperclipIcon = icon("m16 6-8.414 8.586a2 2 0 0 0 2.829 2.829l8.414-8.586a4 4 0 1 0-5.657-5.657l-8.379 8.551a6 6 0 1 0 8.485 8.485l8.379-8.551");
export const PencilIcon = icon("M21.174 6.812a1 1 0 0 0-3.986-3.987L3.842 16.174a2 2 0 0 0-.5.83l-1.321 4.352a.5.5 0 0 0 .623.622l4.353-1.32a2 2 0 0 0 .83-.497z", "m15 5 4 4");
export const PersonIcon = icon("M2 12a10 10 0 1 0 20 0 10 10 0 1 0-20 0", "M9 10a3 3 0 1 0 6 0 3 3 0 1 0-6 0", "M7 20.662V19a2 2 0 0 1 2-2h6a2 2 0 0 1 2 2v1.662");
export const PictureIcon = icon("M5 3h14a2 2 0 0 1 2 2v14a2 2 0 0 1-2 2H5a2 2 0 0 1-2-2V5a2 2 0 0 1 2-2z", "M7 9a2 2 0 1 0 4 0 2 2 0 1 0-4 0", "m21 15-3.086-3.086a2 2 0 0 0-2.828 0L6 21");
export const PinIcon = icon("M12 17v5", "M9 10.76a2 2 0 0 1-1.11 1.79l-1.78.9A2 2 0 0 0 5 15.24V16a1 1 0 0 0 1 1h12a1 1 0 0 0 1-1v-.76a2 2 0 0 0-1.11-1.79l-1.78-.9A2 2 0 0 1 15 10.76V7a1 1 0 0 1 1-1 2 2 0 0 0 0-4H8a2 2 0 0 0 0 4 1 1 0 0 1 1 1z");
export const PinOffIcon = icon("M12 17v5", "M15 9.34V7a1 1 0 0 1 1-1 2 2 0 0 0 0-4H7.89", "m2 2 20 20", "M9 9v1.76a2 2 0 0 1-1.11 1.79l-1.78.9A2 2 0 0 0 5 15.24V16a1 1 0 0 0 1 1h11");
export const PlanIcon = icon("M13 5h8", "M13 12h8", "M13 19h8", "m3 17 2 2 4-4", "m3 7 2 2 4-4");
export const PlusIcon = icon("M5 12h14", "M12 5v14");
export const RetryIcon = icon("M3 12a9 9 0 1 0 9-9 9.75 9.75 0 0 0-6.74 2.74L3 8", "M3 3v5h5");
export const RunningIcon = icon("M21 12a9 9 0 1 1-6.219-8.56");
export const SearchIcon = icon("m21 21-4.34-4.34", "M3 11a8 8 0 1 0 16 0 8 8 0 1 0-16 0");
export const SettingsIcon = icon("M9.671 4.136a2.34 2.34 0 0 1 4.659 0 2.34 2.34 0 0 0 3.319 1.915 2.34 2.34 0 0 1 2.33 4.033 2.34 2.34 0 0 0 0 3.831 2.34 2.34 0 0 1-2.33 4.033 2.34 2.34 0 0 0-3.319 1.915 2.34 2.34 0 0 1-4.659 0 2.34 2.34 0 0 0-3.32-1.915 2.34 2.34 0 0 1-2.33-4.033 2.34 2.34 0 0 0 0-3.831A2.34 2.34 0 0 1 6.35 6.051a2.34 2.34 0 0 0 3.319-1.915", "M9 12a3 3 0 1 0 6 0 3 3 0 1 0-6 0");
export const SignOutIcon = icon("m16 17 5-5-5-5", "M21 12H9", "M9 21H5a2 2 0 0 1-2-2V5a2 2 0 0 1 2-2h4");
export const SkippedIcon = icon("M5 12h14");
export const ThinkingIcon = icon("M15 14c.2-1 .7-1.7 1.5-2.5 1-.9 1.5-2.2 1.5-3.5A6 6 0 0 0 6 8c0 1 .2 2.2 1.5 3.5.7.7 1.3 1.5 1.5 2.5", "M9 18h6", "M10 22h4");
export const TrashIcon = icon("M10 11v6", "M14 11v6", "M19 6v14a2 2 0 0 1-2 2H7a2 2 0 0 1-2-2V6", "M3 6h18", "M8 6V4a2 2 0 0 1 2-2h4a2 2 0 0 1 2 2v2");
export const UndoIcon = icon("M9 14 4 9l5-5", "M4 9h10.5a5.5 5.5 0 0 1 5.5 5.5a5.5 5.5 0 0 1-5.5 5.5H11");
export const UnknownIcon = icon("M2 12a10 10 0 1 0 20 0 10 10 0 1 0-20 0", "M9.09 9a3 3 0 0 1 5.83 1c0 2-3 3-3 3", "M12 17h.01");
export const UsageIcon = icon("M3 3v16a2 2 0 0 0 2 2h16", "M18 17V9", "M13 17V5", "M8 17v-3");
export const UsersIcon = icon("M16 21v-2a4 4 0 0 0-4-4H6a4 4 0 0 0-4 4v2", "M16 3.128a4 4 0 0 1 0 7.744", "M22 21v-2a4 4 0 0 0-3-3.87", "M5 7a4 4 0 1 0 8 0 4 4 0 1 0-8 0");
export const WaitingIcon = icon("M2 12a10 10 0 1 0 20 0 10 10 0 1 0-20 0", "M12 6v6l4 2");
