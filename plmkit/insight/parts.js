"use strict";
// What every page has: its data and words, elements, and the light or dark theme.
const data = JSON.parse(document.getElementById("data").textContent);
const { words } = data;
document.querySelector("h1").textContent = document.title;

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== false && value !== undefined) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children);
  return element;
}

function phrase(template, values) {
  return template.replace(/\{(\w+)\}/g, (_, name) => values[name]);
}

function followTheme(redraw = () => {}) {
  const root = document.documentElement, button = document.getElementById("theme"), dark = matchMedia("(prefers-color-scheme: dark)");
  const set = (theme) => {
    root.dataset.theme = theme;
    button.textContent = theme === "dark" ? words.light : words.dark;
    redraw();
  };
  set(dark.matches ? "dark" : "light");
  dark.addEventListener("change", () => set(dark.matches ? "dark" : "light"));
  button.addEventListener("click", () => set(root.dataset.theme === "dark" ? "light" : "dark"));
}

