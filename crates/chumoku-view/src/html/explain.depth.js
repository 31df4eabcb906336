// The breakdown of one score: products of a query and a key, and the softmax of the query's row.
const pieces = D.pieces.map(p => plain(p.text)), firstPiece = word => Math.max(0, D.pieces.findIndex(p => p.word === word));
// The scores of a query's row, in f64, from the f32 queries and keys; NaN for masked keys.
function rowOf(Q, K, width, i) {
  const slope = D.depth.slopes?.[S.layer]?.[S.head] ?? 0, scores = pieces.map((_, j) => {
    if (D.causal && j > i) return NaN;
    let sum = 0;
    for (let d = 0; d < width; d++) sum += Q[i * width + d] * K[j * width + d];
    return D.depth.scale * sum - slope * Math.abs(i - j);
  });
  const max = Math.max(...scores.filter(known)), exps = scores.map(s => known(s) ? Math.exp(s - max) : 0), sum = exps.reduce((a, x) => a + x, 0);
  return { slope, scores, max, exps, sum, weights: exps.map(x => x / sum) };
}
function tokenChoice(select, chosen, can) {
  select.replaceChildren(...pieces.map((text, i) => el('option', { value: i, text: `${i + 1}  ${clip(text, 30)}`, selected: i === chosen, disabled: !can(i) })));
}
const quotedShell = text => `'${text.replaceAll("'", "'\\''")}'`;
function depth() {
  const Q = matrix('queries', S.layer, S.head)?.values, K = matrix('keys', S.layer, S.head)?.values;
  $('depth-there').hidden = !(Q && K);
  $('depth-missing').hidden = !!(Q && K);
  delete root.dataset.score; delete root.dataset.weight;
  if (!Q || !K) {
    $('depth-command').textContent = `chumoku explain ${/^[\w.-]+$/.test(D.model) ? D.model : quotedShell(plain(D.model))} ${texts.map(text => quotedShell(plain(clip(text, 300)))).join(' --target ')} --layer ${S.layer + 1} --head ${S.head + 1} --html why.html`;
    const there = HEADS.filter(({ l, h }) => MAPS.has(mapName('queries', l, h)));
    $('depth-others').replaceChildren(...there.map(({ l, h }) => { const b = el('button', { type: 'button', text: `L${l + 1}·H${h + 1}`, 'aria-label': T.thumb(l + 1, h + 1) }); b.addEventListener('click', () => choose(l, h)); return b; }));
    return;
  }
  const count = pieces.length, width = Q.length / count, i = S.from, j = S.to;
  const { slope, scores, max, exps, sum, weights } = rowOf(Q, K, width, i), masked = !known(scores[j]);
  tokenChoice($('depth-query'), i, () => true);
  tokenChoice($('depth-key'), j, j => !D.causal || j <= i);
  fillSelect('depth-order', Object.entries(T.orders), S.order);
  const said = masked ? T.depthMasked(T.q(clip(pieces[j])), T.q(clip(pieces[i]))) : T.depthSummary(T.q(clip(pieces[i])), T.q(clip(pieces[j])), fixed(scores[j]), fixed(weights[j]));
  $('depth-summary').textContent = said;

  const products = Array.from({ length: width }, (_, d) => Q[i * width + d] * K[j * width + d]), most = Math.max(...products.map(Math.abs)) || 1;
  const order = [...products.keys()];
  if (S.order === 'product') order.sort((a, b) => Math.abs(products[b]) - Math.abs(products[a]));
  const dot = products.reduce((a, x) => a + x, 0), { scale } = D.depth, isRoot = Math.abs(scale * Math.sqrt(width) - 1) < 1e-5;
  const step = (text, x, strong) => el('tr', { class: strong ? 'chosen' : '' }, el('th', { scope: 'row', colSpan: 3, text }), el('td', { text: fixed(x) }), el('td', { 'aria-hidden': 'true' }));
  $('depth-dims').replaceChildren(el('caption', { text: T.depthTitle }),
    headRow(T.depthHead, el('td', { 'aria-hidden': 'true' })),
    el('tbody', {}, ...order.map(d => {
      const bar = el('i', { class: products[d] < 0 ? 'against' : 'for' });
      bar.style.width = Math.abs(products[d]) / most * 50 + '%';
      return el('tr', {}, el('th', { scope: 'row', text: d + 1 }), ...[Q[i * width + d], K[j * width + d], products[d]].map(x => el('td', { text: fixed(x) })), el('td', { class: 'diverging', 'aria-hidden': 'true' }, bar));
    })),
    el('tfoot', {}, step(T.depthSum, dot), step(T.depthScale(Number(scale.toPrecision(6)), isRoot ? width : 0), scale * dot),
      ...slope ? [step(T.depthSlope(Number(slope.toPrecision(6)), Math.abs(i - j)), -slope * Math.abs(i - j))] : [], step(T.depthScore, masked ? NaN : scores[j], true)));

  $('depth-row').replaceChildren(el('caption', { text: T.rowTitle(T.q(clip(pieces[i]))) }), headRow(T.rowHead),
    el('tbody', {}, ...scores.map((s, k) => {
      const tr = el('tr', { class: k === j ? 'chosen' : '' }, el('th', { scope: 'row' }, el('small', { text: k + 1 }), el('bdi', { text: clip(pieces[k], 24) })),
        ...(known(s) ? [s, s - max, exps[k], weights[k]].map(fixed) : ['—', '—', '—', '—']).map(text => el('td', { text })));
      if (known(s)) tr.addEventListener('click', () => inDepth({ to: k }));
      return tr;
    })),
    el('tfoot', {}, el('tr', {}, el('th', { scope: 'row', text: T.sum }), el('td'), el('td'), el('td', { text: fixed(sum) }), el('td', { text: fixed(weights.reduce((a, x) => a + x, 0)) }))));
  if (!masked) { root.dataset.score = scores[j]; root.dataset.weight = weights[j]; }
}
function inDepth(change) {
  Object.assign(S, change);
  if (D.causal) S.to = Math.min(S.to, S.from);
  depth(); writeHash();
  $('say').textContent = $('depth-summary').textContent;
}
for (const [id, name, read] of [['query', 'from', Number], ['key', 'to', Number], ['order', 'order', String]]) $('depth-' + id).addEventListener('change', e => { inDepth({ [name]: read(e.target.value) }); });
// Up and down arrows change the query, left and right arrows the key.
$('depth').addEventListener('keydown', e => {
  if (/SELECT|BUTTON/.test(e.target.tagName)) return;
  const { from, to } = S, go = { ArrowUp: [from - 1, to], ArrowDown: [from + 1, to], ArrowLeft: [from, to - 1], ArrowRight: [from, to + 1] }[e.key];
  if (!go) return;
  e.preventDefault();
  inDepth({ from: within(go[0], pieces.length), to: within(go[1], pieces.length) });
});
