// Steps inside the network: patching, and the residual stream of one token.
const P = D.patching, W = D.residual_path;
// Cells say their sentence when they are pointed at or focused.
function sayCells(id, readout, hint) {
  const say = e => { const said = e.target.getAttribute?.('aria-label'); if (e.target.tagName === 'TD' && said) $(readout).textContent = said; };
  for (const event of ['pointerover', 'focusin']) $(id).addEventListener(event, say);
  $(id).addEventListener('pointerleave', () => { $(readout).textContent = hint(); });
}

// ---- patching ----
const moved = x => Math.abs(x) < .005 ? '0.00' : x.toFixed(2).replace('-', '−');
function patch() {
  $('patch-card').hidden = !P;
  if (!P) return;
  const count = P.aligned.length, layers = P.feed_forward.length / count, heads = P.heads.length / layers;
  const tokens = P.tokens.map(tokenName), others = P.other_tokens.map(tokenName), [text, other] = P.answers;
  const isChanged = ([a, b]) => P.tokens[a] !== P.other_tokens[b];
  const name = place => { const [a, b] = P.aligned[place]; return tokens[a] === others[b] ? T.q(clip(tokens[a], 20)) : T.q(`${clip(tokens[a], 20)} → ${clip(others[b], 20)}`); };
  const answer = p => T.q(clip(tokenName(p.label)));
  // Labels and numbers have one logit; the same answer twice is compared with another one.
  const toward = answer({ label: P.toward }), away = P.away ? answer({ label: P.away }) : '', isSame = away && text.label === other.label;
  $('patch-title').textContent = !away ? T.patchTitleOne(toward) : isSame ? T.patchTitleSame(answer(text)) : T.patchTitle(answer(text), answer(other));
  const what = !away ? T.patchLogit(toward) : isSame ? T.patchDifference(toward, away) : T.patchAnswer;
  // Both texts, with the tokens that differ marked.
  const changed = [0, 1].map(side => new Set(P.aligned.filter(isChanged).map(pair => pair[side])));
  const words = (list, side) => el('bdi', {}, ...list.flatMap((token, i) => [changed[side].has(i) || !P.aligned.some(pair => pair[side] === i) ? el('mark', { text: token }) : token, ' ']));
  const line = (said, list, side) => [el('small', { text: said }), words(list, side), el('b', { text: `${tokenName(P.answers[side].label)} ${percent(P.answers[side].probability, 1)} %` })];
  $('patch-texts').replaceChildren(...line(T.patchText, tokens, 0), ...line(T.patchOther, others, 1));

  const headings = P.aligned.map((pair, i) => el('th', { scope: 'col', class: isChanged(pair) ? 'changed' : '', title: name(i) }, el('bdi', { text: clip(tokens[pair[0]], 12) })));
  const cellOf = (x, site, isTop) => gridCell(x, moved(x), T.patchCell(site, percent(x, 0) + ' %', what), isTop);
  const rowsOf = (numbers, across, label, site) => Array.from({ length: numbers.length / across }, (_, l) => {
    const row = numbers.slice(l * across, l * across + across), most = row.indexOf(Math.max(...row));
    return el('tr', {}, el('th', { scope: 'row', text: label(l) }), ...row.map((x, i) => cellOf(x, site(l, i), i === most && x > .1)));
  });
  grid('patch-residual', '', headings, rowsOf(P.residual, count, l => l ? T.layerRow(l) : T.embeddingRow, (l, i) => T.sites.residual(l, name(i))));
  grid('patch-ff', '', headings.map(node => node.cloneNode(true)), rowsOf(P.feed_forward, count, l => T.layerRow(l + 1), (l, i) => T.sites.ff(l + 1, name(i))));
  grid('patch-heads', '', Array.from({ length: heads }, (_, h) => el('th', { scope: 'col', text: T.headColumn(h + 1) })), rowsOf(P.heads, heads, l => T.layerRow(l + 1), (l, h) => T.sites.heads(l + 1, h + 1)));
  // The strongest head or feed-forward network, and where the difference travels.
  const parts = [...P.heads.map((x, i) => [x, T.sites.heads(Math.floor(i / heads) + 1, i % heads + 1)]), ...P.feed_forward.map((x, i) => [x, T.sites.ff(Math.floor(i / count) + 1, name(i % count))])];
  const [x, site] = parts.reduce((best, part) => part[0] > best[0] ? part : best);
  const tops = Array.from({ length: layers + 1 }, (_, l) => { const row = P.residual.slice(l * count, l * count + count), most = Math.max(...row); return { at: row.indexOf(most), most }; });
  // The difference moves on where another token, or no single token, carries half of it.
  const next = tops.findIndex(({ at, most }) => at !== tops[0].at || most < .5), { at, most } = tops[next] || {};
  const more = tops[0].most < .5 || next < 0 ? '' : most < .5 ? T.patchSpread(name(tops[0].at), next) : T.patchHandOver(name(tops[0].at), name(at), next);
  $('patch-summary').textContent = T.patchSummary(site, percent(x, 0) + ' %', more, what);
  $('patch-readout').textContent = T.patchHint;
  $('patch-warning').hidden = !D.patching_is_small;
  $('patch-warning').textContent = T.patchWarning(Math.abs(P.differences[1] - P.differences[0]).toFixed(3));
  $('patch-note').textContent = T.patchNote(toward, away, ...P.differences.map(d => d.toFixed(2).replace('-', '−')));
}
for (const id of ['patch-residual', 'patch-heads', 'patch-ff']) sayCells(id, 'patch-readout', () => T.patchHint);

// ---- the residual stream of a token ----
let wayToken = -1;
function way() {
  $('way-card').hidden = !W;
  if (!W) return;
  const count = W.ids.length, heads = D.heads, tokens = W.ids.map((_, i) => tokenName(D.pieces[i].text));
  const word = S.word >= 0 ? S.word : S.query, own = word < 0 ? -1 : firstPiece(word);
  const at = wayToken >= 0 ? wayToken : own >= 0 ? own : Math.min(1, count - 1);
  fillSelect('way-token', tokens.map((text, i) => [String(i), `${i + 1} ${clip(text, 30)}`]), String(at));
  $('way-title').textContent = T.wayTitle(T.q(clip(tokens[at])));
  const of = (list, row) => list[row * count + at], say = T.waySteps;
  const steps = [[say.embedding(W.ids[at], W.scale === 1 ? '' : W.scale.toFixed(2)), W.embedding[at]], ...W.position.length ? [[say.position, W.position[at]]] : [], [say.start, of(W.residual, 0), 'stream', 0]];
  for (let l = 0; l < D.layers; l++) {
    for (let h = 0; h < heads; h++) steps.push([`${T.layerRow(l + 1)}, ${say.head(h + 1)}`, of(W.heads, l * heads + h)]);
    steps.push([`${T.layerRow(l + 1)}, ${say.attention}`, of(W.attention, l)], [`${T.layerRow(l + 1)}, ${say.feed}`, of(W.feed_forward, l)], [say.out(l + 1), of(W.residual, l + 1), 'stream', l + 1]);
  }
  const most = steps.reduce((m, step) => Math.max(m, step[1]), 0) || 1;
  // The answer that the head reads there: of this token, or of the whole text.
  const read = l => { const answers = L?.depths[l]; if (!answers) return ''; const i = L.tokens ? at - (count - L.tokens.length) : 0; return answers[i] ? `${clip(tokenName(answers[i].label), 14)} ${percent(answers[i].probability, 0)} %` : ''; };
  $('way').replaceChildren(...steps.map(([text, x, kind, l]) => {
    const bar = el('span', { class: 'bar' });
    bar.style.width = (100 * x / most).toFixed(2) + '%';
    return el('li', { class: kind || '' }, el('span', { text }), el('span', { class: 'track', 'aria-hidden': 'true' }, bar), el('span', { class: 'number', text: x.toFixed(2) }), el('span', { class: 'read', text: kind ? read(l) : '' }));
  }));
}
if (W) $('way-token').addEventListener('change', e => { wayToken = Number(e.target.value); way(); });
