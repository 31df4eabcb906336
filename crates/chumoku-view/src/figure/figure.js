'use strict';
(() => {
  const root = document.documentElement, $ = id => document.getElementById(id);
  addEventListener('error', e => { root.dataset.error = e.message; });
  document.addEventListener('securitypolicyviolation', () => { root.dataset.violations = 1; });
  const dark = matchMedia('(prefers-color-scheme: dark)'), themes = ['auto', 'light', 'dark'];
  // The state is in the address, so that a link shows what its sender saw.
  const state = { lang: root.lang, theme: 'auto' };
  const show = () => {
    root.lang = state.lang;
    root.dataset.theme = state.theme === 'auto' ? (dark.matches ? 'dark' : 'light') : state.theme;
    document.querySelectorAll('[data-lang]').forEach(part => { part.hidden = part.dataset.lang !== state.lang; });
    for (const lang of ['en', 'ja']) $(lang).setAttribute('aria-pressed', lang === state.lang);
    document.dispatchEvent(new Event('shown'));
    $('theme').title = { auto: 'system · 自動', light: 'light · ライト', dark: 'dark · ダーク' }[state.theme];
  };
  // Other keys of the address are left as they are.
  const link = keys => {
    const p = new URLSearchParams(location.hash.slice(1));
    for (const [key, value] of Object.entries(keys)) p.set(key, value);
    try { history.replaceState(null, '', '#' + p); } catch { /* a file on disk may refuse */ }
  };
  const set = change => {
    Object.assign(state, change);
    show();
    link(state);
  };
  const read = () => {
    const p = new URLSearchParams(location.hash.slice(1));
    if (['en', 'ja'].includes(p.get('lang'))) state.lang = p.get('lang');
    if (themes.includes(p.get('theme'))) state.theme = p.get('theme');
    show();
  };
  $('en').addEventListener('click', () => set({ lang: 'en' }));
  $('ja').addEventListener('click', () => set({ lang: 'ja' }));
  const turn = () => set({ theme: themes[(themes.indexOf(state.theme) + 1) % themes.length] });
  $('theme').addEventListener('click', turn);
  addEventListener('keydown', e => {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    if (e.key === 'l') set({ lang: state.lang === 'en' ? 'ja' : 'en' });
    if (e.key === 't') turn();
  });
  dark.addEventListener('change', show);
  addEventListener('hashchange', read);
  read();
  addEventListener('load', () => {
    root.dataset.requests = performance.getEntriesByType('resource').length;
    root.dataset.ready = '1';
  });
})();
