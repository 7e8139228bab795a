// On every page: theme, keyboard, dialogs, partial navigation, freshness, live updates. No framework; htmx swaps fragments.
"use strict";
(() => {
  const root = document.documentElement;
  const byId = (id) => document.getElementById(id);
  const data = byId("data");

  // Theme: the reader's choice in a cookie, so that the server paints it at once; else the system's.
  const dark = () => (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  function toggleTheme() {
    root.dataset.theme = dark() ? "light" : "dark";
    document.cookie = `weir_theme=${root.dataset.theme}; path=/; max-age=31536000; samesite=lax`;
    dispatchEvent(new Event("weir:theme"));
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => dispatchEvent(new Event("weir:theme")));

  // Partial navigation: the URL is the state. Links and forms marked data-go change it; the back button undoes each.
  // What is on screen was made for the parameters `shown`. While another view loads it is dimmed, and a click changes that other view by
  // what it would have changed of this one.
  let showing = location.href;
  let shown = stated();
  let swaps = 0, visiting = null; // the element that asks for the other view; null while none loads
  const AGAIN_MS = 5000;
  let pending = 0;
  let took = 0; // the last answer's time, ms
  function load(headers = {}, source = data) {
    const began = Date.now();
    pending += 1;
    return htmx
      .ajax("GET", location.href, { source, target: data, swap: "innerHTML", headers })
      .finally(() => { pending -= 1; took = Date.now() - began; watch(); });
  }
  function stated() {
    const form = document.querySelector("form.filters[data-go]");
    return form ? chosen(form) : new URL(location.href).searchParams;
  }
  function chosen(form) { return new URLSearchParams([...new FormData(form)].filter(([, value]) => value !== "")); }
  function visit() {
    const before = swaps, frame = data.parentElement;
    const asks = visiting = document.body.appendChild(document.createElement("i")); // of its own, or it would wait for the view before
    frame.setAttribute("aria-busy", "true");
    load({}, asks).catch(() => {}).then(() => {
      asks.remove();
      if (asks !== visiting) return;
      if (swaps === before) { setTimeout(() => { if (asks === visiting) visit(); }, AGAIN_MS); return; }
      visiting = null;
      shown = stated();
      frame.removeAttribute("aria-busy");
    });
  }
  function go(url) {
    const target = new URL(url, location.href);
    if (!data || target.pathname !== location.pathname) { location.assign(target); return; }
    if (target.href !== location.href) history.pushState(null, "", target);
    else if (pending) return; // Enter in a field both changes it and submits
    showing = target.href;
    visit();
  }
  function change(url) {
    const target = new URL(url, location.href), changed = new URL(location.href);
    if (!visiting || target.pathname !== location.pathname) { go(target); return; }
    for (const name of new Set([...shown.keys(), ...target.searchParams.keys()])) {
      const values = target.searchParams.getAll(name);
      if ([shown, changed.searchParams].some((each) => String(values) === String(each.getAll(name)))) continue;
      changed.searchParams.delete(name);
      for (const value of values) changed.searchParams.append(name, value);
    }
    changed.search = changed.search.replaceAll("%3A", ":");
    go(changed);
  }
  document.addEventListener("htmx:replacedInHistory", () => { showing = location.href; }); // times of a zone became absolute
  addEventListener("popstate", () => {
    if (data && location.href.split("#")[0] !== showing.split("#")[0]) { showing = location.href; visit(); }
  });
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (!form.matches("form[data-go]")) return;
    event.preventDefault();
    change(`${form.getAttribute("action")}?${chosen(form)}`);
  });
  document.addEventListener("change", (event) => {
    const form = event.target.closest("form[data-go]");
    if (form && event.target.type !== "datetime-local") form.requestSubmit(); // a calendar field changes with each key
  });
  document.addEventListener("click", (event) => {
    const plain = event.button === 0 && !event.ctrlKey && !event.metaKey && !event.shiftKey && !event.altKey;
    const link = event.target.closest("a[data-go]");
    if (link && plain && data) { event.preventDefault(); change(link.href); return; }
    const opener = event.target.closest("[data-open]");
    if (opener) open(opener.dataset.open);
    if (event.target.closest("[data-theme-toggle]")) toggleTheme();
    const copier = event.target.closest("[data-copy]");
    if (copier) copy(copier);
    const row = event.target.closest("tr[data-row]");
    if (row && plain && !event.target.closest("a, button") && !String(getSelection())) row.querySelector("a[data-open-row]").click();
    if (event.target.tagName === "DIALOG") event.target.close(); // the backdrop
    for (const menu of document.querySelectorAll("details.menu[open]")) if (!menu.contains(event.target)) menu.open = false;
  });
  async function copy(button) {
    const text = document.querySelector(button.dataset.copy).textContent.trim();
    const before = button.textContent;
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "copied";
    } catch {
      getSelection().selectAllChildren(document.querySelector(button.dataset.copy));
      button.textContent = "selected";
    }
    setTimeout(() => { button.textContent = before; }, 1500);
  }
  function say(text) { byId("announce").textContent = text; }

  // On a narrow screen a list's rows are cards (weir.css): their cells say their column, and stay cells for those who hear them.
  const narrow = matchMedia("(max-width: 720px)");
  const ROLES = { TABLE: "table", THEAD: "rowgroup", TBODY: "rowgroup", TFOOT: "rowgroup", TR: "row", TD: "cell" };
  function cards() {
    if (!narrow.matches) return;
    for (const table of document.querySelectorAll("main table.list:not(.incidents-list), main table.cards, #result_list")) {
      table.classList.add("cards");
      const columns = [...table.tHead ? table.tHead.rows[table.tHead.rows.length - 1].cells : []].map((cell) => cell.textContent.replace(/\s+/g, " ").trim());
      for (const part of [table, ...table.querySelectorAll("thead, tbody, tfoot, tr, th, td")]) {
        part.setAttribute("role", ROLES[part.tagName] || (part.scope === "row" ? "rowheader" : "columnheader"));
        if (!part.closest("thead") && part.cellIndex >= 0 && part.colSpan === 1 && columns[part.cellIndex]) part.dataset.column = columns[part.cellIndex];
      }
    }
  }
  narrow.addEventListener("change", cards);
  document.addEventListener("htmx:afterSwap", cards);
  cards();

  // Dialogs
  function open(id) {
    const dialog = byId(id);
    if (!dialog || dialog.open) return; // a tenant's people and readers of a shared link have fewer
    dialog.showModal();
    for (const here of dialog.querySelectorAll("[data-here]")) here.value = location.pathname + location.search;
    const input = dialog.querySelector("input:not([type=hidden])");
    if (input) { input.value = ""; input.focus(); htmx.trigger(input, "weir:open"); }
  }
  byId("quick")?.addEventListener("keydown", (event) => {
    const links = [...byId("quick-matches").querySelectorAll("a")];
    const current = links.findIndex((link) => link.getAttribute("aria-selected") === "true");
    if (event.key === "Enter" && links.length) { event.preventDefault(); links[Math.max(0, current)].click(); }
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    event.preventDefault();
    const next = Math.min(links.length - 1, Math.max(0, current + (event.key === "ArrowDown" ? 1 : -1)));
    links.forEach((link, index) => link.setAttribute("aria-selected", String(index === next)));
    if (links[next]) links[next].scrollIntoView({ block: "nearest" });
  });

  document.addEventListener("submit", (event) => {
    if (event.target.matches("form[data-share]")) event.target.elements.path.value = location.pathname + location.search;
  });

  // Resolving asks in a dialog, which posts the form.
  document.addEventListener("submit", (event) => {
    const form = event.target, dialog = byId("resolve");
    if (!dialog || !form.matches("form[data-resolve]")) return;
    event.preventDefault();
    const question = dialog.querySelector("form");
    question.action = form.action;
    question.elements.next.value = form.elements.next.value;
    question.elements.note.value = "";
    dialog.querySelector("[data-what]").textContent = form.dataset.resolve;
    dialog.showModal();
    question.elements.note.focus();
  });
  // What takes effect at once asks first: a button with data-ask.
  document.addEventListener("submit", (event) => {
    const button = event.submitter, dialog = byId("ask");
    if (!button || !button.dataset.ask || button.dataset.asked) return;
    event.preventDefault();
    byId("ask-what").textContent = button.dataset.ask;
    dialog.returnValue = "";
    dialog.onclose = () => { if (dialog.returnValue === "yes") { button.dataset.asked = "1"; event.target.requestSubmit(button); } };
    dialog.showModal();
  });
  document.addEventListener("click", (event) => {
    const closer = event.target.closest("dialog [data-close]");
    if (closer) closer.closest("dialog").close();
  });

  // Keyboard
  const pages = { o: "/", b: "/objectives", i: "/incidents", d: "/deliveries", p: "/planning", c: "/policies", e: "/decisions", l: "/latency", r: "/requests", m: "/signals", s: "/map" };
  let leader = 0;
  document.addEventListener("keydown", (event) => {
    const menu = event.key === "Escape" && event.target.closest("details.menu[open], details.pick[open]");
    if (menu) { menu.open = false; menu.querySelector("summary").focus(); return; }
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") { event.preventDefault(); open("quick"); return; }
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, select, textarea, dialog[open]")) return;
    if (performance.now() < leader) {
      leader = 0;
      const to = pages[event.key], link = [...document.querySelectorAll("nav a[data-keeps-question]")].find((each) => each.pathname === to);
      if (to) { location.assign(link ? link.href : to); return; }
    }
    if (event.key === "g") leader = performance.now() + 1200;
    else if (event.key === "?") open("help");
    else if (event.key === "t") toggleTheme();
    else if (event.key === "j" || event.key === "k") move(event.key === "j" ? 1 : -1);
    else if (event.key === "Enter") {
      const link = document.querySelector("tr[data-row].at a[data-open-row]");
      if (link && !event.target.closest("a, button, summary")) link.click();
    } else if ("axsu".includes(event.key)) {
      const scope = event.key !== "u" && document.querySelector("[data-row].at");
      const action = (scope || document).querySelector(`[data-key="${event.key}"]`);
      if (action) { event.preventDefault(); action.click(); } // or the letter would be typed into what opens
    } else if ("123".includes(event.key)) {
      const choice = document.querySelectorAll("a[data-quantile]")[Number(event.key) - 1];
      if (choice) choice.click();
    }
  });
  function move(by) {
    const rows = [...document.querySelectorAll("[data-row]")].filter((row) => row.checkVisibility());
    if (!rows.length) return;
    const now = rows.findIndex((row) => row.classList.contains("at"));
    const next = rows[Math.min(rows.length - 1, Math.max(0, now + by))] || rows[0];
    if (now >= 0) rows[now].classList.remove("at");
    next.classList.add("at");
    if (next.matches("summary")) next.focus({ preventScroll: true });
    else next.querySelector("a[data-open-row]").focus({ preventScroll: true });
    next.scrollIntoView({ block: "nearest" });
  }
  let kept = "";
  document.addEventListener("htmx:beforeSwap", () => { const row = document.querySelector("tr.at"); kept = row ? row.id : ""; });
  document.addEventListener("htmx:afterSwap", () => { const row = kept && byId(kept); if (row) row.classList.add("at"); });

  // What is unfolded stays so when its data is renewed: what has the same id, or else the same title.
  let folds = new Map();
  const foldable = () => [...document.querySelectorAll("#data details, #not-notified details")].map((each) => [each.id || each.textContent.trim().split("\n")[0], each]);
  document.addEventListener("htmx:beforeSwap", () => { folds = new Map(foldable().map(([name, each]) => [name, each.open])); });
  document.addEventListener("htmx:afterSwap", () => { for (const [name, each] of foldable()) if (folds.has(name)) each.open = folds.get(name); });

  // Parts of the data arrive later. The page keeps its height until then, or the browser would scroll up.
  let requests = 0;
  document.addEventListener("htmx:beforeSwap", (event) => { if (data && event.target === data) data.style.minHeight = `${data.offsetHeight}px`; });
  document.addEventListener("htmx:beforeRequest", () => { requests += 1; });
  document.addEventListener("htmx:afterRequest", () => {
    requests -= 1;
    if (!requests && data) requestAnimationFrame(() => { if (!requests) data.style.minHeight = ""; });
  });

  // The bar's links to screens of requests keep the range and the filters.
  document.addEventListener("htmx:oobAfterSwap", () => {
    const filters = document.querySelector("#filters[data-query]");
    if (filters) for (const link of document.querySelectorAll("nav a[data-keeps-question]")) link.search = filters.dataset.query;
  });
  byId("quick-text")?.addEventListener("htmx:configRequest", (event) => {
    const filters = document.querySelector("#filters[data-query]");
    if (filters) event.detail.path += `?${filters.dataset.query}`;
  });

  // A fragment that answers 4xx or 5xx explains the error: show it.
  document.addEventListener("htmx:beforeSwap", (event) => {
    const status = event.detail.xhr.status;
    if (status === 400 || status === 404 || status === 503) { event.detail.shouldSwap = true; event.detail.isError = false; }
    const asked = event.detail.requestConfig; // none where the socket has brought it
    if (!asked || event.target !== data) return;
    const of = new URL(asked.path, location.href); // what comes late is of a view that was left
    if (of.href.split("#")[0] !== location.href.split("#")[0]) event.detail.shouldSwap = false;
  });

  // Freshness: the age of the data grows between updates. Old data is never green.
  const LOOKS = { fresh: ["●", "live"], ageing: ["◐", "nothing new"], stale: ["▲", "stale"], none: ["○", "no data"] };
  let skew = 0; // the server's clock minus ours, ms
  const live = () => document.querySelector(".freshness[data-live]");
  function readSkew() { const line = live(); if (line) skew = Number(line.dataset.nowMs) - Date.now(); }
  // As Format.duration() of controlplane/core/formatting.py.
  function age(seconds) {
    const [size, unit] = seconds >= 172800 ? [86400, "days"] : seconds >= 7200 ? [3600, "h"] : seconds >= 120 ? [60, "min"] : [1, "s"];
    const value = seconds / size;
    return `${size === 1 || value >= 9.95 ? Math.round(value) : value.toFixed(1).replace(".0", "")}\u202f${unit}`;
  }
  function tick() {
    const line = live();
    if (!line) return;
    const newest = Number(line.dataset.newestMs);
    const seconds = newest ? Math.max(0, (Date.now() + skew - newest) / 1000) : null;
    const state = seconds === null ? "none" : seconds < 30 ? "fresh" : seconds < 300 ? "ageing" : "stale";
    const [icon, word] = LOOKS[state];
    line.className = `freshness ${state}`;
    line.querySelector(".icon").textContent = icon;
    line.querySelector(".word").textContent = word;
    line.querySelector(".age").textContent = seconds === null ? "" : `data as of ${age(seconds)} ago`;
    line.querySelector(".link").textContent = connected ? "" : "· no live link, asking every 10\u202fs";
  }

  // Live: the socket is told what the page shows, and sends its data whole and then what changed of it; without a socket the page asks every 10 s.
  // What arrives without requests (data-every-ms on the page) is renewed that often in any case. Asking may take a tenth of the time:
  // a page over a long range, left open on a wall, must not keep the store busy.
  const POLL_MS = 10000, REST = 10;
  const rest = (least) => Math.max(least, REST * took);
  const paged = document.querySelector("[data-every-ms]"), everyMs = paged ? Number(paged.dataset.everyMs) : 0;
  let connected = false, attempts = 0, last = Date.now(), socket = null, watching = 0, watched = "", text = null, due = false, queue = Promise.resolve();
  const refreshing = () => data && document.querySelector("[data-live]");
  const busy = () => pending || visiting || document.hidden || String(getSelection()) && data.contains(getSelection().anchorNode);
  function tell(said) { if (connected) socket.send(JSON.stringify(said)); }
  /** What is shown, where that is not yet known there; `renew`: it may have changed meanwhile. */
  function watch(renew = false) {
    const path = refreshing() && !document.hidden ? location.pathname + location.search : "";
    if (path !== watched) { watched = path; watching += 1; text = null; due = false; tell({ watch: path, number: watching }); }
    if (path && renew) tell({ renew: true });
  }
  async function renewed(packed) {
    const unpacked = await new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
    if (unpacked.number !== watching) return;
    text = unpacked.html === undefined ? merged(text, unpacked.changes) : unpacked.html;
    due = true;
    show();
  }
  /** What controlplane/dashboard/core/difference.py says. */
  function merged(before, changes) {
    let after = "";
    for (let at = 0; at < changes.length;) {
      if (typeof changes[at] === "string") after += changes[at++];
      else { after += before.substring(changes[at], changes[at] + changes[at + 1]); at += 2; }
    }
    return after;
  }
  /** Waits while the reader is selecting, or another answer is on its way. */
  function show() {
    if (!due || busy()) return;
    due = false;
    last = Date.now();
    htmx.trigger(data, "htmx:beforeSwap", { xhr: { status: 200 } });
    htmx.swap(data, text, { swapStyle: "innerHTML", swapDelay: 0, settleDelay: 0 }, { contextElement: data });
    data.dataset.renewed = String(Number(data.dataset.renewed || 0) + 1);
  }
  function refresh() {
    if (!refreshing() || busy()) return;
    last = Date.now();
    load({ "Weir-Refresh": "1" });
  }
  function connect() {
    socket = new WebSocket(new URL(document.body.dataset.livePath, location.href).href.replace(/^http/, "ws"));
    socket.binaryType = "arraybuffer";
    socket.onopen = () => { connected = true; watched = ""; tick(); watch(attempts > 0); attempts = 0; data.dataset.linked = ""; };
    socket.onmessage = (event) => {
      if (typeof event.data === "string") { location.reload(); return; } // logged out: the server asks for a log-in, and leads back here
      queue = queue.then(() => renewed(event.data)).catch(() => { watched = ""; watch(true); });
    };
    socket.onclose = () => {
      connected = false;
      delete data.dataset.linked;
      tick();
      attempts += 1;
      setTimeout(connect, Math.min(30000, 500 * 2 ** attempts) * (0.5 + Math.random() / 2));
    };
  }
  /** Whoever works by keyboard stays where they were: on what has the same id, or else the same link or text, or else the same place. */
  let place = null;
  const controls = () => [...data.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex]")];
  const called = (element) => element.getAttribute("href") || element.name || element.textContent.trim();
  document.addEventListener("htmx:beforeSwap", (event) => {
    const at = document.activeElement;
    place = event.target === data && data.contains(at) && at !== data ? { tag: at.tagName, name: called(at), index: controls().indexOf(at) } : null;
  });
  document.addEventListener("htmx:afterSwap", (event) => {
    if (!place || event.target !== data || data.contains(document.activeElement)) return;
    const all = controls();
    const same = all.find((element) => element.tagName === place.tag && called(element) === place.name) || all[place.index];
    if (same) same.focus({ preventScroll: true });
  });
  if (data && document.body.dataset.livePath) {
    readSkew();
    tick();
    setInterval(tick, 1000);
    setInterval(() => {
      show();
      if (connected && everyMs && Date.now() - last >= rest(everyMs)) { last = Date.now(); watch(true); }
      else if (!connected && Date.now() - last >= rest(everyMs || POLL_MS)) refresh();
    }, 1000);
    document.addEventListener("visibilitychange", () => watch(!document.hidden));
    document.addEventListener("htmx:afterSwap", (event) => {
      if (event.target !== data) return;
      swaps += 1;
      readSkew();
      tick();
      const said = [...data.querySelectorAll(".failed, .sentence")].map((sentence) => sentence.textContent.replace(/\s+/g, " ").trim());
      if (said.length && showing !== load.said) { load.said = showing; say(said.join(" ")); }
    });
    connect();
  }

  window.weir = { go, dark };
})();
