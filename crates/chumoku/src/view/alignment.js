(() => {
  const root = document.documentElement;
  // Anything that goes wrong is written where a test (or a curious reader) can see it.
  const tally = name => { root.dataset[name] = Number(root.dataset[name] || 0) + 1; };
  addEventListener('error', e => { tally('errors'); root.dataset.error = e.message; });
  document.addEventListener('securitypolicyviolation', () => tally('violations'));

  const $ = id => document.getElementById(id);
  // The only way text comes into the page: as text, never as markup.
  function el(tag, props = {}, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(props)) {
      if (/-|role|scope/.test(name)) node.setAttribute(name, value); else node[name] = value;
    }
    node.append(...children);
    return node;
  }
  const text = (tag, textContent, className = '') => el(tag, { textContent, className });

  const D = JSON.parse($('data').textContent);
  const view = (() => {
    const maps = [...document.querySelectorAll('.map[data-name="weights"]')].map(map => {
      const bytes = Uint8Array.from(atob(map.textContent), c => c.charCodeAt(0));
      return map.dataset.form === 'f32' ? bytes : new Uint8Array(Float32Array.from(bytes, b => b / 255).buffer);
    });
    const out = new Uint8Array(maps.reduce((sum, map) => sum + map.length, 0));
    maps.reduce((at, map) => { out.set(map, at); return at + map.length; }, 0);
    return new DataView(out.buffer);
  })();
  // Signs that have no shape, or that reverse what follows, must not act on the page's own sentences.
  const plain = w => w.text.replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029]/g, '␣').replace(/[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, '\ufffd').replace(/^(?=\p{M})/u, '◌') || '␣';
  const clip = (s, m = 40) => { const c = [...s]; return c.length > m ? c.slice(0, m - 1).join('') + '…' : s; };
  // The two sides: q, the translation that asks, and k, the source that is looked at.
  const words = { q: D.target_words, k: D.source_words }, names = { q: words.q.map(plain), k: words.k.map(plain) };
  const m = names.q.length, n = names.k.length, rows = [...names.q.keys()], columns = [...names.k.keys()];
  const weight = (q, k, { layer, head } = S) => view.getFloat32(4 * (((layer * D.heads + head) * m + q) * n + k), true);
  const effect = (q, k) => D.effects[q]?.[k] ?? NaN;
  const value = (q, k) => S.show === 'effect' ? effect(q, k) : weight(q, k);
  const most = of => columns.reduce((best, k) => of(k) > (best < 0 ? -Infinity : of(best)) ? k : best, -1);
  const needed = rows.map(q => most(k => effect(q, k)));
  const largest = values => values.reduce((a, x) => Math.max(a, Math.abs(x) || 0), 0) || 1;
  const max = { attention: largest(D.ranking.flatMap(r => rows.flatMap(q => columns.map(k => weight(q, k, r))))), effect: largest(D.effects.flat()) };
  const chance = 1 / (words.k.filter(w => !w.special).length || 1);

  // ---- state, and its copy in the address, so that a link shows what its sender saw ----
  const CHOICES = { lang: ['en', 'ja'], theme: ['auto', 'light', 'dark'], show: ['attention', 'effect'] };
  const S = { lang: root.lang === 'ja' ? 'ja' : 'en', theme: 'auto', show: 'attention' };
  function readHash() {
    const p = new URLSearchParams(location.hash.slice(1)), whole = (name, count) => { const i = /^\d+$/.test(p.get(name)) ? p.get(name) - 1 : -1; return i < count ? i : -1; };
    const rank = D.ranking.find(r => r.layer === whole('layer', D.layers) && r.head === whole('head', D.heads));
    ({ layer: S.layer, head: S.head } = rank || D.ranking[0]);
    for (const name in CHOICES) if (CHOICES[name].includes(p.get(name))) S[name] = p.get(name);
    // Without a word to show, the first.
    S.q = p.has('target') || p.has('source') ? whole('target', m) : 0;
    S.k = whole('source', n);
    if (p.get('table') === '1') $('fold').open = true;
  }
  function writeHash() {
    const { layer, head, q, k, lang, theme, show } = S;
    // Some browsers refuse this for a file on disk; the page then works without the link.
    try { history.replaceState(null, '', '#' + new URLSearchParams({ layer: layer + 1, head: head + 1, target: q + 1, source: k + 1, show, lang, theme, table: Number($('fold').open) })); } catch { /* nothing is lost */ }
  }
  let T, hover = null, cells;

  // ---- numbers and colours ----
  const known = x => x !== null && Number.isFinite(x);
  const percent = (x, digits = 0) => known(x) ? (100 * x).toFixed(digits) : '–';
  const odds = log => known(log) ? percent(Math.min(1, Math.exp(log)), 1) : '–';
  const signed = (x, digits = 2) => known(x) ? (x < 0 ? '−' : '+') + Math.abs(x).toFixed(digits) : '–';
  const brief = x => !known(x) ? '' : S.show === 'effect' ? (Math.abs(x) < .05 ? '' : x.toFixed(1).replace('-', '−')) : percent(x);
  const system = matchMedia('(prefers-color-scheme: dark)');
  const theme = () => S.theme === 'auto' ? (system.matches ? 'dark' : 'light') : S.theme;
  function heat(node, x) {
    const t = Math.abs(x) / max[S.show] || 0, isEffect = S.show === 'effect', { classList, style } = node;
    classList.toggle('heat', known(x));
    classList.toggle('for', isEffect && x >= 0);
    classList.toggle('against', isEffect && x < 0);
    // Dark or light digits, whichever can be read better.
    classList.toggle('full', t > (isEffect ? .36 : .5));
    // The colours go from nothing to the middle one, and from there to the last.
    style.setProperty('--mid-share', percent(Math.min(1, 2 * t), 1) + '%');
    style.setProperty('--end-share', percent(Math.max(0, 2 * t - 1), 1) + '%');
  }

  // ---- the large picture, and the same numbers as a table ----
  function sheet(table, isMap, cell) {
    const title = (side, i) => el('th', { scope: side === 'q' ? 'row' : 'col', title: clip(names[side][i], 200), className: (isMap ? 'spot' : '') + (side === 'k' && [...names.k[i]].length > 2 ? ' tall' : ''), at: { q: -1, k: -1, [side]: i } },
      ...[text('small', i + 1), text('bdi', clip(names[side][i]))][side === 'k' && isMap ? 'reverse' : 'slice']());
    const body = rows.map(q => el('tr', {}, title('q', q), ...columns.map(k => cell(q, k))));
    table.replaceChildren(el('thead', {}, el('tr', {}, el('th', { textContent: `${T.key} →\n${T.query} ↓` }), ...columns.map(k => title('k', k)))), el('tbody', {}, ...body));
    return body;
  }
  function fit() {
    const cell = Math.max(18, Math.min(46, Math.floor(($('stage').parentElement.clientWidth - cells[0][0].offsetWidth - 4) / n) - 1));
    $('map').style.setProperty('--cell', cell + 'px');
    $('map').classList.toggle('dense', cell < 25);
  }
  function paint() {
    for (const q of rows) {
      const looked = most(k => weight(q, k));
      for (const k of columns) {
        const td = cells[q][k + 1], x = value(q, k), need = S.show === 'attention' && k === needed[q];
        td.textContent = brief(x);
        td.classList.toggle('none', !known(x));
        td.classList.toggle('need', need);
        td.classList.toggle('hit', need && k === looked);
        heat(td, x);
      }
    }
  }
  function table() {
    if (!$('fold').open) return;
    sheet($('numbers'), false, (q, k) => text('td', known(value(q, k)) ? value(q, k).toFixed(4) : '–'));
    $('numbers').prepend(text('caption', $('map-title').textContent));
    root.dataset.table = S.show === 'effect' ? 'effect' : `${S.layer + 1},${S.head + 1}`;
  }

  // ---- the heads in their order ----
  const rank = () => D.ranking.findIndex(r => r.layer === S.layer && r.head === S.head);
  function heads() {
    const part = (name, x, mark) => {
      const bar = el('i'), tick = el('i');
      bar.style.width = percent(x, 1) + '%';
      tick.style.left = percent(mark, 1) + '%';
      return el('span', { className: 'part' }, text('span', name), el('span', { className: 'track' }, bar, mark ? tick : ''), text('span', percent(x) + ' %'));
    };
    const dots = Math.min(54, Math.max(m, n)) / Math.max(m, n), [width, height] = [n, m].map(x => Math.ceil(x * dots));
    $('heads').replaceChildren(...D.ranking.map((r, i) => {
      const canvas = el('canvas', { width, height }), image = new ImageData(width, height), { data } = image;
      // The largest weight under a dot, for a mean would hide the very peaks that one looks for.
      for (const q of rows) for (const k of columns) {
        const dot = 4 * (Math.floor(q * dots) * width + Math.floor(k * dots));
        data.set([...theme() === 'dark' ? [127, 224, 196] : [13, 100, 115], Math.max(data[dot + 3], 255 * weight(q, k, r) / max.attention)], dot);
      }
      canvas.getContext('2d').putImageData(image, 0, 0);
      canvas.style.width = 54 * width / Math.max(width, height) + 'px';
      return el('button', { type: 'button', className: 'head', role: 'radio', onclick: () => choose(i) }, text('small', i + 1), canvas,
        el('span', {}, text('b', T.name(r.layer + 1, r.head + 1)), part(T.agreement, r.agreement, chance), part(T.mass, r.mass)));
    }));
  }
  function choose(i) {
    if (!D.ranking[i]) return;
    const { layer, head } = D.ranking[i], list = $('heads'), button = list.children[i];
    Object.assign(S, { layer, head, show: 'attention' });
    place();
    if (list.contains(document.activeElement)) button.focus();
    list.scrollTop = button.offsetTop - list.offsetTop - list.clientHeight / 2;
  }

  // ---- the two lines of words ----
  function lines() {
    for (const [side, whole] of [['q', D.target], ['k', D.source]]) {
      const count = pattern => (whole.match(pattern) || []).length;
      $(side).dir = count(RTL) > count(/[A-Za-z]/g) ? 'rtl' : 'ltr';
      $(side).replaceChildren(...names[side].map((w, i) => {
        const { special } = words[side][i];
        const title = [T.word(clip(w), i + 1), ...special ? [T.special] : [], ...side === 'q' ? [T.odds(odds(D.log_probabilities[i]))] : []].join(T.list);
        return el('button', { type: 'button', className: special ? 'tile spot special' : 'tile spot', 'aria-label': title, title, tabIndex: i ? -1 : 0, at: { q: -1, k: -1, [side]: i } }, text('bdi', clip(w), 'word'), text('span', '', 'score'));
      }));
    }
  }
  const at = () => hover || S;
  // What the word that is held or pointed at gets from, or gives to, the words of the other line.
  function refresh(aloud) {
    const now = at(), other = now.q >= 0 ? 'k' : now.k >= 0 ? 'q' : '';
    for (const side in names) [...$(side).children].forEach((tile, i) => {
      const x = side !== other ? NaN : side === 'k' ? value(now.q, i) : value(i, now.k), shown = brief(x);
      tile.setAttribute('aria-pressed', S[side] === i);
      tile.classList.toggle('now', now[side] === i);
      tile.lastChild.textContent = shown === '0' || !shown ? '' : S.show === 'effect' ? shown : shown + ' %';
      heat(tile.firstChild, x);
    });
    $('map').querySelectorAll('.now, .col').forEach(node => node.classList.remove('now', 'col'));
    if (now.q >= 0) cells[now.q][0].parentElement.classList.add('now');
    if (now.k >= 0) for (const row of $('map').rows) row.cells[now.k + 1].classList.add('col');
    const said = sentence(now).trim();
    $('readout').textContent = said;
    if (aloud) $('say').textContent = said;
  }

  // ---- what is said of a cell or a word ----
  function sentence({ q, k }) {
    const say = (side, i) => T.quote(clip(names[side][i])), p = D.log_probabilities[q];
    const isEffect = S.show === 'effect', share = isEffect ? x => 'ln p ' + signed(-x) : x => percent(x, 1) + ' %';
    const best = (side, of) => [...names[side].keys()].filter(i => known(of(i))).sort((a, b) => of(b) - of(a)).slice(0, 3).map(i => T.share(say(side, i), share(of(i)))).join(T.list) || '–';
    if (q < 0) return k < 0 ? T.hint : T.column[S.show](say('k', k), best('q', i => value(i, k)));
    const looks = k < 0 ? T.row[S.show](say('q', q), odds(p), best('k', i => value(q, i)))
      : T.cell(say('q', q), say('k', k), k + 1, percent(weight(q, k), 2), 1 + columns.filter(j => weight(q, j) > weight(q, k)).length, n);
    const out = k < 0 ? needed[q] : k, e = effect(q, out);
    if (isEffect && k < 0) return looks;
    return (isEffect && known(e) ? '' : looks) + (known(e) ? T[k < 0 ? 'needs' : 'without'](say('q', q), say('k', out), odds(p), odds(known(p) ? p - e : p), signed(-e)) : '');
  }

  // ---- pointer and keys ----
  function aim(next) {
    if (JSON.stringify(next) !== JSON.stringify(hover)) { hover = next; refresh(); }
  }
  function pick(q, k) {
    Object.assign(S, { q, k });
    hover = null;
    refresh(true); writeHash();
  }
  function reveal() {
    for (const side in names) {
      const box = $(side), tile = box.children[S[side]];
      // What lies under the pointer must not move.
      if (tile && !box.matches(':hover')) box.scrollTop = tile.offsetTop - box.offsetTop - box.clientHeight / 2;
    }
    if (S.q < 0 && S.k < 0) return;
    const cell = cells[Math.max(0, S.q)][S.k + 1], stage = $('stage');
    stage.scrollTo(S.k < 0 ? stage.scrollLeft : cell.offsetLeft - stage.clientWidth / 2, S.q < 0 ? stage.scrollTop : cell.offsetTop - stage.clientHeight / 2);
  }
  const spot = e => e.target.closest?.('.spot');
  document.addEventListener('pointerover', e => aim(spot(e)?.at || null));
  root.addEventListener('pointerleave', () => aim(null));
  document.addEventListener('focusin', e => aim(spot(e)?.at || null));
  document.addEventListener('click', e => {
    const node = spot(e);
    if (!node) return;
    const { q, k } = node.at;
    if (q === S.q && k === S.k) pick(-1, -1); else pick(q, k);
    if (node.matches('.tile')) reveal();
  });
  for (const id of ['q', 'k', 'heads']) $(id).addEventListener('keydown', e => {
    const all = [...$(id).children], i = all.indexOf(document.activeElement), turn = $(id).dir === 'rtl' ? -1 : 1;
    const go = { ArrowRight: i + turn, ArrowLeft: i - turn, ArrowDown: i + 1, ArrowUp: i - 1, Home: 0, End: all.length - 1 }[e.key];
    if (go === undefined) return;
    e.preventDefault();
    const next = Math.min(all.length - 1, Math.max(0, go));
    if (id === 'heads') return choose(next);
    all.forEach((tile, j) => { tile.tabIndex = j === next ? 0 : -1; });
    all[next].focus();
  });
  $('stage').addEventListener('keydown', e => {
    const { q, k } = S, within = (i, count) => Math.min(count - 1, Math.max(0, i));
    const go = { ArrowLeft: [q, k - 1], ArrowRight: [q, k + 1], ArrowUp: [q - 1, k], ArrowDown: [q + 1, k], Home: [q, 0], End: [q, n] }[e.key];
    if (go) pick(within(go[0], m), within(go[1], n)); else if (e.key === 'Enter') pick(q, -1); else return;
    e.preventDefault();
    reveal();
  });

  // ---- the rest of the page ----
  function place() {
    const isEffect = S.show === 'effect', name = isEffect ? T.effects : T.name(S.layer + 1, S.head + 1), top = max[S.show];
    $('map-title').textContent = isEffect ? name : T.map(name);
    $('lines-title').textContent = T.lines(name);
    $('map-note').textContent = T.mapNote[S.show];
    for (const name in CHOICES) for (const choice of CHOICES[name]) $(choice)?.setAttribute('aria-pressed', choice === S[name]);
    [...$('heads').children].forEach((b, i) => { b.setAttribute('aria-checked', i === rank()); b.tabIndex = i === rank() ? 0 : -1; });
    document.body.classList.toggle('effects', isEffect);
    $('ticks').replaceChildren(...(isEffect ? [signed(-top, 1), '0', signed(top, 1)] : [0, top / 2, top].map(x => percent(x) + ' %')).map(x => text('span', x)));
    $('marks').textContent = isEffect ? '' : T.marks;
    paint(); refresh(); table(); writeHash();
  }
  function show() {
    T = STRINGS[S.lang];
    root.lang = S.lang;
    root.dataset.theme = theme();
    document.title = `${T.title(D.model)} – Chumoku`;
    document.querySelectorAll('[data-t]').forEach(node => { node.textContent = T[node.dataset.t]; });
    const logs = D.log_probabilities.filter(known), japanese = /[\u3040-\u30ff]/.test(D.source + D.target);
    const fill = {
      theme: T.themes[S.theme], model: D.model, source: D.source, target: D.target, 'source-title': D.is_cut ? T.cut : T.source, 'target-title': D.is_given ? T.given : T.target,
      whole: T.whole(odds(logs.reduce((a, x) => a + x, 0) / logs.length)), chance: T.chance(percent(chance)),
      joining: T.joining(Object.hasOwn(T.rules, D.joining) ? T.rules[D.joining] : D.joining),
    };
    for (const id in fill) $(id).textContent = fill[id];
    if (japanese) for (const id of ['source', 'target', 'q', 'k', 'map', 'numbers']) $(id).lang = 'ja';
    $('keys').replaceChildren(...T.keys.flatMap(([keys, what]) => [el('dt', {}, ...keys.split(' ').map(k => text('kbd', k))), text('dd', what)]));
    heads(); lines();
    cells = sheet($('map'), true, (q, k) => el('td', { className: 'spot', at: { q, k } })).map(row => [...row.children]);
    fit(); place();
  }
  const set = change => { Object.assign(S, change); show(); };
  const swap = next => { S.show = next; place(); };
  const turn = () => set({ theme: CHOICES.theme[(CHOICES.theme.indexOf(S.theme) + 1) % 3] });
  for (const lang of CHOICES.lang) $(lang).addEventListener('click', () => set({ lang }));
  for (const name of CHOICES.show) $(name).addEventListener('click', () => swap(name));
  $('theme').addEventListener('click', turn);
  $('fold').addEventListener('toggle', () => { table(); writeHash(); });
  addEventListener('keydown', e => {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    const act = {
      '[': () => choose(rank() - 1), ']': () => choose(rank() + 1), escape: () => pick(-1, -1), t: turn,
      e: () => swap(S.show === 'effect' ? 'attention' : 'effect'), l: () => set({ lang: S.lang === 'en' ? 'ja' : 'en' }),
      '?': () => { $('help').open = true; $('help').scrollIntoView({ block: 'nearest' }); },
    }[e.key.toLowerCase()];
    if (act) { e.preventDefault(); act(); }
  });
  system.addEventListener('change', show);
  new ResizeObserver(fit).observe($('stage').parentElement);
  const start = () => { readHash(); show(); reveal(); };
  addEventListener('hashchange', start);
  start();
  addEventListener('load', () => {
    // What the promise of the footer rests on: nothing was asked for.
    root.dataset.requests = performance.getEntriesByType('resource').length;
    root.dataset.ready = '1';
  });
})();
