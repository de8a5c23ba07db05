// Keeps pages up to date, draws charts, opens dialogs, checks the form. Every page works without it.
"use strict";

const EVERY = 2000;

// Take over from a page what may change: elements with data-live, and the figures of charts.
function merge(next, wanted = () => true) {
  for (const old of document.querySelectorAll("[data-live]")) {
    const fresh = next.getElementById(old.id);
    if (!fresh || old.innerHTML === fresh.innerHTML || !wanted(old)) continue;
    const focus = old.contains(document.activeElement) ? document.activeElement.id : "";
    const open = [...old.querySelectorAll("details")].map((one) => one.open);
    old.className = fresh.className;
    old.replaceChildren(...fresh.childNodes);
    old.querySelectorAll("details").forEach((one, i) => { one.open = open[i] ?? one.open; });
    if (focus) document.getElementById(focus)?.focus();
  }
  for (const old of document.querySelectorAll(".chart")) {
    const fresh = next.getElementById(old.id);
    if (!fresh || fresh.dataset.figure === old.dataset.figure) continue;
    old.dataset.figure = fresh.dataset.figure;
    if (old.dataset.drawn) draw(old);
  }
  filter();
}

const parsed = (text) => new DOMParser().parseFromString(text, "text/html");

// Live pages.

let tag = "";
let timer = 0;

async function refresh() {
  clearTimeout(timer);
  if (document.hidden) return;
  try {
    const answer = await fetch(location.href, { headers: { "If-None-Match": tag }, cache: "no-store" });
    if (answer.redirected) return location.reload(); // the session has ended
    if (!answer.ok && answer.status !== 304) throw new Error(answer.status);
    if (answer.ok) {
      merge(parsed(await answer.text()));
      tag = answer.headers.get("ETag") ?? "";
    }
    document.getElementById("stale").hidden = true;
  } catch {
    document.getElementById("stale").hidden = false;
  }
  timer = setTimeout(refresh, EVERY);
}

// Charts. A colour in a figure is the name of a variable of the style sheet.

function coloured(value, style) {
  if (typeof value === "string") return value.startsWith("--") ? style.getPropertyValue(value).trim() : value;
  if (Array.isArray(value)) return value.map((one) => coloured(one, style));
  if (value && typeof value === "object") {
    return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, coloured(one, style)]));
  }
  return value;
}

function draw(element) {
  const style = getComputedStyle(document.documentElement);
  const { data, layout } = JSON.parse(element.dataset.figure);
  const axis = { gridcolor: "--grid", linecolor: "--line", zerolinecolor: "--line", automargin: true, fixedrange: true };
  const base = {
    autosize: true, margin: { l: 8, r: 12, t: 18, b: 8 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: "system-ui, sans-serif", size: 12, color: "--ink" }, hovermode: "x unified", dragmode: false,
    hoverlabel: { bgcolor: "--panel", bordercolor: "--line", font: { color: "--ink" } }, showlegend: false,
    legend: { orientation: "h", yref: "container", y: 0, yanchor: "bottom", x: 0, font: { color: "--ink" } },
  };
  const ticks = { nticks: Math.max(3, Math.floor(element.clientWidth / 110)), tickangle: 0 };
  const full = { ...base, ...layout, xaxis: { ...axis, ...ticks, ...layout.xaxis }, yaxis: { ...axis, ...layout.yaxis } };
  element.dataset.drawn = "yes";
  Plotly.react(element, coloured(data, style), coloured(full, style), { displayModeBar: false, responsive: true });
}

function watchCharts() {
  const all = document.querySelectorAll(".chart");
  if (!all.length || !window.Plotly) return;
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting || entry.target.dataset.drawn) continue;
      draw(entry.target);
    }
  }, { rootMargin: "300px" });
  for (const one of all) {
    one.style.height = `${JSON.parse(one.dataset.figure).layout.height}px`;
    seen.observe(one);
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    document.querySelectorAll(".chart[data-drawn]").forEach(draw);
  });
}

// The search box of the list.

function filter() {
  const box = document.querySelector("[data-filter]");
  if (!box) return;
  const text = box.value.trim().toLowerCase();
  const rows = [...document.querySelectorAll(`${box.dataset.filter} > [data-name]`)];
  for (const row of rows) row.hidden = !row.dataset.name.includes(text);
  document.getElementById("none").hidden = rows.some((row) => !row.hidden);
}

// The form: check while people type, and show what is wrong with the fields that they have filled in.

function watchForm(form) {
  const touched = new Set();
  let waiting = 0;
  let newest = 0;
  const fieldOf = (element) => element.getAttribute("aria-describedby")?.replace("error-", "") ?? "";
  async function check() {
    const mine = ++newest;
    const body = new URLSearchParams(new FormData(form));
    body.append("do", "check");
    const answer = await fetch(location.href, { method: "POST", body, redirect: "error" }).catch(() => null);
    if (!answer || mine !== newest) return;
    const next = parsed(await answer.text());
    merge(next, (old) => !old.dataset.error || touched.has(old.dataset.error) || !next.getElementById(old.id).textContent);
    for (const error of form.querySelectorAll("[data-error]")) {
      const field = form.querySelector(`[aria-describedby="${error.id}"]`);
      if (error.textContent) field?.setAttribute("aria-invalid", "true");
      else field?.removeAttribute("aria-invalid");
    }
  }
  form.addEventListener("input", (event) => {
    touched.add(fieldOf(event.target));
    if (event.target.name.startsWith("rail_")) touched.add("baseline_costs").add("guardrails");
    clearTimeout(waiting);
    waiting = setTimeout(check, 300);
  });
  form.querySelector("[data-add-row]")?.addEventListener("click", (event) => {
    event.preventDefault();
    const rows = document.getElementById("rails");
    const row = rows.lastElementChild.cloneNode(true);
    for (const one of row.querySelectorAll("[id], [aria-describedby]")) {
      for (const name of ["id", "aria-describedby", "data-error"]) {
        const value = one.getAttribute(name);
        if (value) one.setAttribute(name, value.replace(/rail_\d+_/, `rail_${rows.children.length}_`));
      }
      one.removeAttribute("aria-invalid");
      if (one.matches("input")) one.value = "";
      if (one.dataset.error) one.textContent = "";
    }
    rows.append(row);
    row.querySelector("input").focus();
  });
}

document.addEventListener("DOMContentLoaded", () => {
  document.addEventListener("click", (event) => {
    const opener = event.target.closest("[data-dialog]");
    const dialog = opener && document.getElementById(opener.dataset.dialog);
    if (!dialog || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    dialog.showModal();
    dialog.querySelector("[name=reason]")?.focus();
  });
  document.querySelector("[data-filter]")?.addEventListener("input", filter);
  const form = document.querySelector("form[data-check]");
  if (form) watchForm(form);
  watchCharts();
  if ("livePage" in document.body.dataset) {
    document.addEventListener("visibilitychange", refresh);
    timer = setTimeout(refresh, EVERY);
  }
});
