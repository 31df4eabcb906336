// The logit lens of explanations and alignments, and the grids of numbers that it shares with patching.
const L = D.lens;
// Tokenizers write the space before a word as ▁; next tokens of a language model show it.
const tokenName = text => plain(D.kind === 'language_model' ? signsOf(text) : text.replace(/^▁(?=.)/, ''));
// A cell of a grid; its color is a share of the scale, and negative numbers are orange.
function gridCell(x, text, said, isTop) {
  const css = colors(), lut = LUTS[theme()], cell = el('td', { text, tabIndex: -1, title: said, 'aria-label': said, class: isTop ? 'strongest' : '' });
  if (x < 0) cell.style.background = `color-mix(in srgb, ${css.against} ${Math.min(50, -50 * x).toFixed(0)}%, transparent)`;
  else { const color = lut[shade8(x)]; cell.style.background = color.css; cell.style.color = color.ink; }
  return cell;
}
const SHOWN_ANSWERS = 8;
const shade8 = x => Math.round(255 * Math.min(1, Math.max(0, x)));
// Tab reaches one cell of a grid, arrow keys the others.
function grid(id, corner, heads, rows) {
  $(id).replaceChildren(el('thead', {}, el('tr', {}, el('td', { text: corner }), ...heads)), el('tbody', {}, ...rows));
  rows[0].children[1].tabIndex = 0;
}
addEventListener('keydown', e => {
  const cell = e.target, by = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[e.key];
  if (!by || !cell.matches?.('.grid td')) return;
  const next = cell.closest('tbody').rows[cell.parentElement.sectionRowIndex + by[0]]?.cells[cell.cellIndex + by[1]];
  if (next?.tagName !== 'TD') return;
  e.preventDefault();
  cell.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
});

function lens() {
  $('lens-card').hidden = !L;
  if (!L) return;
  const last = L.depths.at(-1), isWhole = !L.tokens, name = text => T.q(clip(tokenName(text)));
  const rowName = l => l ? T.layerRow(l) : T.embeddingRow;
  const cell = (answer, l, i, text, x) => gridCell(x, text, T.lensCell(l, name(answer.label), percent(answer.probability, 1) + ' %'), false);
  if (isWhole) {
    // Labels and thresholds have a probability each; the explained one is marked. Classes are sorted, most probable first.
    const isOne = D.exclusive === false, own = D.probabilities.findIndex(p => p.label === D.attribution.class);
    // Of many thresholds, those around the explained one.
    const first = isOne ? Math.max(0, Math.min(own - SHOWN_ANSWERS / 2, D.probabilities.length - SHOWN_ANSWERS)) : 0;
    const classes = D.probabilities.slice(first, first + SHOWN_ANSWERS);
    const rows = L.depths.map(([answer], l) => el('tr', {}, el('th', { scope: 'row', text: rowName(l) }), ...classes.map((p, i) => {
      const x = answer.probabilities[first + i];
      return gridCell(x, percent(x, 1) + ' %', T.lensCell(l, T.q(clip(plain(p.label))), percent(x, 1) + ' %'), plain(p.label) === plain(answer.label));
    })));
    grid('lens', '', classes.map(p => el('th', { scope: 'col', title: p.label }, el('bdi', { text: clip(plain(p.label), 20) }))), rows);
    if (isOne) {
      const [before, after] = [L.depths[0][0], last[0]].map(answer => percent(answer.probability, 1) + ' %');
      $('lens-title').textContent = T.lensOneTitle(name(last[0].label));
      $('lens-summary').textContent = T.lensOne(name(last[0].label), before, after);
      return;
    }
    // The first layer from which on the answer stays.
    let from = L.depths.length - 1;
    while (from > 0 && L.depths[from - 1][0].label === last[0].label) from--;
    $('lens-summary').textContent = T.lensSummary(from, name(last[0].label));
    return;
  }
  $('lens-summary').textContent = T.lensTokens;
  const rows = L.depths.map((answers, l) => el('tr', {}, el('th', { scope: 'row', text: rowName(l) }), ...answers.map((answer, i) => cell(answer, l, i, clip(tokenName(answer.label), 12), answer.probability))));
  grid('lens', '', L.tokens.map(text => el('th', { scope: 'col', title: tokenName(text) }, el('bdi', { text: clip(tokenName(text), 12) }))), rows);
}
