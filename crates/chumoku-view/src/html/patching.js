// Patching, on the pages of explanations and alignments.
const P = D.patching;
// Cells say their sentence when they are pointed at or focused.
function sayCells(id, readout, hint) {
  const say = ({ target: { ariaLabel } }) => { if (ariaLabel) $(readout).textContent = ariaLabel; };
  for (const event of ['pointerover', 'focusin']) $(id).addEventListener(event, say);
  $(id).addEventListener('pointerleave', () => { $(readout).textContent = hint(); });
}

const moved = x => Math.abs(x) < .005 ? '0.00' : x.toFixed(2).replace('-', '−');
function patch() {
  $('patch-card').hidden = !P;
  if (!P) return;
  const count = P.aligned.length, layers = P.feed_forward.length / count;
  const tokens = P.tokens.map(tokenName), others = P.other_tokens.map(tokenName), [text, other] = P.answers;
  const isChanged = ([a, b]) => P.tokens[a] !== P.other_tokens[b];
  const name = place => { const [a, b] = P.aligned[place]; return T.q(clip(tokens[a], 20) + (tokens[a] === others[b] ? '' : ` → ${clip(others[b], 20)}`)); };
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
  const rowsOf = (numbers, across, label, site) => Array.from({ length: numbers.length / across }, (_, l) => {
    const row = numbers.slice(l * across, l * across + across), most = row.indexOf(Math.max(...row));
    return el('tr', {}, el('th', { scope: 'row', text: label(l) }), ...row.map((x, i) => gridCell(x, moved(x), T.patchCell(site(l, i), percent(x) + ' %', what), i === most && x > .1)));
  });
  const layerRow = l => T.layerRow(l + 1);
  // Draws tables whose ids start with `id`. Returns the strongest head or feed-forward network.
  const maps = (id, { residual, heads, cross_heads: cross = [], feed_forward: ff }, sites, headings, name) => {
    const count = headings.length, across = heads.length / (ff.length / count);
    grid(`${id}-residual`, '', headings, rowsOf(residual, count, l => l ? T.layerRow(l) : T.embeddingRow, (l, i) => sites.residual(l, name(i))));
    grid(`${id}-ff`, '', headings.map(node => node.cloneNode(true)), rowsOf(ff, count, layerRow, (l, i) => sites.ff(l + 1, name(i))));
    const parts = ff.map((x, i) => [x, sites.ff(Math.floor(i / count) + 1, name(i % count))]);
    for (const [kind, list] of Object.entries({ cross, heads })) {
      if (!list.length) continue;
      grid(`${id}-${kind}`, '', Array.from({ length: across }, (_, h) => el('th', { scope: 'col', text: T.headColumn(h + 1) })), rowsOf(list, across, layerRow, (l, h) => sites[kind](l + 1, h + 1)));
      parts.unshift(...list.map((x, i) => [x, sites[kind](Math.floor(i / across) + 1, i % across + 1)]));
    }
    return parts.reduce((best, part) => part[0] > best[0] ? part : best);
  };
  if (typeof patchDecoder === 'function') patchDecoder(maps, what);
  const [x, site] = maps('patch', P, T.sites(T.ofEncoder || ''), headings, name);
  const tops = Array.from({ length: layers + 1 }, (_, l) => { const row = P.residual.slice(l * count, l * count + count), most = Math.max(...row); return { at: row.indexOf(most), most }; });
  // The difference moves on where another token, or no single token, carries half of it.
  const next = tops.findIndex(({ at, most }) => at !== tops[0].at || most < .5), { at, most } = tops[next] || {};
  const more = tops[0].most < .5 || next < 0 ? '' : most < .5 ? T.patchSpread(name(tops[0].at), next) : T.patchHandOver(name(tops[0].at), name(at), next);
  $('patch-summary').textContent = T.patchSummary(site, percent(x) + ' %', more, what);
  showText('patch-position', D.patching_position);
  $('patch-readout').textContent = T.patchHint;
  $('patch-warning').hidden = !D.patching_is_small;
  $('patch-warning').textContent = T.patchWarning(Math.abs(P.differences[1] - P.differences[0]).toFixed(3));
  $('patch-note').textContent = T.patchNote(toward, away, ...P.differences.map(moved));
}
// A cell of the page's own kind of attention opens its head: on a translation's page, cross-attention.
const headCells = $('patch-decoder-cross') || $('patch-heads');
const openCell = e => {
  const cell = e.target.closest('tbody td');
  if (cell && (!e.key || e.key === 'Enter')) openHead(cell.parentElement.sectionRowIndex, cell.cellIndex - 1);
};
for (const event of ['click', 'keydown']) headCells.addEventListener(event, openCell);
headCells.classList.add('opens');
for (const table of document.querySelectorAll('#patch-card table')) sayCells(table.id, 'patch-readout', () => T.patchHint);
