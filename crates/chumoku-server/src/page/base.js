// Elements, numbers, storage, languages, colors and tabs.
const root = document.documentElement;
// Errors are recorded where tests (and curious readers) can see them.
const tally = name => { root.dataset[name] = Number(root.dataset[name] || 0) + 1; };
addEventListener('error', e => { tally('errors'); root.dataset.error = e.message; });
addEventListener('unhandledrejection', e => { tally('errors'); root.dataset.error = String(e.reason); });
document.addEventListener('securitypolicyviolation', e => { tally('violations'); root.dataset.violation = `${e.effectiveDirective} ${e.blockedURI}`; });

const $ = id => document.getElementById(id);
// Text enters the page only as text nodes, never as markup.
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

// ---- texts and numbers ----
const percent = (x, digits = 1) => (100 * x).toFixed(digits);
const signed = (x, digits = 2) => Math.abs(x) < .5 * 10 ** -digits ? (0).toFixed(digits) : (x > 0 ? '+' : '−') + Math.abs(x).toFixed(digits);
const clip = (text, most = 40) => { const all = [...text]; return all.length > most ? all.slice(0, most - 1).join('') + '…' : text; };
// Invisible characters are shown by visible ones.
const visible = text => text.replace(/\n/g, '↵').replace(/\t/g, '⇥') || '␣';
const isKana = text => /[\u3040-\u30ff]/.test(text);

// ---- what is remembered: choices of looks beyond the visit, texts and the key as long as the tab is open ----
function remembered(store, name) {
  // Some browsers forbid storage; the page works without it.
  try { return self[store].getItem('chumoku-' + name); } catch { return null; }
}
function remember(store, name, value) {
  try { self[store].setItem('chumoku-' + name, value); } catch { /* only the stored value is lost */ }
}
// Every field is stored, so that a reload loses no text.
function keep(field) {
  const old = remembered('sessionStorage', field.id);
  if (old !== null) field.value = old;
  field.addEventListener('input', () => remember('sessionStorage', field.id, field.value));
}

// ---- languages and themes ----
const THEMES = ['auto', 'light', 'dark'];
const system = matchMedia('(prefers-color-scheme: dark)');
const firstLang = () => (navigator.languages ?? [navigator.language]).map(lang => lang.slice(0, 2)).find(lang => WORDS[lang]) ?? 'en';
const S = {
  lang: [remembered('localStorage', 'lang')].find(lang => WORDS[lang]) ?? firstLang(),
  theme: [remembered('localStorage', 'theme')].find(theme => THEMES.includes(theme)) ?? 'auto',
  // The answer of /info.
  info: null, models: [],
};
let T = WORDS[S.lang];
// Callbacks that render again after a change of language or colors, and those that run when a tab opens.
const redraws = [], entries = [];
function speak() {
  T = WORDS[S.lang];
  root.lang = S.lang;
  root.dataset.theme = S.theme === 'auto' ? (system.matches ? 'dark' : 'light') : S.theme;
  document.title = T.title;
  for (const node of document.querySelectorAll('[data-t]')) node.textContent = T[node.dataset.t];
  for (const node of document.querySelectorAll('[data-hint]')) node.placeholder = T[node.dataset.hint];
  $('langs').setAttribute('aria-label', T.langs);
  $('tabs').setAttribute('aria-label', T.tabs);
  for (const lang of ['en', 'ja']) $('lang-' + lang).setAttribute('aria-pressed', lang === S.lang);
  $('theme').textContent = T.themes[S.theme];
  redraws.forEach(redraw => redraw());
}
function setLang(lang) { S.lang = lang; remember('localStorage', 'lang', lang); speak(); }
for (const lang of ['en', 'ja']) $('lang-' + lang).addEventListener('click', () => setLang(lang));
$('theme').addEventListener('click', () => {
  S.theme = THEMES[(THEMES.indexOf(S.theme) + 1) % THEMES.length];
  remember('localStorage', 'theme', S.theme);
  speak();
});
system.addEventListener('change', () => { if (S.theme === 'auto') speak(); });
const sayAloud = text => { $('announcement').textContent = text; };

// ---- tabs: arrow keys, Home and End go from one to the next that is there ----
const rooms = () => [...$('tabs').children].filter(tab => !tab.hidden);
function enter(tab) {
  for (const other of $('tabs').children) {
    const isChosen = other === tab;
    other.setAttribute('aria-selected', isChosen);
    other.tabIndex = isChosen ? 0 : -1;
    $(other.getAttribute('aria-controls')).hidden = !isChosen;
  }
  entries.forEach(act => act());
  // Some browsers refuse this; the page then works without the link.
  try { history.replaceState(null, '', '#' + tab.id.slice('tab-'.length)); } catch { /* nothing is lost */ }
}
$('tabs').addEventListener('click', e => { if (e.target.getAttribute('role') === 'tab') enter(e.target); });
$('tabs').addEventListener('keydown', e => {
  const there = rooms(), i = there.indexOf(document.activeElement);
  const to = { ArrowRight: i + 1, ArrowLeft: i - 1, Home: 0, End: there.length - 1 }[e.key];
  if (to === undefined || i < 0) return;
  e.preventDefault();
  const tab = there[(to + there.length) % there.length];
  enter(tab);
  tab.focus();
});

// Arrow keys, Home and End move through the items of a box; `show` is called with the selected one.
function walk(box, items, now, show) {
  box.addEventListener('keydown', e => {
    const count = items().length, i = now();
    const to = { ArrowRight: i + 1, ArrowDown: i + 1, ArrowLeft: i - 1, ArrowUp: i - 1, Home: 0, End: count - 1 }[e.key];
    if (to === undefined || !count) return;
    e.preventDefault();
    show(Math.max(0, Math.min(count - 1, to)));
  });
}
// Ctrl + Enter in a field presses its button.
const onCtrlEnter = (field, button) => field.addEventListener('keydown', e => {
  if (e.key === 'Enter' && (e.ctrlKey || e.metaKey)) { e.preventDefault(); button.click(); }
});
