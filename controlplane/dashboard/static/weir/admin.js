// The admin: names for what Django leaves unnamed, and fields that depend on another one.
"use strict";
(() => {
  const text = (node) => (node ? node.textContent.replace(/\s+/g, " ").trim().replace(/[:*?]+$/, "").trim() : "");

  /** A control without a label is named after its column, or after the row of the form that it stands in. */
  function name(root) {
    for (const control of root.querySelectorAll("input:not([type=hidden], [type=submit], [type=button]), select, textarea")) {
      if (control.labels.length || control.hasAttribute("aria-label")) continue;
      const cell = control.closest("td");
      const head = cell && cell.closest("table").querySelector("thead tr");
      const row = control.closest(".form-row");
      const own = row && text(row.querySelector("label, legend"));
      const part = control.classList.contains("vDateField") ? ", date" : control.classList.contains("vTimeField") ? ", time" : "";
      const said = (head && head.cells[cell.cellIndex] ? text(head.cells[cell.cellIndex]) : own) || control.name.replaceAll("_", " ");
      control.setAttribute("aria-label", said + part);
    }
    for (const rows of root.querySelectorAll(".inline-related.tabular")) rows.tabIndex = 0; // it scrolls
    for (const icon of root.querySelectorAll("span.help-tooltip[aria-label]")) icon.setAttribute("role", "img");
    for (const head of root.querySelectorAll(".tabular th:empty")) head.innerHTML = '<span class="unseen">row</span>';
    for (const select of root.querySelectorAll("select.admin-autocomplete")) {
      const box = select.nextElementSibling && select.nextElementSibling.querySelector(".select2-selection");
      if (!box) continue;
      for (const part of [box, box.querySelector("[role=textbox]")]) if (part) part.setAttribute("aria-label", text(select.labels[0]) || select.getAttribute("aria-label"));
      const shown = box.getAttribute("aria-labelledby");
      if (shown) box.setAttribute("aria-describedby", shown);
      box.removeAttribute("aria-labelledby");
    }
  }

  function depend() {
    for (const control of document.querySelectorAll("[data-shown-when]")) {
      const holds = control.dataset.shownWhen.split(" ").every((condition) => {
        const [field, value] = condition.split("=");
        const other = document.getElementById(`id_${field}`);
        return !other || (value === undefined ? other.value !== "" : other.value === value);
      });
      const row = control.closest(".form-row");
      if (row) row.hidden = !holds;
    }
  }

  // Burn windows as a table, each with what it means. The field keeps its JSON, which is what is saved.
  const LENGTH = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const length = (s) => { const [size, unit] = LENGTH.find(([each]) => s >= each && s % each === 0) || [1, "s"]; return `${s / size} ${unit}`; };
  function meaning({ severity, long_s: long, short_s: short, budget_share: share }) {
    const period = Number((document.getElementById("id_period_s") || {}).value) || 2592000;
    const rate = (share * period) / long;
    if (!(rate > 0)) return "not complete";
    return `a ${severity} when more than ${Number((share * 100).toPrecision(3))} % of the budget goes in ${length(long)} and still in the last ${length(short)}: `
      + `a burn rate above ${Number(rate.toPrecision(3))}, at which the whole budget lasts ${length(Math.round(period / rate / 3600) * 3600 || Math.round(period / rate))}`;
  }
  function windows(field) {
    let rows;
    try { rows = JSON.parse(field.value); } catch { return; }
    if (!Array.isArray(rows)) return;
    const table = document.createElement("table");
    table.className = "windows";
    const write = () => { field.value = JSON.stringify(rows); };
    function cell(row, key, index) {
      const control = document.createElement(key === "severity" ? "select" : "input");
      if (key === "severity") control.append(new Option("page"), new Option("ticket"));
      else Object.assign(control, { type: "number", min: 0, step: "any" });
      control.value = key === "budget_share" ? Number((row[key] * 100).toPrecision(6)) : row[key];
      control.setAttribute("aria-label", `${HEADS[key]}, window ${index + 1}`);
      control.addEventListener("input", () => {
        row[key] = key === "severity" ? control.value : Number(control.value) / (key === "budget_share" ? 100 : 1);
        control.closest("tr").lastElementChild.previousElementSibling.textContent = meaning(row);
        write();
      });
      return control;
    }
    const HEADS = { severity: "severity", long_s: "long window, s", short_s: "short window, s", budget_share: "of the budget, %" };
    function button(text, label, act) {
      const made = Object.assign(document.createElement("button"), { type: "button", textContent: text });
      made.setAttribute("aria-label", label);
      made.addEventListener("click", () => { act(); write(); draw(); });
      return made;
    }
    function draw() {
      table.replaceChildren();
      const head = table.createTHead().insertRow();
      for (const text of [...Object.values(HEADS), "means", "change"]) { const th = document.createElement("th"); th.scope = "col"; th.textContent = text; head.append(th); }
      const body = table.createTBody();
      rows.forEach((row, index) => {
        const line = body.insertRow();
        for (const key of Object.keys(HEADS)) line.insertCell().append(cell(row, key, index));
        line.insertCell().textContent = meaning(row);
        line.insertCell().append(button("Remove", `Remove window ${index + 1}`, () => rows.splice(index, 1)));
      });
      const last = body.insertRow().insertCell();
      last.colSpan = 6;
      last.append(button("Add a window", "Add a window", () => rows.push({ severity: "ticket", long_s: 86400, short_s: 7200, budget_share: 0.1 })));
    }
    draw();
    field.hidden = true;
    field.after(table);
    const period = document.getElementById("id_period_s");
    if (period) period.addEventListener("change", draw);
  }
  for (const field of document.querySelectorAll("textarea[name=windows]")) windows(field);

  const places = document.querySelector(".places");
  if (places && matchMedia("(max-width: 900px)").matches) places.open = false;
  depend();
  // Django builds some controls when its jQuery is ready, and others at the load event: after both.
  const ready = window.django && django.jQuery ? django.jQuery : (act) => act();
  addEventListener("load", () => ready(() => name(document)));
  document.addEventListener("formset:added", (event) => setTimeout(() => name(event.target)));
  document.addEventListener("change", depend);
})();
