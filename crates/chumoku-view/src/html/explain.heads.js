// All heads as small pictures in a chosen order, the role of a head, and the prediction without it.
const STATISTICS = new Map((D.head_statistics || []).map(s => [`${s.layer},${s.head}`, s]));
const WITHOUT = new Map((D.without || []).map(w => [`${w.layer},${w.head}`, w]));
const statisticsOf = ({ l, h }) => STATISTICS.get(`${l},${h}`);
const withoutOf = ({ l, h }) => WITHOUT.get(`${l},${h}`);
const HEADS = Array.from({ length: D.layers * D.heads }, (_, i) => ({ l: Math.floor(i / D.heads), h: i % D.heads }));

// ---- orders: the number that sorts the heads, largest first, and its format ----
const ROLES = ['sink', 'pairwise', 'local', 'distant', 'mixed'];
const chanceOf = D.probabilities.findIndex(p => p.label === D.label);
// The prediction with all heads, in the order of the classes: that of the network alone if it belongs to an ensemble.
const ownOf = w => w.whole ? D.probabilities.map(p => D.parts.attention.find(own => own.label === p.label)?.probability ?? NaN) : D.probabilities.map(p => p.probability);
const cosine = fixed;
// The change of the predicted probability without the head; for an encoder, of the cosine.
const effectOf = head => { const w = withoutOf(head); return w && known(w.similarity) ? w.similarity - D.similarity : w && chanceOf >= 0 ? w.probabilities[chanceOf] - ownOf(w)[chanceOf] : NaN; };
const share0 = x => percent(x) + ' %';
const SORTS = {
  layer: { figure: () => 0, text: head => statisticsOf(head) ? T.roles[statisticsOf(head).role] ?? '' : '' },
  role: { figure: head => -ROLES.indexOf(statisticsOf(head)?.role), text: head => T.roles[statisticsOf(head)?.role] ?? '' },
  entropy: { field: 'entropy', text: x => known(x) ? x.toFixed(2) : '–' },
  distance: { field: 'distance', text: x => known(x) ? x.toFixed(1) : '–' },
  previous: { field: 'previous', text: share0 }, first: { field: 'first', text: share0 },
  strongest: { field: 'strongest', text: share0 }, sink: { field: 'sink_share', text: share0 },
  effect: { figure: head => Math.abs(effectOf(head)), text: head => known(D.similarity) ? signed(effectOf(head), 3) : signed(100 * effectOf(head), 1) },
};
const isThere = sort => sort === 'layer' || (sort === 'effect' ? WITHOUT.size > 0 : STATISTICS.size > 0);
function figure(sort, head) {
  const { field, figure } = SORTS[sort], x = field ? statisticsOf(head)?.[field] : figure(head);
  return known(x) ? x : -Infinity;
}
const figureText = (sort, head) => SORTS[sort].field ? SORTS[sort].text(statisticsOf(head)?.[SORTS[sort].field]) : SORTS[sort].text(head);
// Ties keep the order of the heads.
const ordered = () => HEADS.map(head => [figure(S.sort, head), head]).sort(([a], [b]) => b === a ? 0 : b - a).map(([, head]) => head);

// ---- small pictures: each head keeps its canvas, which is repainted when its colors change ----
const POOL = 64, DOTS = n <= POOL ? n * Math.floor(POOL / n) : POOL;
const canvases = HEADS.map(() => el('canvas', { width: DOTS, height: DOTS, 'aria-hidden': 'true' }));
let painted = '';
function paintThumb(canvas, { l, h }, css) {
  const { values } = arrayOf('weights', l, h), max = ceiling('weights', l, h), lut = LUTS[theme()], image = new ImageData(DOTS, DOTS);
  // A dot shows the largest of its weights, because a mean would hide the peaks.
  let seen = values;
  if (n > POOL) {
    seen = new Float32Array(POOL * POOL);
    const dot = Array.from({ length: n }, (_, i) => Math.floor(i * POOL / n));
    for (let q = 0, i = 0; q < n; q++) for (let k = 0, row = dot[q] * POOL; k < n; k++, i++) if (values[i] > seen[row + dot[k]]) seen[row + dot[k]] = values[i];
  }
  const side = Math.min(n, POOL), wide = DOTS / side, hatch = rgbOf(css.hatch);
  for (let y = 0, at = 0; y < DOTS; y++) for (let x = 0; x < DOTS; x++, at += 4) {
    const q = Math.floor(y / wide), k = Math.floor(x / wide);
    // Hatched if all words of the dot are masked; the gaps have the color of the page.
    if (isMasked(q, k)) { if ((x + y) % 4 === 0) image.data.set([...hatch, 255], at); } else image.data.set([...lut[shade(seen[q * side + k], max)].c, 255], at);
  }
  canvas.getContext('2d').putImageData(image, 0, 0);
}
const rgbOf = hex => [1, 3, 5].map(i => parseInt(hex.slice(i, i + 2), 16));
function paintThumbs() {
  const stamp = [theme(), S.scale, S.root].join();
  if (stamp === painted) return;
  painted = stamp;
  const css = colors();
  // Visible pictures first.
  const jobs = ordered().map(head => () => paintThumb(canvases[head.l * D.heads + head.h], head, css));
  inSlices(jobs, HEADS.length * square <= 4e5);
}
const columnsOf = () => Math.min(12, D.heads);
function thumbs() {
  const box = $('thumbs'), isFocused = box.contains(document.activeElement);
  const sorts = Object.keys(SORTS).filter(isThere);
  fillSelect('sort', sorts.map(sort => [sort, T.sorts[sort]]), S.sort);
  $('sort-box').hidden = sorts.length < 2;
  box.classList.toggle('many', D.heads > 4);
  box.style.gridTemplateColumns = `repeat(${columnsOf()}, ${D.heads > 4 ? 33 : Math.min(76, Math.floor(256 / D.heads))}px)`;
  box.ariaLabel = T.allHeads;
  box.replaceChildren(...ordered().map(head => {
    const { l, h } = head, text = figureText(S.sort, head), isSink = statisticsOf(head)?.role === 'sink';
    const named = [T.thumb(l + 1, h + 1), ...text ? [`${T.sorts[S.sort === 'layer' ? 'role' : S.sort]} ${text}`] : [], ...isSink && S.sort !== 'role' && S.sort !== 'layer' ? [T.sinkBadge] : []].join(T.list);
    const button = el('button', { type: 'button', class: isSink ? 'thumb sink' : 'thumb', role: 'radio', 'aria-label': named, title: named, head }, canvases[l * D.heads + h],
      el('span', { class: 'tag', text: `L${l + 1}·H${h + 1}` }), el('span', { class: 'figure', text: text === T.roles.mixed ? '–' : text || '\u00a0' }));
    button.addEventListener('click', () => choose(l, h));
    return button;
  }));
  markThumb();
  if (isFocused) box.querySelector('[aria-checked="true"]').focus();
  paintThumbs();
  $('thumb-note').textContent = T.thumbNote(n > POOL, S.scale === 'head') + (D.roles ? T.gap + D.roles[S.lang] : '') + ([...STATISTICS.values()].some(s => s.role === 'sink') ? T.gap + T.sinkKey : '');
}
function markThumb() {
  for (const b of $('thumbs').children) {
    const isChosen = b.head.l === S.layer && b.head.h === S.head;
    b.setAttribute('aria-checked', isChosen);
    b.tabIndex = isChosen ? 0 : -1;
  }
}
$('thumbs').addEventListener('keydown', e => {
  const all = [...$('thumbs').children], i = all.findIndex(b => b.getAttribute('aria-checked') === 'true'), across = columnsOf();
  const to = { ArrowLeft: i - 1, ArrowRight: i + 1, ArrowUp: i - across, ArrowDown: i + across, Home: 0, End: all.length - 1 }[e.key];
  if (to === undefined) return;
  e.preventDefault();
  const next = all[to];
  if (!next) return;
  choose(next.head.l, next.head.h);
  next.focus();
});

// ---- the head in a sentence, and the prediction without it ----
function about() {
  const head = { l: S.layer, h: S.head }, s = statisticsOf(head), w = withoutOf(head);
  $('role').textContent = s ? s.text[S.lang] + T.stop : '';
  $('sink-note').textContent = s?.role === 'sink' ? T.sinkNote : '';
  $('sink-note').hidden = s?.role !== 'sink';
  $('off').hidden = !WITHOUT.size;
  $('off').setAttribute('aria-pressed', S.off);
  $('off-panel').hidden = !(S.off && w);
  root.dataset.off = S.off && w ? `${S.layer + 1},${S.head + 1}` : '';
  if (!S.off || !w) return;
  if (known(w.similarity)) {
    const now = [cosine(D.similarity), cosine(w.similarity), signed(w.similarity - D.similarity, 4)];
    $('off-summary').textContent = T.offCosine(...now);
    $('off-summary').classList.remove('changes');
    compareTable($('off-table'), T.offHead, [[T.cosine, ...now]], -1);
    return;
  }
  const odds = x => percent(x, 1) + ' %', all = ownOf(w), before = all[chanceOf], after = w.probabilities[chanceOf];
  // The network's own prediction may differ from that of the ensemble.
  const first = D.probabilities[all.reduce((best, x, i) => x > all[best] ? i : best, 0)].label, own = w.whole && !D.number ? first : D.label;
  const say = (from, to, a, b, p, o) => from === to ? T.offSame(a, odds(p), odds(o), signed(100 * (o - p), 1)) : T.offChanges(a, b, odds(p), odds(o));
  const place = D.probabilities.findIndex(p => p.label === own), named = label => T.q(clip(plain(label)));
  const said = say(own, w.label, named(own), named(w.label), all[place] ?? before, w.probabilities[place] ?? after);
  const of = D.probabilities[chanceOf]?.probability, then = w.whole?.probabilities[chanceOf];
  $('off-summary').textContent = w.whole ? T.offOwn + said + T.gap + T.offWhole + say(D.label, w.whole.label, named(D.label), named(w.whole.label), of, then) : said;
  $('off-summary').classList.toggle('changes', own !== w.label);
  const rows = D.probabilities.map((p, i) => [plain(p.label), odds(all[i]), odds(w.probabilities[i]), signed(100 * (w.probabilities[i] - all[i]), 1),
    ...w.whole ? [odds(p.probability), odds(w.whole.probabilities[i]), signed(100 * (w.whole.probabilities[i] - p.probability), 1)] : []]);
  compareTable($('off-table'), w.whole ? [...T.offHead, ...T.offHead.slice(1).map(text => T.offTogether(text))] : T.offHead, rows, D.probabilities.findIndex(p => p.label === w.label));
}
