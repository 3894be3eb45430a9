// Two things that a style sheet cannot do: words beside the pointer, and light or dark by choice.
"use strict";
(() => {
  const tip = document.getElementById("tip");
  const told = new WeakMap();
  // Titles work without this script too, but slowly and not on a touch screen.
  for (const title of document.querySelectorAll("svg title")) {
    told.set(title.parentNode, title.textContent);
    title.remove();
  }
  const place = (event) => {
    const room = document.documentElement.clientWidth - tip.offsetWidth - 8;
    const above = event.clientY - tip.offsetHeight - 14;
    tip.style.left = Math.max(8, Math.min(event.clientX + 12, room)) + "px";
    tip.style.top = (above > 4 ? above : event.clientY + 18) + "px";
  };
  const show = (event) => {
    let node = event.target;
    while (node && node.nodeType === 1 && !told.has(node)) node = node.parentNode;
    tip.hidden = !(node && told.has(node));
    if (tip.hidden) return;
    const words = told.get(node);
    if (tip.dataset.words !== words) {
      tip.dataset.words = words;
      tip.replaceChildren(...words.split(" · ").map((line) => {
        const row = document.createElement("div");
        row.textContent = line;
        return row;
      }));
    }
    place(event);
  };
  document.addEventListener("pointermove", show, { passive: true });
  document.addEventListener("pointerdown", show, { passive: true });
  document.addEventListener("pointerleave", () => { tip.hidden = true; });
  document.addEventListener("scroll", () => { tip.hidden = true; }, { passive: true });

  const root = document.documentElement;
  const button = document.getElementById("theme");
  const dark = () => root.dataset.theme
    ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  const name = () => { button.textContent = dark() ? "Light" : "Dark"; };
  button.hidden = false;
  button.addEventListener("click", () => { root.dataset.theme = dark() ? "light" : "dark"; name(); });
  name();
})();
