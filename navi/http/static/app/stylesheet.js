// The look of views that are loaded when they are first looked at.

/** Load a stylesheet, named from the module that asks for it; done when it counts, or cannot be had. */
export function stylesheet(path, from) {
  const href = new URL(path, from).href;
  return new Promise((resolve) => {
    const link = Object.assign(document.createElement("link"), { rel: "stylesheet", href });
    link.onload = link.onerror = resolve;
    document.head.append(link);
  });
}
