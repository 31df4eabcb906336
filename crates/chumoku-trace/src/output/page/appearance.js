// Theme, language, and hints of scrolling. The address holds the first two, so a link shows what its sender saw.
const root = document.documentElement, $ = id => document.getElementById(id);
addEventListener('error', e => { root.dataset.error = e.message; });
document.addEventListener('securitypolicyviolation', () => { root.dataset.violations = 1; });
// An address like `#weights` names a step instead.
const linked = () => new URLSearchParams(location.hash.includes('=') ? location.hash.slice(1) : '');
const link = (key, value) => {
  const p = linked();
  if (value === null) p.delete(key); else p.set(key, value);
  // Some browsers refuse this for a file on disk; the page then works without the link.
  try { history.replaceState(null, '', p.size ? `#${p.toString().replaceAll('%2C', ',')}` : location.pathname); } catch { /* without a link */ }
};
const THEMES = ['auto', 'light', 'dark'];
let theme = 'auto';
const lang = () => $('ja').checked ? 'ja' : 'en';
const sayTheme = () => {
  $('theme').textContent = { en: { auto: 'Theme: system', light: 'Theme: light', dark: 'Theme: dark' }, ja: { auto: '表示: 自動', light: '表示: ライト', dark: '表示: ダーク' } }[lang()][theme];
};
const setTheme = to => {
  theme = to;
  if (to === 'auto') delete root.dataset.theme; else root.dataset.theme = to;
  sayTheme();
};
const setLang = to => {
  $(to).checked = true;
  root.lang = to;
  sayTheme();
  document.dispatchEvent(new Event('lang'));
};
const readLink = () => {
  const p = linked();
  if (THEMES.includes(p.get('theme'))) setTheme(p.get('theme'));
  if (['en', 'ja'].includes(p.get('lang')) && p.get('lang') !== lang()) setLang(p.get('lang'));
};
const turn = () => { setTheme(THEMES[(THEMES.indexOf(theme) + 1) % 3]); link('theme', theme === 'auto' ? null : theme); };
$('theme').hidden = false;
$('theme').addEventListener('click', turn);
for (const own of ['en', 'ja']) $(own).addEventListener('change', () => { setLang(own); link('lang', own); });
const isTyping = e => e.ctrlKey || e.metaKey || e.altKey || e.target.isContentEditable;
addEventListener('keydown', e => {
  if (isTyping(e)) return;
  if (e.key === 't') turn();
  if (e.key === 'l') { const to = lang() === 'en' ? 'ja' : 'en'; setLang(to); link('lang', to); }
});
// A matrix that is wider than its place says that it scrolls.
const watcher = new ResizeObserver(all => setTimeout(() => {
  const wide = all.map(({ target }) => target.scrollWidth > target.clientWidth + 1);
  all.forEach(({ target }, k) => { target.classList.toggle('more-right', wide[k]); });
}));
addEventListener('hashchange', readLink);
setTheme('auto');
readLink();
