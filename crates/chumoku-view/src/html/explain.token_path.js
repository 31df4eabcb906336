// The residual stream of the chosen token, or of the word with the largest effect.
const W = D.residual_path;
let pathToken = -1;
const mostEffective = count => {
  const sizes = scores.map((s, i) => D.words[i].special ? 0 : Math.abs(s) || 0), most = Math.max(...sizes);
  const piece = most > 0 ? firstPiece(sizes.indexOf(most)) : 1;
  return Math.min(Math.max(piece, 0), count - 1);
};
function tokenPath() {
  $('path-card').hidden = !W;
  if (!W) return;
  const count = W.ids.length, heads = D.heads, tokens = W.ids.map((_, i) => tokenName(D.pieces[i].text));
  const word = S.word >= 0 ? S.word : S.query, own = word < 0 ? -1 : firstPiece(word);
  const at = pathToken >= 0 ? pathToken : own >= 0 ? own : mostEffective(count);
  fillSelect('path-token', tokens.map((text, i) => [String(i), `${i + 1} ${clip(text, 30)}`]), String(at));
  $('path-title').textContent = T.pathTitle(T.q(clip(tokens[at])));
  const of = (list, row) => list[row * count + at], say = T.pathSteps;
  const steps = [[say.embedding(W.ids[at], W.scale === 1 ? '' : W.scale.toFixed(2)), W.embedding[at]], ...W.position.length ? [[say.position, W.position[at]]] : [], [say.start, of(W.residual, 0), 'stream', 0]];
  for (let l = 0; l < D.layers; l++) {
    for (let h = 0; h < heads; h++) steps.push([`${T.layerRow(l + 1)}, ${say.head(h + 1)}`, of(W.heads, l * heads + h)]);
    steps.push([`${T.layerRow(l + 1)}, ${say.attention}`, of(W.attention, l)], [`${T.layerRow(l + 1)}, ${say.feed}`, of(W.feed_forward, l)], [say.out(l + 1), of(W.residual, l + 1), 'stream', l + 1]);
  }
  const most = steps.reduce((m, step) => Math.max(m, step[1]), 0) || 1;
  // The answer that the head reads there: of this token, or of the whole text.
  const read = l => { const answers = L?.depths[l]; if (!answers) return ''; const i = L.tokens ? at - (count - L.tokens.length) : 0; return answers[i] ? `${clip(tokenName(answers[i].label), 14)} ${percent(answers[i].probability)} %` : ''; };
  $('token-path').replaceChildren(...steps.map(([text, x, kind, l]) => {
    const bar = el('span', { class: 'bar' });
    bar.style.width = (100 * x / most).toFixed(2) + '%';
    return el('li', { class: kind || '' }, el('span', { text }), el('span', { class: 'track', 'aria-hidden': 'true' }, bar), el('span', { class: 'number', text: x.toFixed(2) }), el('span', { class: 'read', text: kind ? read(l) : '' }));
  }));
}
if (W) $('path-token').addEventListener('change', e => { pathToken = Number(e.target.value); tokenPath(); });
