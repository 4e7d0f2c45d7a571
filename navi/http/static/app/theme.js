// Before anything is drawn: the theme that was chosen on this device, so that nothing flashes.
"use strict";
{
  let chosen = null;
  try {
    chosen = JSON.parse(localStorage.getItem("navi.theme"));
  } catch {
    // A browser that keeps nothing uses what the system says.
  }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
}
