(() => {
  const root = document.documentElement, $ = id => document.getElementById(id);
  addEventListener('error', e => { root.dataset.error = e.message; });
  document.addEventListener('securitypolicyviolation', () => { root.dataset.violations = 1; });
  const dark = matchMedia('(prefers-color-scheme: dark)'), themes = ['auto', 'light', 'dark'];
  // The surrounding page has the heading, the languages and the theme.
  if (isFramed) root.dataset.framed = 'figures';
  const state = { lang: root.lang, theme: 'auto' };
  const show = () => {
    root.lang = state.lang;
    root.dataset.theme = state.theme === 'auto' ? (dark.matches ? 'dark' : 'light') : state.theme;
    document.querySelectorAll('[data-lang]').forEach(part => { part.hidden = part.dataset.lang !== state.lang; });
    for (const lang of ['en', 'ja']) $(lang).setAttribute('aria-pressed', lang === state.lang);
    document.dispatchEvent(new Event('shown'));
    $('theme').textContent = { en: { auto: 'Theme: system', light: 'Theme: light', dark: 'Theme: dark' }, ja: { auto: '表示: 自動', light: '表示: ライト', dark: '表示: ダーク' } }[state.lang][state.theme];
    hint();
  };
  // A figure or table that is wider than the page says that it scrolls.
  const hint = () => document.querySelectorAll('.picture, .wide, .map').forEach(picture => { picture.dataset.scrolls = picture.scrollWidth > picture.clientWidth + 1 ? { en: 'Scroll sideways to see all of it →', ja: '横にスクロールすると全体が見えます →' }[state.lang] : ''; });
  addEventListener('resize', hint);
  document.addEventListener('toggle', hint, true);
  // Other keys of the link stay unchanged.
  const keep = keys => {
    const p = linked();
    for (const [key, value] of Object.entries(keys)) p.set(key, value);
    link(p);
  };
  const set = change => {
    Object.assign(state, change);
    show();
    keep(state);
  };
  const read = () => {
    const p = linked();
    if (['en', 'ja'].includes(p.get('lang'))) state.lang = p.get('lang');
    if (themes.includes(p.get('theme'))) state.theme = p.get('theme');
    show();
  };
  $('en').addEventListener('click', () => set({ lang: 'en' }));
  $('ja').addEventListener('click', () => set({ lang: 'ja' }));
  const turn = () => set({ theme: themes[(themes.indexOf(state.theme) + 1) % themes.length] });
  $('theme').addEventListener('click', turn);
  addEventListener('keydown', e => {
    if (isFramed || e.ctrlKey || e.metaKey || e.altKey) return;
    if (e.key === 'l') set({ lang: state.lang === 'en' ? 'ja' : 'en' });
    if (e.key === 't') turn();
  });
  dark.addEventListener('change', show);
  addEventListener('hashchange', read);
  read();
  addEventListener('load', () => {
    // The player of a film has drawn now.
    hint();
    root.dataset.requests = performance.getEntriesByType('resource').length;
    root.dataset.ready = '1';
  });
})();
