// Shared parts of the pages of explanations and alignments: elements, numbers, arrays, colors, links, tabs.
// All files of a page run in one script, in the order of html/mod.rs.
const root = document.documentElement;
// Errors are written to an attribute, where tests and curious readers can see them.
const tally = name => { root.dataset[name] = Number(root.dataset[name] || 0) + 1; };
addEventListener('error', e => { tally('errors'); root.dataset.error = e.message; });
document.addEventListener('securitypolicyviolation', () => tally('violations'));

const $ = id => document.getElementById(id);
// Text enters the page only here: as text, never as markup.
function el(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (name === 'text') node.textContent = value;
    else if (name === 'class') node.className = value;
    else if (name.includes('-') || name === 'role' || name === 'scope') node.setAttribute(name, value);
    else node[name] = value;
  }
  node.append(...children);
  return node;
}
const D = JSON.parse($('data').textContent);
// Shows a text in the chosen language, if there is one.
const showText = (id, texts) => { $(id).hidden = !texts; $(id).textContent = texts?.[S.lang] ?? ''; };
const headRow = (texts, ...more) => el('thead', {}, el('tr', {}, ...texts.map(text => el('th', { scope: 'col', text })), ...more));
// Fills a selector with [value, text] pairs.
const fillSelect = (id, pairs, chosen) => $(id).replaceChildren(...pairs.map(([value, text]) => el('option', { value, text, selected: value === chosen })));

// ---- texts and numbers ----
// Invisible and direction-changing characters must not affect the page's own sentences.
const plain = text => text.replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029]/g, '␣').replace(/[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, '\ufffd').replace(/^(?=\p{M})/u, '◌') || '␣';
const clip = (s, m = 40) => { const c = [...s]; return c.length > m ? c.slice(0, m - 1).join('') + '…' : s; };
// A right-to-left word must not change the direction of the sentence around it.
const RTL = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/g;
const isolated = w => w.search(RTL) < 0 ? w : `\u2068${w}\u2069`;
const flows = text => (text.match(RTL) || []).length > (text.match(/[A-Za-z]/g) || []).length ? 'rtl' : 'ltr';
const isKana = text => /[\u3040-\u30ff]/.test(text);

const known = Number.isFinite;
const percent = (x, digits = 0) => known(x) ? (100 * x).toFixed(digits) : '–';
const signed = (x, digits = 2) => !known(x) ? '–' : Math.abs(x) < .5 * 10 ** -digits ? (0).toFixed(digits) : (x > 0 ? '+' : '−') + Math.abs(x).toFixed(digits);
// For tables: with an ASCII minus, which spreadsheets read, and no minus before zero.
const fixed = x => known(x) ? (Math.abs(x) < .00005 ? 0 : x).toFixed(4) : '–';
// The fewest digits that name the same f32.
const exact = x => { for (let d = 1; d < 10; d++) { const s = x.toPrecision(d); if (Math.fround(Number(s)) === x) return String(Number(s)); } return String(x); };
const within = (i, count) => Math.min(count - 1, Math.max(0, i));

// ---- arrays: each has its own element and is decoded on first use ----
const MAPS = new Map();
const mapName = (name, layer, head) => [name, layer, head ?? ''].join();
for (const node of document.querySelectorAll('.map')) MAPS.set(mapName(node.dataset.name, node.dataset.layer, node.dataset.head), node);
function bytesOf(base64) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(base64);
  const raw = atob(base64), bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return bytes;
}
// Least recently used first; the cache is limited by the count of numbers.
const decoded = new Map(), largestOf = new Map(), KEPT = 16e6;
let keptCount = 0;
// The array of this name, and whether it is rough: one byte for each number, accurate to 0.002. Null if the file has none.
function matrix(name, layer, head) {
  const id = mapName(name, layer, head), node = MAPS.get(id);
  if (!node) return null;
  let found = decoded.get(id);
  if (!found) {
    // Browsers run on little-endian processors only.
    const bytes = bytesOf(node.textContent), rough = node.dataset.form === 'u8', values = new Float32Array(rough ? bytes : bytes.buffer);
    if (rough) for (let i = 0; i < values.length; i++) values[i] /= 255;
    let max = 0;
    for (const x of values) if (x > max) max = x;
    found = { values, rough, max };
    largestOf.set(node, max);
    keptCount += values.length;
    for (const [old, { values }] of decoded) {
      if (keptCount <= KEPT) break;
      decoded.delete(old);
      keptCount -= values.length;
    }
  } else decoded.delete(id);
  decoded.set(id, found);
  return found;
}
const hasMap = name => [...MAPS.keys()].some(id => id.startsWith(name + ','));
// The largest number of all arrays of a name, which must all be decoded.
function largest(name) {
  let max = 0;
  for (const node of MAPS.values()) if (node.dataset.name === name) max = Math.max(max, largestOf.get(node) ?? matrix(name, node.dataset.layer, node.dataset.head).max);
  return max;
}
// The text of a number: rough ones have three digits and a sign.
const share = (x, digits, rough) => (rough ? '≈ ' : '') + percent(x, rough ? Math.min(1, digits) : digits) + ' %';
const cellText = (x, rough) => rough ? '≈' + x.toFixed(3) : x.toFixed(4);

// Runs background work in slices, so the page stays responsive. A later call replaces an earlier one.
let slices = 0;
function inSlices(jobs, isSmall) {
  const mine = ++slices, later = self.requestIdleCallback ? run => requestIdleCallback(run, { timeout: 300 }) : run => setTimeout(run, 16);
  const run = () => {
    if (mine !== slices) return;
    for (const end = performance.now() + (isSmall ? Infinity : 10); jobs.length && performance.now() < end;) jobs.shift()();
    if (jobs.length) later(run); else root.dataset.thumbs = 'drawn';
  };
  if (isSmall) run(); else { delete root.dataset.thumbs; later(run); }
}

// ---- colors: one scale for attention, light to dark or dark to light ----
const SCALES = {
  light: ['#f3f6f4', '#c6e4da', '#7fc5b9', '#37959a', '#1d5f78', '#1a2c52'],
  dark: ['#1f262f', '#1c445c', '#206f80', '#3c9d93', '#86c8a0', '#e6f2b8'],
};
const LUTS = {};
for (const [name, anchors] of Object.entries(SCALES)) {
  const stops = anchors.map(hex => [1, 3, 5].map(i => parseInt(hex.slice(i, i + 2), 16)));
  LUTS[name] = Array.from({ length: 256 }, (_, i) => {
    const place = i / 255 * (stops.length - 1), k = Math.min(stops.length - 2, Math.floor(place)), f = place - k;
    const c = stops[k].map((v, j) => Math.round(v + (stops[k + 1][j] - v) * f));
    const lin = c.map(v => (v /= 255) <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
    // Black or white digits: a contrast (WCAG) of 4.58 or more.
    const light = .2126 * lin[0] + .7152 * lin[1] + .0722 * lin[2] > .179;
    return { c, css: `rgb(${c})`, ink: light ? '#000' : '#fff' };
  });
}
const THEMES = ['auto', 'light', 'dark'];
const system = matchMedia('(prefers-color-scheme: dark)');
// On paper the page is light.
let isPrinting = false;
for (const [event, is] of [['beforeprint', true], ['afterprint', false]]) addEventListener(event, () => { isPrinting = is; show(); });
const theme = () => isPrinting ? 'light' : S.theme === 'auto' ? (system.matches ? 'dark' : 'light') : S.theme;
function colors() {
  const style = getComputedStyle(root), get = name => style.getPropertyValue('--' + name).trim();
  return { card: get('card'), ink: get('ink'), soft: get('soft'), accent: get('accent'), against: get('against'), line: get('line'), hatch: get('hatch') };
}

// ---- canvases: as large as the visible part, over a space as large as the whole picture ----
const font = getComputedStyle(document.body).fontFamily;
const measurer = document.createElement('canvas').getContext('2d');
const LABEL = 13;
function widthOf(text) {
  measurer.font = `${LABEL}px ${font}`;
  return measurer.measureText(text).width;
}
function fitText(text, width) {
  if (widthOf(text) <= width) return text;
  const c = [...text];
  while (c.length && widthOf(c.join('') + '…') > width) c.pop();
  return c.join('') + '…';
}
// Figures that are wider than their place say that they scroll.
function hintScroll(node, scrolls) {
  node.classList.toggle('scrolls', scrolls);
  node.dataset.scrolls = scrolls ? T.scrolls : '';
}
const isWider = node => node.scrollWidth > node.clientWidth + 1;
const scrollHints = () => document.querySelectorAll('.wide, #curves').forEach(node => hintScroll(node, isWider(node)));
// Reserves space for a picture of this size; returns the visible part and where to draw it.
function viewport(stage, size) {
  const [space] = stage.children, [canvas] = space.children, room = stage.parentElement.clientWidth;
  hintScroll(stage.parentElement, size.width > room);
  const limit = Math.max(420, Math.min(860, innerHeight - 140));
  space.style.width = size.width + 'px';
  space.style.height = size.height + 'px';
  // The scroll bar does not count for the width, so short texts need none.
  stage.style.height = Math.min(size.height + (size.width > room ? 16 : 0), limit) + 'px';
  stage.style.width = Math.min(room, size.width + (size.height > limit ? 16 : 0)) + 'px';
  const view = { w: Math.min(stage.clientWidth, size.width), h: Math.min(stage.clientHeight, size.height), x: stage.scrollLeft, y: stage.scrollTop };
  const ratio = devicePixelRatio || 1, [w, h] = [view.w, view.h].map(side => Math.round(side * ratio));
  if (canvas.width !== w || canvas.height !== h) {
    Object.assign(canvas, { width: w, height: h });
    canvas.style.width = view.w + 'px';
    canvas.style.height = view.h + 'px';
  }
  const ctx = canvas.getContext('2d');
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  return { ctx, view };
}
const soon = act => { let asked = false; return () => { if (!asked) { asked = true; requestAnimationFrame(() => { asked = false; act(); }); } }; };

// The words with the largest numbers, each with its share. Words of which a text has several get their position.
function largestWords(names, value, say, write) {
  const nth = i => names.indexOf(names[i]) === names.lastIndexOf(names[i]) ? 0 : i + 1;
  const order = [...names.keys()].filter(i => known(value(i))).sort((a, b) => value(b) - value(a)).slice(0, 3);
  return order.map(i => T.share(say(i), write(value(i)), nth(i))).join(T.list) || '–';
}

// ---- links ----
// Links count from 1, the script from 0; -1 stands for none.
const fromOne = (text, count) => { const i = /^\d{1,6}$/.test(text || '') ? Number(text) - 1 : -1; return i < count ? i : -1; };
// The surrounding page has the heading and the prediction.
if (isFramed) root.dataset.framed = D.kind || 'translator';

// ---- tabs: arrow keys, Home and End move between the visible ones ----
function makeTabs(list, names, choose) {
  for (const name of names) $('view-' + name).addEventListener('click', () => choose(name));
  list.addEventListener('keydown', e => {
    const there = [...list.children].filter(tab => !tab.hidden), i = there.indexOf(document.activeElement);
    const to = { ArrowRight: i + 1, ArrowLeft: i - 1, Home: 0, End: there.length - 1 }[e.key];
    if (to === undefined || i < 0) return;
    e.preventDefault();
    const tab = there[(to + there.length) % there.length];
    choose(tab.id.slice('view-'.length));
    tab.focus();
  });
}
function markTabs(list, chosen) {
  for (const tab of list.children) {
    const isChosen = tab.id === 'view-' + chosen;
    tab.setAttribute('aria-selected', isChosen);
    tab.tabIndex = isChosen ? 0 : -1;
    if (isChosen) $(tab.getAttribute('aria-controls')).setAttribute('aria-labelledby', tab.id);
  }
}

// ---- before and after switching a head off ----
// Rows of a text and one or more groups of [before, after, change]; the chosen one is marked.
function compareTable(table, headings, rows, chosen) {
  table.replaceChildren(headRow(headings), el('tbody', {}, ...rows.map(([name, ...cells], i) => el('tr', { class: i === chosen ? 'chosen' : '' },
      el('th', { scope: 'row', title: clip(name, 200) }, el('bdi', { text: clip(name) })),
      ...cells.map((text, j) => el('td', { class: j % 3 < 2 ? '' : text.startsWith('−') ? 'less' : text.startsWith('+') ? 'more' : '', text }))))));
}

// Verifies the promise of the footer: no requests were made.
addEventListener('load', () => {
  root.dataset.requests = performance.getEntriesByType('resource').length;
  root.dataset.ready = '1';
});
