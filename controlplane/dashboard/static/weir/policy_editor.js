// The text of a policy in the admin: line numbers, and what to correct while one writes. Without this script it is a plain text field.
"use strict";

const CHECK_AFTER_MS = 500;

function edit(field) {
  const box = document.createElement("div");
  box.style.cssText = "display: flex; align-items: stretch; width: 100%; max-width: 72rem";
  const gutter = document.createElement("pre");
  gutter.setAttribute("aria-hidden", "true");
  gutter.style.cssText = "margin: 0; overflow: hidden; text-align: right; user-select: none; color: var(--muted); flex: none";
  const problems = document.createElement("div");
  problems.setAttribute("role", "status");
  problems.style.cssText = "margin-top: 0.5rem; max-width: 72rem";
  field.replaceWith(box);
  box.append(gutter, field);
  box.after(problems);
  field.setAttribute("wrap", "off");
  field.style.maxWidth = "none";
  field.style.flex = "1";

  let wrong = new Set();
  const number = () => {
    const look = getComputedStyle(field);
    for (const name of ["fontFamily", "fontSize", "lineHeight", "paddingTop", "paddingBottom"]) gutter.style[name] = look[name];
    gutter.style.padding = `${look.paddingTop} 0.5rem ${look.paddingBottom} 0`;
    gutter.style.maxHeight = `${field.clientHeight}px`;
    const count = field.value.split("\n").length;
    gutter.textContent = Array.from({ length: count }, (_, at) => (wrong.has(at + 1) ? `✕ ${at + 1}` : `${at + 1}`)).join("\n");
    gutter.scrollTop = field.scrollTop;
  };
  const go = (line, column) => {
    const before = field.value.split("\n").slice(0, line - 1).join("\n");
    const at = before.length + (line > 1 ? 1 : 0) + column - 1;
    field.focus();
    field.setSelectionRange(at, at);
    field.scrollTop = (line - 4) * (field.scrollHeight / field.value.split("\n").length);
  };
  const show = (found) => {
    wrong = new Set(found.map((problem) => problem.line));
    const list = document.createElement("ul");
    list.append(
      ...found.map((problem) => {
        const item = document.createElement("li");
        const link = document.createElement("button");
        link.type = "button";
        link.textContent = `line ${problem.line}`;
        link.style.textDecoration = "underline";
        link.addEventListener("click", () => go(problem.line, problem.column));
        item.append("✕ ", link, ` ${problem.message}`);
        return item;
      }),
    );
    problems.replaceChildren(found.length ? list : "✓ Nothing to correct.");
    number();
  };

  let last = 0;
  const check = async () => {
    const mine = ++last;
    const token = field.form.querySelector("[name=csrfmiddlewaretoken]").value;
    const headers = { "Content-Type": "application/yaml", "X-CSRFToken": token };
    let found;
    try {
      const answer = await fetch("/api/v1/policy-files/check", { method: "POST", headers, body: field.value });
      if (!answer.ok) return;
      found = (await answer.json()).problems;
    } catch {
      return; // saving checks it again
    }
    if (mine === last) show(found);
  };
  let timer;
  field.addEventListener("input", () => {
    number();
    clearTimeout(timer);
    timer = setTimeout(check, CHECK_AFTER_MS);
  });
  field.addEventListener("scroll", () => (gutter.scrollTop = field.scrollTop));
  new ResizeObserver(number).observe(field);
  number();
  if (field.value.trim()) check();
}

document.addEventListener("DOMContentLoaded", () => document.querySelectorAll("textarea.weir-policy-text").forEach(edit));
