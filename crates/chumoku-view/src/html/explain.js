// The page of an explanation; the last file of its script.
// ---- state, and its copy in the link ----
const VIEWS = Object.keys(KINDS), hasView = { heatmap: true, lines: true, depth: !!D.depth && hasMap('queries') && hasMap('keys'), values: hasMap('value_weighted'), rollout: hasMap('rollout') };
const isLarge = n > 128, isModel = D.kind === 'language_model';
// An encoder predicts nothing: a text is compared with another, or with itself.
const isEncoder = D.kind === 'encoder', isItself = isEncoder && D.label === D.text;
// A large text does not wait for the maximum over all heads.
const SCALE = isLarge ? 'head' : 'all', LEAST = 10;
const S = { lang: root.lang === 'ja' ? 'ja' : 'en' };
function readHash() {
  const p = linked(), oneOf = (name, choices, other) => choices.includes(p.get(name)) ? p.get(name) : other;
  const counted = (name, count, other) => { const i = fromOne(p.get(name), count); return i < 0 ? other : i; };
  S.layer = counted('layer', D.layers, D.first_layer || 0);
  S.head = counted('head', D.heads, D.first_head || 0);
  S.lang = oneOf('lang', ['en', 'ja'], S.lang);
  S.theme = oneOf('theme', THEMES, 'auto');
  S.scale = oneOf('scale', ['all', 'head', 'one'], SCALE);
  S.root = p.get('root') === '1';
  S.word = counted('word', n, -1);
  S.side = oneOf('side', ['query', 'key'], 'query');
  S.query = counted('query', n, -1);
  S.key = S.query < 0 ? -1 : counted('key', n, -1);
  if (S.key < 0) S.query = -1;
  S.view = oneOf('view', VIEWS.filter(view => hasView[view]), 'heatmap');
  S.sort = oneOf('sort', Object.keys(SORTS).filter(isThere), 'layer');
  S.heads = (p.get('heads') || '').split(',').map(text => fromOne(text, D.heads)).filter(h => h >= 0);
  S.least = counted('least', 50, LEAST - 1) + 1;
  S.off = p.get('off') === '1' && WITHOUT.size > 0;
  S.from = counted('from', pieces.length, -1);
  S.to = counted('to', pieces.length, -1);
  S.order = oneOf('order', ['dimension', 'product'], 'dimension');
  if (p.get('table') === '1') $('numbers-fold').open = true;
  startDepth();
}
function writeHash() {
  const p = new URLSearchParams({ layer: S.layer + 1, head: S.head + 1, lang: S.lang });
  const put = (name, value, normal) => { if (value !== normal) p.set(name, value); };
  put('view', S.view, 'heatmap');
  put('theme', S.theme, 'auto');
  put('scale', S.scale, SCALE);
  put('root', Number(S.root), 0);
  put('word', S.word + 1, 0);
  put('side', S.side, 'query');
  if (S.query >= 0) { p.set('query', S.query + 1); p.set('key', S.key + 1); }
  put('sort', S.sort, 'layer');
  put('heads', S.heads.map(h => h + 1).join(), '');
  put('least', S.least, LEAST);
  put('off', Number(S.off), 0);
  if (S.view === 'depth') { p.set('from', S.from + 1); p.set('to', S.to + 1); put('order', S.order, 'dimension'); }
  put('table', Number($('numbers-fold').open), 0);
  link(p);
}
// Default tokens of the breakdown: those of the selected cell or word.
function startDepth() {
  const word = S.query >= 0 ? S.query : S.word, last = pieces.length - 1;
  if (S.from < 0) S.from = word >= 0 ? firstPiece(word) : Math.min(1, last);
  if (S.to < 0) S.to = S.key >= 0 ? firstPiece(S.key) : 0;
  if (D.causal) S.to = Math.min(S.to, S.from);
}
let T;

// Words that the language model wrote itself.
const isWritten = i => known(D.prompt_words) && i >= D.prompt_words;

// ---- words with their scores ----
const kana = isKana(D.text), texts = D.text.split('\u001f');
function tiles() {
  const { whole, beyond = [] } = D.attribution, both = (s, w) => signed(s, isEncoder ? 3 : 2) + (known(w) ? ` (${signed(w)})` : '');
  const box = $('tiles'), top = [...scores, ...beyond.map(w => w.score)].reduce((m, s) => Math.max(m, Math.abs(s) || 0), 0);
  // Effects that are all printed as 0.00 have no color.
  const most = top < (isEncoder ? 5e-4 : 5e-3) ? Infinity : top;
  box.dir = flows(D.text);
  box.classList.toggle('long', n + beyond.length > 80);
  // The largest effect has the strongest color that leaves the word legible.
  const word = (name, s) => { const node = el('bdi', { class: 'word', text: clip(name) }); node.style.setProperty('--effect', (Math.abs(s) / most * .55 || 0).toFixed(3)); return node; };
  const kind = s => s < 0 ? 'tile minus' : 'tile';
  box.replaceChildren(...names.map((name, i) => {
    const s = scores[i], { special } = D.words[i], text = both(s, whole?.[i]);
    const tile = el('button', { type: 'button', class: (special ? 'tile special' : kind(s)) + (isWritten(i) ? ' written' : ''), 'aria-pressed': S.word === i, 'aria-label': T.tile(name, i + 1, text), title: special ? T.special : clip(name, 200) },
      word(name, s), el('span', { class: 'strip' }), el('span', { class: 'score', text: special ? '\u00a0' : text }));
    tile.addEventListener('click', () => hold(i));
    return tile;
  }));
  // Words beyond the input length cannot be selected, because they have no attention.
  $('beyond').replaceChildren(...beyond.map(({ text, score, whole }, i) => el('span', { class: kind(score), title: T.tile(plain(text), n + i + 1, both(score, whole)) },
    word(plain(text), score), el('span', { class: 'strip' }), el('span', { class: 'score', text: both(score, whole) }))));
  $('beyond').dir = flows(D.text);
  $('beyond').hidden = $('beyond-note').hidden = !beyond.length;
  $('beyond-note').textContent = T.beyond(beyond.length);
  strips();
}
// Each word is underlined in the color of its weight from the selected word.
function strips() {
  const q = S.word >= 0 ? S.word : hover ? hover.q ?? -1 : S.query, { values } = shown(), max = q < 0 ? 1 : ceilingNow(), lut = LUTS[theme()];
  const all = $('tiles').children;
  for (let i = 0; i < all.length; i++) {
    all[i].setAttribute('aria-pressed', S.word === i);
    all[i].children[1].style.background = q < 0 || isMasked(q, i) ? 'none' : lut[shade(values[q * n + i], max)].css;
  }
}

// ---- sentences about a cell or a word ----
const rankIn = (row, k) => 1 + row.reduce((c, x) => c + (x > row[k] ? 1 : 0), 0);
const quoted = i => T.q(clip(names[i]));
const named = (i, self) => i === self ? T.self : quoted(i);
const isDerived = () => S.view === 'values' || S.view === 'rollout';
function cellSentence(q, k) {
  const { values, rough } = shown(), row = values.subarray(q * n, q * n + n), say = isDerived() ? T.cellBy[S.view] : T.cell;
  if (isMasked(q, k)) return T.cellMasked(quoted(q), quoted(k));
  return say(quoted(q), q + 1, named(k, q), k + 1, (rough ? '≈ ' : '') + percent(row[k], rough ? 1 : 2), rankIn(row, k), seenBy(q), rough ? '≈ ' + row[k].toFixed(3) : exact(row[k]));
}
function best(w, value, rough) {
  return largestWords(names, i => value(i) > 0 ? value(i) : NaN, i => named(i, w), x => (rough ? '≈ ' : '') + percent(x, 1));
}
function heldSentence(w, side) {
  const { rough } = shown(), values = S.view === 'lines' ? lineWeights() : shown().values, to = best(w, k => values[w * n + k], rough), from = best(w, q => values[q * n + w], rough);
  const before = w - 1, wrote = side !== 'key' && !isDerived() && isWritten(w) && before >= 0 ? T.gap + T.wrote(quoted(w), quoted(before), best(before, k => values[before * n + k], rough)) : '';
  return (side === 'key' ? T.seen(quoted(w), from) : (isDerived() ? T.taken : T.held)(quoted(w), to, from)) + wrote;
}
function read(aloud) {
  const at = hover?.k >= 0 ? hover : S.query >= 0 && S.view !== 'lines' ? { q: S.query, k: S.key } : null;
  const word = hover?.side ? hover : { side: S.side, i: S.word };
  const text = S.view === 'lines' ? (word.i >= 0 ? heldSentence(word.i, word.side) : T.linesHint) : at ? cellSentence(at.q, at.k) : S.word >= 0 ? heldSentence(S.word) : T.hint;
  $('readout').textContent = text;
  title();
  if (aloud) $('say').textContent = text;
}
function letGo() {
  hover = null;
  tip.hidden = true;
}
function hold(i) {
  S.word = S.word === i ? -1 : i;
  S.query = S.key = -1; S.side = 'query';
  letGo(); strips(); read(true); draw(); writeHash();
  if (S.view === 'depth' && S.word >= 0) inDepth({ from: firstPiece(S.word) });
}

// ---- lines: of one head, or of several of the layer, each in a color ----
const lineHeads = () => [...new Set([S.head, ...S.heads])].sort((a, b) => a - b);
const headColor = h => `hsl(${Math.round(360 * h / D.heads + 190) % 360} 62% ${theme() === 'dark' ? 66 : 38}%)`;
function lineSets() {
  const heads = lineHeads();
  return heads.length < 2 ? undefined : heads.map(h => ({ numbers: arrayOf('weights', S.layer, h).values, color: headColor(h) }));
}
// Numbers at the words are those of the head, or the mean of several.
let meanOf = '', mean;
function lineWeights() {
  const heads = lineHeads(), stamp = [S.layer, ...heads].join();
  if (heads.length < 2) return shown().values;
  if (stamp !== meanOf) {
    mean = new Float32Array(square);
    for (const h of heads) { const { values } = arrayOf('weights', S.layer, h); for (let i = 0; i < square; i++) mean[i] += values[i] / heads.length; }
    meanOf = stamp;
  }
  return mean;
}
function lineChoices() {
  const heads = lineHeads();
  $('line-heads').hidden = D.heads < 2;
  $('line-heads').ariaLabel = T.lineHeads;
  $('line-heads').replaceChildren(el('span', { class: 'note', text: T.lineHeads }), ...Array.from({ length: D.heads }, (_, h) => {
    const box = el('input', { type: 'checkbox', checked: heads.includes(h), disabled: h === S.head }), swatch = el('i');
    swatch.style.background = heads.length < 2 ? 'var(--accent)' : headColor(h);
    box.addEventListener('change', () => setLineHeads(box.checked ? [...S.heads, h] : S.heads.filter(other => other !== h), h));
    return el('label', {}, box, ...heads.includes(h) ? [swatch] : [], String(h + 1));
  }));
}
function setLineHeads(heads, focused) {
  S.heads = [...new Set(heads)].sort((a, b) => a - b);
  lineChoices(); draw(); table(); read(); writeHash();
  $('line-heads').querySelectorAll('input')[focused]?.focus();
}
const SIDES = ['query', 'key'];
const lines = makeLines($('lines-stage'), {
  names: [names, names], special: [D.words, D.words].map(list => list.map(w => w.special)),
  numbers: () => lineWeights(), sets: lineSets, rough: () => shown().rough, least: () => S.least / 100 - 1e-9, row: () => 'shown', titles: () => [T.looks, T.looked],
  held: () => S.word < 0 ? null : { side: SIDES.indexOf(S.side), i: S.word },
  chosen: () => hover?.side ? { side: SIDES.indexOf(hover.side), i: hover.i } : S.word < 0 ? null : { side: SIDES.indexOf(S.side), i: S.word },
  hover: spot => aim(spot && { side: SIDES[spot.side], i: spot.i, q: spot.side ? -1 : spot.i }),
  pick: (side, i) => holdLine(side, S.word === i && S.side === SIDES[side] ? -1 : i),
  hold: (side, i) => holdLine(side, i),
});
function holdLine(side, i) {
  Object.assign(S, { word: i, side: i < 0 ? 'query' : SIDES[side], query: -1, key: -1 });
  letGo(); strips(); read(true); draw(); writeHash();
}

// ---- the table: the same numbers for screen readers and for copying ----
let tabled = '';
function table() {
  const stamp = [S.view, S.layer, S.head, S.lang, S.view === 'lines' && [S.least, ...lineHeads()]].join();
  // A large table is built only when it is opened.
  if (S.view === 'depth' || stamp === tabled || !($('numbers-fold').open || n <= 60)) return;
  tabled = stamp;
  const { rough } = shown(), isLines = S.view === 'lines', values = isLines ? lineWeights() : shown().values, pairs = isLines && lines.list();
  const name = (tag, scope, i) => el(tag, { scope, title: clip(names[i], 200) }, el('small', { text: i + 1 }), el('bdi', { text: clip(names[i]) }));
  const caption = T.captions[S.view](S.layer + 1, S.head + 1, S.least, pairs.length) + (rough ? ` ${T.roughNote}` : '');
  const columns = isLines ? T.linesHead.map(text => el('th', { scope: 'col', text })) : [el('th', { scope: 'col', text: `${T.query} ${T.key}` }), ...names.map((_, k) => name('th', 'col', k)), el('th', { scope: 'col', class: 'sum', text: T.sum })];
  const rows = isLines ? pairs.map(i => el('tr', {}, name('th', 'row', Math.floor(i / n)), name('td', 'row', i % n), el('td', { text: cellText(values[i], rough) }))) : names.map((_, q) => {
    const tr = el('tr', {}, name('th', 'row', q));
    let sum = 0;
    for (let k = 0; k < n; k++) { const x = values[q * n + k]; sum += x; tr.append(el('td', { text: isMasked(q, k) ? '—' : cellText(x, rough) })); }
    tr.append(el('td', { class: 'sum', text: rough ? '≈' + sum.toFixed(2) : sum.toFixed(4) }));
    return tr;
  });
  $('numbers').replaceChildren(el('caption', { text: caption }), el('thead', {}, el('tr', {}, ...columns)), el('tbody', {}, ...rows));
  root.dataset.table = `${S.layer + 1},${S.head + 1}`;
}

// ---- the rest of the page ----
const SHOWN_CLASSES = 4;
function classes() {
  const halves = D.parts ? [D.parts.attention, D.parts.ngrams] : [];
  const of = (list, label) => { const p = list.find(p => p.label === label); return p ? `${percent(p.probability, 1)} %` : '–'; };
  const headings = D.parts ? T.halves.map(t => el('th', { scope: 'col' }, el('div', { text: t }))) : [];
  const rows = D.probabilities.map((p, i) => {
    const fill = el('span', { class: 'fill' });
    fill.style.width = percent(p.probability, 2) + '%';
    return el('tr', { class: (p.label === D.label ? 'chosen' : '') + (i < SHOWN_CLASSES ? '' : ' further') }, el('th', { scope: 'row', title: p.label }, el('bdi', { text: plain(p.label) })), el('td', { class: 'meter', 'aria-hidden': 'true' }, el('span', { class: 'track' }, fill)),
      el('td', { class: 'whole', text: `${percent(p.probability, 1)} %` }), ...halves.map(half => el('td', { class: 'half', text: of(half, p.label) })));
  });
  const heading = D.parts ? [el('thead', {}, el('tr', {}, el('th', { 'aria-label': T.classHead }), el('td', { 'aria-hidden': 'true' }), ...headings))] : [];
  const more = rows.length - SHOWN_CLASSES;
  const all = more > 0 && !$('classes').classList.contains('open') ? [el('button', { type: 'button', class: 'all', text: T.moreClasses(more) })] : [];
  for (const button of all) button.addEventListener('click', () => { $('classes').classList.add('open'); classes(); });
  $('classes').replaceChildren(...isModel ? [el('caption', { text: T.likeliest })] : [], ...heading, el('tbody', {}, ...rows, ...all.map(button => el('tr', {}, el('td', { colSpan: 5 }, button)))));
}
// Feature columns: value and effect of each, with a bar to either side.
function columns() {
  const all = D.columns || [], most = all.reduce((m, c) => Math.max(m, Math.abs(c.effect)), 0) || 1;
  $('columns-card').hidden = !all.length;
  if (!all.length) return;
  $('columns-title').textContent = D.column_texts.title[S.lang];
  $('columns-note').textContent = D.column_texts.note[S.lang];
  $('columns').replaceChildren(el('tbody', {}, ...all.map(c => {
    const fill = el('i', { class: c.effect < 0 ? 'against' : 'for' });
    fill.style.width = (Math.abs(c.effect) / most * 50).toFixed(2) + '%';
    return el('tr', {}, el('th', { scope: 'row' }, el('bdi', { text: plain(c.name) })), el('td', {}, el('bdi', { text: c.value_text[S.lang] })), el('td', { text: signed(c.effect) }), el('td', { class: 'diverging', 'aria-hidden': 'true' }, fill));
  })));
}
// The title names the chosen word.
function title() {
  const word = S.word >= 0 ? S.word : S.query;
  $('attention-title').textContent = T.attention(word < 0 ? '' : quoted(word), S.layer + 1, S.head + 1);
}
// Elements that show the chosen head and view.
function place() {
  const isPicture = S.view !== 'lines' && S.view !== 'depth';
  $('layer-now').textContent = T.layer(S.layer + 1, D.layers);
  $('head-now').textContent = T.head(S.head + 1, D.heads);
  $('layer-back').disabled = S.layer === 0; $('layer-on').disabled = S.layer === D.layers - 1;
  $('head-back').disabled = S.head === 0; $('head-on').disabled = S.head === D.heads - 1;
  stage.ariaLabel = (S.view === 'heatmap' ? '' : T.views[S.view] + ': ') + T.map(S.layer + 1, S.head + 1, n);
  $('lines-stage').ariaLabel = T.linesMap(S.layer + 1, S.head + 1, n);
  for (const view of VIEWS) $('view-' + view).hidden = !hasView[view];
  markTabs($('views'), S.view);
  $('picture').hidden = !isPicture;
  $('lines').hidden = S.view !== 'lines';
  $('depth').hidden = S.view !== 'depth';
  // In the breakdown the tables are the picture, and they show the choice.
  $('readout').hidden = $('numbers-fold').hidden = S.view === 'depth';
  $('least').value = S.least;
  $('least-now').textContent = S.least + ' %';
  $('view-note').textContent = [T.viewNote[S.view], ...D.causal && isPicture ? [T.causalNote] : [], ...shown().rough ? [T.roughNote] : []].join(T.gap);
  root.dataset.view = S.view;
}
function draw() {
  if (!D.layers) return;
  if (S.view === 'lines') {
    lineChoices();
    lines.draw();
    $('line-count').textContent = T.lineCount(lines.count()) + (lineHeads().length > 1 ? T.lineMean : '');
  } else if (S.view !== 'depth') drawHeatmap();
  root.dataset.drawn ??= Math.round(performance.now());
}
const drawSoon = soon(draw);
// Redraws everything that depends on the head and the view.
function present(aloud) {
  place(); about(); title(); markThumb(); strips();
  if (S.view === 'depth') depth(); else { legend(); read(aloud); draw(); table(); }
}
function choose(l, h) {
  if (!D.layers) return;
  S.layer = within(l, D.layers);
  S.head = within(h, D.heads);
  letGo(); present(true); writeHash();
}
function openHead(l, h) {
  choose(l, h);
  $('thumbs').querySelector('[aria-checked="true"]').focus({ preventScroll: true });
  $('attention-card').scrollIntoView();
}
function look(view) {
  if (!hasView[view]) return;
  letGo();
  if (view === 'depth' && S.query >= 0) S.from = S.to = -1;
  S.view = view;
  startDepth(); present(true); reveal(); draw(); writeHash();
}
function show() {
  const own = STRINGS[S.lang];
  T = isModel ? { ...own, ...own.lm } : isEncoder ? { ...own, ...own.near, ...isItself ? own.itself : {} } : D.layers ? own : { ...own, ...own.alone };
  const said = phrase => S.lang === 'ja' && Object.hasOwn(D.phrases, phrase) ? D.phrases[phrase] : phrase;
  root.lang = S.lang;
  root.dataset.theme = theme();
  document.title = `${T.title(D.model)} – Chumoku`;
  for (const node of document.querySelectorAll('[data-t]')) { node.textContent = T[node.dataset.t]; if (!D.layers) node.hidden ||= !node.textContent; }
  for (const node of document.querySelectorAll('[data-label]')) node.title = node.ariaLabel = T[node.dataset.label];
  $('langs').ariaLabel = T.langs;
  $('views').ariaLabel = T.viewsTitle;
  for (const lang of ['en', 'ja']) $('lang-' + lang).setAttribute('aria-pressed', lang === S.lang);
  for (const view of VIEWS) $('view-' + view).textContent = T.views[view];
  $('theme').textContent = T.themes[S.theme];
  $('model').textContent = D.model;
  $('label').textContent = isModel ? T.q(plain(D.label)) : isItself ? '' : isEncoder ? cosine(D.similarity) : D.number ? D.number_text[S.lang] : D.label;
  const chance = D.probabilities.find(p => p.label === D.label);
  $('chance').textContent = chance && !D.number ? `${percent(chance.probability, 1)} %` : '';
  // The two texts of a pair, one below the other.
  $('text').textContent = texts.join('\n');
  $('against').hidden = $('target').hidden = !isEncoder || isItself;
  $('target').textContent = isEncoder ? D.label : '';
  showText('cut', D.cut);
  for (const id of ['text', 'tiles', 'map', 'lines', 'depth', 'numbers', 'pieces']) if (kana) $(id).lang = 'ja';
  const cls = T.q(isModel ? plain(D.attribution.class) : isEncoder ? clip(plain(D.attribution.class), 60) : D.attribution.class);
  $('effect-title').textContent = T.effect(cls);
  $('effect-note').textContent = T.effectNote(said(D.attribution.method), said(D.attribution.unit)) + ['integral_text', 'curves_text'].map(name => D[name] ? T.gap + D[name][S.lang] : '').join('');
  if ($('curves')) for (const node of $('curves').children) node.hidden = node.lang !== S.lang;
  showText('shares', D.shares);
  $('for-note').textContent = T.forNote(cls);
  $('against-note').textContent = T.againstNote(cls);
  $('against-note').parentElement.hidden = isItself;
  showText('trust-summary', D.trust_text);
  $('both-note').hidden = !D.attribution.whole && !known(D.prompt_words);
  $('both-note').textContent = known(D.prompt_words) ? T.writtenNote : T.bothNote;
  $('joining').textContent = D.layers ? T.joining(said(D.joining)) : '';
  // An n-gram model reads no sub-words.
  $('pieces-fold').hidden = !D.pieces.length;
  $('numbers-wide').ariaLabel = T.tableTitle;
  fillSelect('scale', Object.entries(T.scales), S.scale);
  $('root').checked = S.root;
  $('root').parentElement.title = T.rootHint;
  $('keys-help').replaceChildren(...T.keys.flatMap(([keys, what]) => [el('dt', {}, ...keys.split(' ').map(k => el('kbd', { text: k }))), el('dd', { text: what })]));
  $('pieces').replaceChildren(...names.map((_, w) => el('span', {}, el('small', { text: w + 1 }), ...(piecesOf[w] || []).map(text => el('code', { text })))));
  classes(); tiles(); columns(); patch(); lens(); tokenPath();
  scrollHints();
  // Models without attention have no further cards.
  $('attention-card').hidden = !D.layers;
  if (!D.layers) { $('numbers-fold').hidden = true; return; }
  present(); thumbs();
}
for (const fold of document.querySelectorAll('details')) fold.addEventListener('toggle', scrollHints);
const piecesOf = [];
if ($('curves')) $('curves-place').append($('curves'));
for (const { word, text } of D.pieces) (piecesOf[word] ??= []).push(text);

// ---- controls ----
const set = change => { Object.assign(S, change); show(); writeHash(); };
const otherTheme = () => set({ theme: { auto: 'light', light: 'dark', dark: 'auto' }[S.theme] });
function switchOff() {
  if (!WITHOUT.size) return;
  S.off = !S.off;
  about(); writeHash();
  if (S.off) $('say').textContent = $('off-summary').textContent;
}
for (const lang of ['en', 'ja']) $('lang-' + lang).addEventListener('click', () => set({ lang }));
$('theme').addEventListener('click', otherTheme);
$('scale').addEventListener('change', e => set({ scale: e.target.value }));
$('root').addEventListener('change', e => set({ root: e.target.checked }));
$('sort').addEventListener('change', e => { S.sort = e.target.value; thumbs(); writeHash(); });
$('off').addEventListener('click', switchOff);
$('least').addEventListener('input', e => { S.least = Number(e.target.value); place(); drawSoon(); writeHash(); });
$('least').addEventListener('change', () => { draw(); table(); });
$('save').addEventListener('click', save);
for (const [id, l, h] of [['layer-back', -1, 0], ['layer-on', 1, 0], ['head-back', 0, -1], ['head-on', 0, 1]]) $(id).addEventListener('click', () => choose(S.layer + l, S.head + h));
$('numbers-fold').addEventListener('toggle', () => { table(); writeHash(); });
makeTabs($('views'), VIEWS, look);
const nextView = () => { const there = VIEWS.filter(view => hasView[view]); return there[(there.indexOf(S.view) + 1) % there.length]; };
addEventListener('keydown', e => {
  if (e.ctrlKey || e.metaKey || e.altKey || /^(SELECT|TEXTAREA)$/.test(e.target.tagName)) return;
  const act = {
    '[': () => choose(S.layer - 1, S.head), ']': () => choose(S.layer + 1, S.head),
    ',': () => choose(S.layer, S.head - 1), '.': () => choose(S.layer, S.head + 1),
    v: () => look(nextView()), o: switchOff,
    l: () => set({ lang: S.lang === 'en' ? 'ja' : 'en' }), t: otherTheme,
    '?': () => { $('help').open = true; $('help').scrollIntoView({ block: 'nearest' }); },
    Escape: () => { Object.assign(S, { word: -1, query: -1, key: -1, side: 'query' }); letGo(); strips(); read(); draw(); writeHash(); },
  }[e.key.length === 1 ? e.key.toLowerCase() : e.key];
  if (act) { e.preventDefault(); act(); }
});
system.addEventListener('change', () => { if (S.theme === 'auto') show(); });
new ResizeObserver(() => requestAnimationFrame(() => { drawSoon(); scrollHints(); })).observe($('view'));

const start = () => { readHash(); show(); reveal(); draw(); };
addEventListener('hashchange', start);
start();
