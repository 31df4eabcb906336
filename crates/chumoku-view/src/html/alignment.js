// The page of a translation. Follows page.js and lines.js in the script.
const text = (tag, textContent, className) => el(tag, className ? { textContent, className } : { textContent });
// The two sides: q, the translation (queries), and k, the source (keys).
const words = { q: D.target_words, k: D.source_words }, names = { q: words.q.map(w => plain(w.text)), k: words.k.map(w => plain(w.text)) };
const m = names.q.length, n = names.k.length, rows = [...names.q.keys()], columns = [...names.k.keys()];
const NOTHING = { values: new Float32Array(m * n), rough: false, max: 0 };
const arrayOf = ({ layer, head }) => matrix('weights', layer, head) || NOTHING;
const isSmall = m * n * D.ranking.length <= 4e5;
// The chosen head; place() opens it.
let now = NOTHING;
const weight = (q, k) => now.values[q * n + k];
const effect = (q, k) => D.effects[q]?.[k] ?? NaN;
const isEffect = () => S.view === 'effect';
const value = (q, k) => isEffect() ? effect(q, k) : weight(q, k);
const most = of => columns.reduce((best, k) => of(k) > (best < 0 ? -Infinity : of(best)) ? k : best, -1);
// Null if leaving any word out costs almost nothing.
const needed = rows.map(q => D.needed?.[q] ?? -1);
const effectMax = D.effects.flat().reduce((a, x) => Math.max(a, Math.abs(x) || 0), 0) || 1;
// A large alignment must not wait until every head has been decoded.
const ceiling = () => isEffect() ? effectMax : m * n * D.ranking.length > 4e6 ? 1 : largest('weights') || 1;
const WITHOUT = new Map((D.without || []).map(w => [`${w.layer},${w.head}`, w]));

// ---- state, and its copy in the link ----
const VIEWS = ['attention', 'effect', 'lines'], LEAST = 10;
const SORTS = ['agreement', 'mass', 'entropy', 'end', 'strongest'].filter(sort => D.ranking.every(r => known(r[sort])));
const CHOICES = { lang: ['en', 'ja'], theme: THEMES, view: VIEWS, sort: SORTS };
const S = { lang: root.lang === 'ja' ? 'ja' : 'en', theme: 'auto', view: 'attention', sort: SORTS[0] };
function readHash() {
  const p = linked();
  const first = r => r.layer === (D.first_layer ?? -1) && r.head === (D.first_head ?? -1);
  const asked = r => r.layer === fromOne(p.get('layer'), D.layers) && r.head === fromOne(p.get('head'), D.heads);
  ({ layer: S.layer, head: S.head } = D.ranking.find(asked) || D.ranking.find(first) || D.ranking[0]);
  for (const name in CHOICES) if (CHOICES[name].includes(p.get(name))) S[name] = p.get(name);
  // Links of older pages use `show`.
  if (VIEWS.includes(p.get('show'))) S.view = p.get('show');
  S.step = fromOne(p.get('step'), m) + 1 || m;
  // The first word by default; while the translation grows, the newest.
  S.q = p.has('target') || p.has('source') ? fromOne(p.get('target'), m) : S.step < m ? S.step - 1 : 0;
  S.k = fromOne(p.get('source'), n);
  S.least = fromOne(p.get('least'), 50) + 1 || LEAST;
  S.off = p.get('off') === '1' && WITHOUT.size > 0;
  if (p.get('table') === '1') $('fold').open = true;
}
function writeHash() {
  const { layer, head, q, k, lang, theme, view, sort, step, least, off } = S;
  link(new URLSearchParams({ layer: layer + 1, head: head + 1, target: q + 1, source: k + 1, view, sort, step, least, off: Number(off), lang, theme, table: Number($('fold').open) }));
}
let T, hover = null, cells;

// ---- numbers and colors ----
const odds = log => known(log) ? percent(Math.min(1, Math.exp(log)), 1) : '–';
const brief = x => !known(x) ? '' : isEffect() ? (Math.abs(x) < .05 ? '' : x.toFixed(1).replace('-', '−')) : percent(x);
function heat(node, x) {
  const t = Math.abs(x) / max || 0, isOdds = isEffect(), { classList, style } = node;
  classList.toggle('heat', known(x));
  classList.toggle('for', isOdds && x >= 0);
  classList.toggle('against', isOdds && x < 0);
  // Dark or light digits, whichever has more contrast.
  classList.toggle('full', t > (isOdds ? .36 : .5));
  // Colors go from zero to the middle color, and from there to the last.
  style.setProperty('--mid-share', percent(Math.min(1, 2 * t), 1) + '%');
  style.setProperty('--end-share', percent(Math.max(0, 2 * t - 1), 1) + '%');
}
let max = 1;

// ---- the large picture, and the same numbers as a table ----
function title(side, i, isMap) {
  const parts = [text('small', i + 1), text('bdi', clip(names[side][i]))];
  return el('th', { scope: side === 'q' ? 'row' : 'col', title: clip(names[side][i], 200), className: (isMap ? 'spot' : '') + (side === 'k' && [...names.k[i]].length > 2 ? ' tall' : ''), at: { q: -1, k: -1, [side]: i } }, ...side === 'k' && isMap ? parts.reverse() : parts);
}
function sheet(table, isMap, cell) {
  const body = rows.map(q => el('tr', {}, title('q', q, isMap), ...columns.map(k => cell(q, k))));
  table.replaceChildren(el('thead', {}, el('tr', {}, el('th', { textContent: `${T.key} →\n${T.query} ↓` }), ...columns.map(k => title('k', k, isMap)))), el('tbody', {}, ...body));
  return body;
}
function fit() {
  if (S.view === 'lines') return lines.drawSoon();
  const cell = Math.max(18, Math.min(46, Math.floor(($('stage').parentElement.clientWidth - cells[0][0].offsetWidth - 4) / n) - 1));
  $('map').style.setProperty('--cell', cell + 'px');
  $('map').classList.toggle('dense', cell < 25);
  hintScroll($('picture'), isWider($('stage')));
  scrollHints();
}
function paint() {
  for (const q of rows) {
    const looked = most(k => weight(q, k));
    for (const k of columns) {
      const td = cells[q][k + 1], x = value(q, k), need = !isEffect() && k === needed[q];
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
  if (S.view === 'lines') {
    const pairs = lines.list();
    $('numbers').replaceChildren(headRow([T.query, T.key, T.part]),
      el('tbody', {}, ...pairs.map(i => el('tr', {}, title('q', Math.floor(i / n)), title('k', i % n), text('td', cellText(now.values[i], now.rough))))));
  } else sheet($('numbers'), false, (q, k) => text('td', !known(value(q, k)) ? '–' : isEffect() ? fixed(value(q, k)) : cellText(value(q, k), now.rough)));
  $('numbers').prepend(text('caption', $('map-title').textContent + (S.view === 'lines' ? ` (≥ ${S.least} %)` : '')));
  root.dataset.table = isEffect() ? 'effect' : `${S.layer + 1},${S.head + 1}`;
}

// ---- the heads, largest value first ----
const ordered = () => [...D.ranking].sort((a, b) => b[S.sort] - a[S.sort] || (S.sort === 'agreement' ? b.mass - a.mass : 0));
let order = D.ranking;
const rank = () => order.findIndex(r => r.layer === S.layer && r.head === S.head);
function heads() {
  const part = (name, x, mark) => {
    const bar = el('i'), tick = el('i');
    bar.style.width = percent(x, 1) + '%';
    tick.style.left = percent(mark, 1) + '%';
    return el('span', { className: 'part' }, text('span', name), el('span', { className: 'track' }, bar, mark ? tick : ''), text('span', percent(x) + ' %'));
  };
  const dots = Math.min(54, Math.max(m, n)) / Math.max(m, n), [width, height] = [n, m].map(x => Math.ceil(x * dots));
  const color = theme() === 'dark' ? [127, 224, 196] : [13, 100, 115], jobs = [], top = isEffect() ? largest('weights') || 1 : ceiling();
  order = ordered();
  fillSelect('sort', SORTS.map(sort => [sort, T.sorts[sort]]), S.sort);
  $('heads').replaceChildren(...order.map((r, i) => {
    const canvas = el('canvas', { width, height });
    jobs.push(() => {
      const image = new ImageData(width, height), { data } = image, { values } = arrayOf(r);
      // A dot shows the largest of its weights, because a mean would hide the peaks.
      for (const q of rows) for (const k of columns) {
        const dot = 4 * (Math.floor(q * dots) * width + Math.floor(k * dots));
        data.set([...color, Math.max(data[dot + 3], 255 * values[q * n + k] / top)], dot);
      }
      canvas.getContext('2d').putImageData(image, 0, 0);
    });
    canvas.style.width = 54 * width / Math.max(width, height) + 'px';
    return el('button', { type: 'button', className: 'head', role: 'radio', onclick: () => choose(i) }, text('small', i + 1), canvas,
      el('span', {}, text('b', T.name(r.layer + 1, r.head + 1)), part(T.agreement, r.agreement, r.by_chance), part(T.mass, r.mass), ...['agreement', 'mass'].includes(S.sort) ? [] : [part(T.sorts[S.sort], r[S.sort])]));
  }));
  inSlices(jobs, isSmall);
}
function markHeads() {
  [...$('heads').children].forEach((b, i) => { b.setAttribute('aria-checked', i === rank()); b.tabIndex = i === rank() ? 0 : -1; });
}
function choose(i) {
  if (!order[i]) return;
  const { layer, head } = order[i], list = $('heads'), button = list.children[i];
  Object.assign(S, { layer, head, view: isEffect() ? 'attention' : S.view });
  place();
  if (list.contains(document.activeElement)) button.focus();
  list.scrollTop = button.offsetTop - list.offsetTop - list.clientHeight / 2;
}
function openHead(layer, head) {
  choose(order.findIndex(r => r.layer === layer && r.head === head));
  $('heads').querySelector('[aria-checked="true"]').focus({ preventScroll: true });
  $('map-title').closest('section').scrollIntoView();
}

// ---- the translation without the head ----
function about() {
  const w = WITHOUT.get(`${S.layer},${S.head}`), isShown = S.off && w && !isEffect();
  $('off').hidden = !WITHOUT.size || isEffect();
  $('off').setAttribute('aria-pressed', S.off);
  $('off-panel').hidden = !isShown;
  root.dataset.off = isShown ? `${S.layer + 1},${S.head + 1}` : '';
  if (!isShown) return;
  $('off-summary').replaceChildren(...w.translation === D.target ? [T.offSame] : [T.offChanges, ' ', el('bdi', { text: plain(w.translation), lang: isKana(w.translation) ? 'ja' : '' })]);
  $('off-summary').classList.toggle('changes', w.translation !== D.target);
  const ln = x => fixed(x).replace('-', '−');
  const change = rows.map(q => w.log_probabilities[q] - D.log_probabilities[q]), worst = change.reduce((a, x, q) => x < change[a] ? q : a, 0);
  compareTable($('off-table'), T.offHead, rows.map(q => [names.q[q], ln(D.log_probabilities[q]), ln(w.log_probabilities[q]), signed(change[q], 4)]), worst);
}

// ---- the two lines of words ----
function tiles() {
  for (const [side, whole] of [['q', D.target], ['k', D.source]]) {
    $(side).dir = flows(whole);
    $(side).replaceChildren(...names[side].map((w, i) => {
      const { special } = words[side][i];
      const title = [T.word(clip(w), i + 1), ...special ? [T.special] : [], ...side === 'q' ? [T.odds(odds(D.log_probabilities[i]))] : []].join(T.list);
      return el('button', { type: 'button', className: special ? 'tile spot special' : 'tile spot', 'aria-label': title, title, tabIndex: i ? -1 : 0, at: { q: -1, k: -1, [side]: i } }, text('bdi', clip(w), 'word'), text('span', '', 'score'));
    }));
  }
}
const at = () => hover || S;
// Weights between the selected word and the words of the other line.
function refresh(aloud) {
  const lit = at(), other = lit.q >= 0 ? 'k' : lit.k >= 0 ? 'q' : '';
  for (const side in names) [...$(side).children].forEach((tile, i) => {
    const x = side !== other ? NaN : side === 'k' ? value(lit.q, i) : value(i, lit.k), shown = brief(x);
    tile.setAttribute('aria-pressed', S[side] === i);
    tile.classList.toggle('now', lit[side] === i);
    tile.lastChild.textContent = shown === '0' || !shown ? '' : isEffect() ? shown : shown + ' %';
    heat(tile.firstChild, x);
  });
  $('map').querySelectorAll('.now, .col').forEach(node => node.classList.remove('now', 'col'));
  if (lit.q >= 0) cells[lit.q][0].parentElement.classList.add('now');
  if (lit.k >= 0) for (const row of $('map').rows) row.cells[lit.k + 1].classList.add('col');
  const said = sentence(lit).trim();
  $('readout').textContent = said;
  if (aloud) $('say').textContent = said;
  if (S.view === 'lines') lines.drawSoon();
}

// ---- sentences about a cell or a word ----
function sentence({ q, k }) {
  const say = (side, i) => T.quote(clip(names[side][i])), p = D.log_probabilities[q], show = isEffect() ? 'effect' : 'attention', about = now.rough ? '≈ ' : '';
  const shareOf = isEffect() ? x => 'ln p ' + signed(-x) : x => share(x, 1, now.rough);
  const best = (side, of) => largestWords(names[side], i => side === 'k' || i < S.step ? of(i) : NaN, i => say(side, i), shareOf);
  if (q < 0) return k < 0 ? T.hint : T.column[show](say('k', k), best('q', i => value(i, k)));
  const looks = k < 0 ? T.row[show](say('q', q), odds(p), best('k', i => value(q, i)))
    : T.cell(say('q', q), say('k', k), k + 1, about + percent(weight(q, k), about ? 1 : 2), 1 + columns.filter(j => weight(q, j) > weight(q, k)).length, n);
  const out = k < 0 ? needed[q] : k, e = effect(q, out);
  if (isEffect() && k < 0) return looks;
  return (isEffect() && known(e) ? '' : looks) + (known(e) ? T[k < 0 ? 'needs' : 'without'](say('q', q), say('k', out), odds(p), odds(known(p) ? p - e : p), signed(-e)) : '');
}

// ---- lines between the two texts ----
const held = () => S.q >= 0 ? { side: 0, i: S.q } : S.k >= 0 ? { side: 1, i: S.k } : null;
const lines = makeLines($('lines-stage'), {
  names: [names.q, names.k], special: [words.q, words.k].map(list => list.map(w => w.special)),
  numbers: () => now.values, rough: () => now.rough, least: () => S.least / 100 - 1e-9, titles: () => [T.query, T.key],
  row: q => q >= S.step ? 'none' : q === S.step - 1 && S.step < m ? 'new' : 'shown', held,
  chosen: () => hover ? hover.q >= 0 ? { side: 0, i: hover.q } : hover.k >= 0 ? { side: 1, i: hover.k } : held() : held(),
  hover: spot => aim(spot && { q: spot.side ? -1 : spot.i, k: spot.side ? spot.i : -1 }),
  pick: (side, i) => { const [q, k] = side ? [-1, i] : [i, -1]; if (q === S.q && k === S.k) pick(-1, -1); else pick(q, k); },
  hold: (side, i) => pick(side ? -1 : Math.min(i, S.step - 1), side ? i : -1),
});

// ---- the growing translation: only its first words, the newest highlighted ----
let playing = 0;
function grow() {
  rows.forEach(q => {
    const later = q >= S.step, newest = S.step < m && q === S.step - 1;
    for (const node of [cells[q][0].parentElement, $('q').children[q]]) { node.classList.toggle('later', later); node.classList.toggle('newest', newest); }
  });
  $('step').max = m; $('step').value = S.step;
  $('step').setAttribute('aria-valuetext', T.step(S.step, m));
  $('step-now').textContent = T.step(S.step, m);
  $('play').textContent = playing ? T.pause : T.play;
  $('play').setAttribute('aria-pressed', playing > 0);
  root.dataset.step = S.step;
}
function go(step, aloud) {
  S.step = within(step - 1, m) + 1;
  grow();
  pick(S.step - 1, -1, aloud);
  reveal();
}
function pause() {
  clearInterval(playing);
  playing = 0;
}
function play() {
  if (playing) { pause(); grow(); return; }
  playing = setInterval(() => { if (S.step + 1 >= m) pause(); go(S.step + 1, false); }, 800);
  go(S.step >= m ? 1 : S.step, true);
}
const byHand = step => { pause(); go(step, true); };

// ---- pointer and keys ----
function aim(next) {
  if (next && next.q >= S.step) next = null;
  if (JSON.stringify(next) !== JSON.stringify(hover)) { hover = next; refresh(); }
}
function pick(q, k, aloud = true) {
  Object.assign(S, { q, k });
  hover = null;
  refresh(aloud); writeHash();
}
function reveal() {
  for (const side in names) {
    const box = $(side), tile = box.children[S[side]];
    // Elements under the pointer must not move.
    if (tile && !box.matches(':hover')) box.scrollTop = tile.offsetTop - box.offsetTop - box.clientHeight / 2;
  }
  if (S.q < 0 && S.k < 0) return;
  if (S.view === 'lines') return lines.reveal();
  const cell = cells[Math.max(0, S.q)][S.k + 1], stage = $('stage');
  stage.scrollTo(S.k < 0 ? stage.scrollLeft : cell.offsetLeft - stage.clientWidth / 2, S.q < 0 ? stage.scrollTop : cell.offsetTop - stage.clientHeight / 2);
}
const spot = e => e.target.closest?.('.spot');
document.addEventListener('pointerover', e => { if (!e.target.closest?.('#lines-stage')) aim(spot(e)?.at || null); });
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
  const to = { ArrowRight: i + turn, ArrowLeft: i - turn, ArrowDown: i + 1, ArrowUp: i - 1, Home: 0, End: all.length - 1 }[e.key];
  if (to === undefined) return;
  e.preventDefault();
  const next = within(Math.max(0, to), id === 'q' ? S.step : all.length);
  if (id === 'heads') return choose(next);
  all.forEach((tile, j) => { tile.tabIndex = j === next ? 0 : -1; });
  all[next].focus();
});
$('stage').addEventListener('keydown', e => {
  const { q, k } = S, clamp = (i, count) => within(Math.max(0, i), count);
  const to = { ArrowLeft: [q, k - 1], ArrowRight: [q, k + 1], ArrowUp: [q - 1, k], ArrowDown: [q + 1, k], Home: [q, 0], End: [q, n] }[e.key];
  if (to) pick(clamp(to[0], S.step), clamp(to[1], n)); else if (e.key === 'Enter') pick(q, -1); else return;
  e.preventDefault();
  reveal();
});

// ---- the rest of the page ----
// Elements that show the chosen head and view.
function place() {
  now = arrayOf(S);
  max = ceiling();
  const name = isEffect() ? T.effects : T.name(S.layer + 1, S.head + 1), isLines = S.view === 'lines';
  $('map-title').textContent = isEffect() ? name : T.map(name);
  $('lines-title').textContent = T.lines(name);
  $('map-note').textContent = T.mapNote[S.view] + (now.rough && !isEffect() ? ' ' + T.roughNote : '');
  for (const lang of CHOICES.lang) $(lang).setAttribute('aria-pressed', lang === S.lang);
  markTabs($('views'), S.view);
  $('picture').hidden = isLines;
  $('lines-panel').hidden = !isLines;
  document.body.classList.toggle('effects', isEffect());
  document.body.classList.toggle('is-lines', isLines);
  $('ticks').replaceChildren(...(isEffect() ? [signed(-max, 1), '0', signed(max, 1)] : [0, max / 2, max].map(x => percent(x) + ' %')).map(x => text('span', x)));
  $('marks').textContent = isEffect() || isLines ? '' : T.marks;
  $('least').value = S.least;
  $('least-now').textContent = S.least + ' %';
  $('lines-stage').setAttribute('aria-label', T.map(name));
  markHeads(); about(); grow();
  if (isLines) lines.draw(); else paint();
  refresh(); table(); writeHash();
  root.dataset.drawn ??= Math.round(performance.now());
}
function show() {
  T = STRINGS[S.lang];
  root.lang = S.lang;
  root.dataset.theme = theme();
  document.title = `${T.title(D.model)} – Chumoku`;
  document.querySelectorAll('[data-t]').forEach(node => { node.textContent = T[node.dataset.t]; });
  const logs = D.log_probabilities.filter(known), japanese = isKana(D.source + D.target);
  const fill = {
    theme: T.themes[S.theme], model: D.model, source: D.source, target: D.target, 'source-title': D.is_cut ? T.cut : T.source, 'target-title': D.is_given ? T.given : T.target,
    whole: T.whole(odds(logs.reduce((a, x) => a + x, 0) / logs.length)), chance: T.chance,
    joining: T.joining(Object.hasOwn(T.rules, D.joining) ? T.rules[D.joining] : D.joining),
    'view-attention': T.attention, 'view-effect': T.effect, 'view-lines': T.linesView,
  };
  for (const id in fill) $(id).textContent = fill[id];
  if (japanese) for (const id of ['source', 'target', 'q', 'k', 'map', 'numbers', 'lines-panel', 'off-table']) $(id).lang = 'ja';
  $('keys').replaceChildren(...T.keys.flatMap(([keys, what]) => [el('dt', {}, ...keys.split(' ').map(k => text('kbd', k))), text('dd', what)]));
  $('views').setAttribute('aria-label', T.viewsTitle);
  heads(); tiles(); patch(); lens();
  cells = sheet($('map'), true, (q, k) => el('td', { className: 'spot', at: { q, k } })).map(row => [...row.children]);
  place(); fit();
}
const set = change => { Object.assign(S, change); show(); };
const swap = next => { S.view = next; hover = null; place(); fit(); reveal(); };
const turn = () => set({ theme: THEMES[(THEMES.indexOf(S.theme) + 1) % 3] });
function switchOff() {
  if ($('off').hidden) return;
  S.off = !S.off;
  about(); writeHash();
  if (S.off) $('say').textContent = $('off-summary').textContent;
}
for (const lang of CHOICES.lang) $(lang).addEventListener('click', () => set({ lang }));
makeTabs($('views'), VIEWS, swap);
$('theme').addEventListener('click', turn);
$('fold').addEventListener('toggle', () => { table(); writeHash(); });
$('sort').addEventListener('change', e => { S.sort = e.target.value; heads(); markHeads(); writeHash(); });
$('off').addEventListener('click', switchOff);
$('play').addEventListener('click', play);
$('step').addEventListener('input', e => byHand(Number(e.target.value)));
$('least').addEventListener('input', e => { S.least = Number(e.target.value); place(); });
addEventListener('keydown', e => {
  if (e.ctrlKey || e.metaKey || e.altKey || e.target.tagName === 'SELECT') return;
  const act = {
    '[': () => choose(rank() - 1), ']': () => choose(rank() + 1), escape: () => { pause(); grow(); pick(-1, -1); }, t: turn, o: switchOff,
    p: play, ',': () => byHand(S.step - 1 || 1), '.': () => byHand(S.step + 1),
    e: () => swap(isEffect() ? 'attention' : 'effect'), v: () => swap(VIEWS[(VIEWS.indexOf(S.view) + 1) % 3]), l: () => set({ lang: S.lang === 'en' ? 'ja' : 'en' }),
    '?': () => { $('help').open = true; $('help').scrollIntoView({ block: 'nearest' }); },
  }[e.key.toLowerCase()];
  if (act) { e.preventDefault(); act(); }
});
system.addEventListener('change', show);
new ResizeObserver(() => requestAnimationFrame(() => fit())).observe($('view'));
const start = () => { pause(); readHash(); show(); reveal(); };
addEventListener('hashchange', start);
start();
