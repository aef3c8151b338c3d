// Keeps pages up to date: server-sent events say that something is new, and the page asks for the
// part of itself that changes. Everything works without this file but following and copying.
"use strict";

const ROWS_MAX = 300;

function keepUpToDate(area) {
  let asking = false;
  let again = false;
  let source = null;
  let shown = area.innerHTML;

  async function refresh() {
    if (asking) { again = true; return; }
    asking = true;
    try {
      const answer = await fetch(location.href, { headers: { "x-fragment": "1" } });
      const text = await answer.text();
      if (text !== shown && !isInUse(area)) { replace(area, text); shown = text; }
      mark("");
    } catch { mark("The console does not answer; what is shown is old."); }
    asking = false;
    if (again) { again = false; setTimeout(refresh, 200); }
  }

  function open() {
    if (source || document.hidden) { return; }
    source = new EventSource(area.dataset.live);
    source.addEventListener("version", refresh);
    source.addEventListener("error", () => mark("The console does not answer; what is shown is old."));
  }

  function close() { if (source) { source.close(); source = null; } }

  document.addEventListener("visibilitychange", () => { if (document.hidden) { close(); } else { open(); refresh(); } });
  window.addEventListener("pagehide", close);
  open();
}

// A selection or an open menu would be lost with what it is in.
function isInUse(area) {
  const selection = document.getSelection();
  return Boolean(selection && !selection.isCollapsed && area.contains(selection.anchorNode));
}

function replace(area, text) {
  const focused = document.activeElement;
  const inside = area.contains(focused);
  const href = inside ? focused.getAttribute("href") : null;
  const label = inside ? focused.getAttribute("aria-label") : null;
  const scrolls = Array.from(area.querySelectorAll(".scroll"), (each) => each.scrollLeft);
  area.innerHTML = text;
  area.querySelectorAll(".scroll").forEach((each, index) => { each.scrollLeft = scrolls[index] || 0; });
  if (!inside) { return; }
  for (const each of area.querySelectorAll("a, [tabindex]")) {
    if ((href && each.getAttribute("href") === href) || (label && each.getAttribute("aria-label") === label)) {
      each.focus({ preventScroll: true });
      return;
    }
  }
}

function mark(text) {
  const mode = document.getElementById("mode");
  if (!mode.dataset.said) { mode.dataset.said = mode.textContent; }
  const said = text || mode.dataset.said;
  if (mode.textContent !== said) { mode.textContent = said; mode.classList.toggle("bad", Boolean(text)); }
}

function followTopic(list) {
  const state = document.getElementById("tail-state");
  const pause = document.getElementById("pause");
  let count = 0;
  let passed = 0;
  let source = null;

  function open() {
    source = new EventSource(list.dataset.tail);
    source.addEventListener("records", (event) => {
      const news = JSON.parse(event.data);
      for (const row of news.rows) { list.insertAdjacentHTML("afterbegin", row); list.firstElementChild.classList.add("new"); }
      while (list.childElementCount > ROWS_MAX) { list.lastElementChild.remove(); }
      count += news.rows.length;
      passed += news.passed;
      if (count || passed) {
        state.textContent = count.toLocaleString("en") + " messages shown"
          + (passed ? ", " + passed.toLocaleString("en") + " more came too fast to be shown" : "") + ".";
      } else { state.textContent = "Waiting for new messages."; }
    });
    source.addEventListener("fault", (event) => { state.textContent = JSON.parse(event.data).text; close(); });
    source.addEventListener("error", () => { state.textContent = "The console does not answer; trying again."; });
  }

  function close() { if (source) { source.close(); source = null; } }

  pause.addEventListener("click", () => {
    const paused = pause.getAttribute("aria-pressed") !== "true";
    pause.setAttribute("aria-pressed", String(paused));
    pause.textContent = paused ? "Go on" : "Pause";
    if (paused) { close(); state.textContent = "Paused; what comes meanwhile is not shown."; } else { open(); }
  });
  window.addEventListener("pagehide", close);
  open();
}

async function copy(button) {
  const around = button.closest(".record, .part");
  const bytes = around.querySelector(".value .bytes, pre.bytes");
  const text = bytes ? bytes.textContent : "";
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    const selection = document.getSelection();
    if (bytes) { selection.selectAllChildren(bytes); }
    button.textContent = "Selected";
  }
  setTimeout(() => { button.textContent = "Copy"; }, 1500);
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-copy]");
  if (button) { copy(button); }
});

const live = document.querySelector("[data-live]");
if (live) { keepUpToDate(live); }
const tail = document.querySelector("[data-tail]");
if (tail) { followTopic(tail); }
