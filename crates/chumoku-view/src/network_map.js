// A block of the map leads to its weights or, without a model, to its row in the table; by pointer or keyboard.
const W = JSON.parse(document.getElementById('weights-data')?.textContent ?? '[]'), panel = document.getElementById('weights');
let shownBlock = 0;
const part = (tag, text, props = {}) => Object.assign(document.createElement(tag), { textContent: text, ...props });
// Rounded like the weights in this file.
const digits = x => x === 0 || Math.abs(x) >= 1e-3 ? String(Number(x.toPrecision(4))).replace('-', '−') : x.toExponential(2).replaceAll('-', '−');
const ofBlock = () => W.filter(one => one.block === shownBlock);
function fillSelect(id, values, chosen) {
  const select = document.getElementById(id);
  select.replaceChildren(...values.map(([value, text]) => part('option', text, { value, selected: value === chosen })));
  select.parentElement.hidden = values.length < 2;
}
function weights() {
  if (!panel) return;
  const all = ofBlock();
  panel.hidden = !all.length;
  if (!all.length) return;
  const chosen = id => document.getElementById(id).value, layers = [...new Set(all.map(one => String(one.layer ?? '')))];
  const layer = layers.includes(chosen('weights-layer')) ? chosen('weights-layer') : layers[0];
  const here = all.filter(one => String(one.layer ?? '') === layer), shortName = name => name.replace(/^.*\.\d+\./, '');
  const one = here.find(one => shortName(one.name) === shortName(chosen('weights-name'))) ?? here.find(one => one.shape[0] > 1) ?? here[0];
  fillSelect('weights-layer', layers.map(l => [l, String(Number(l) + 1)]), layer);
  fillSelect('weights-name', here.map(({ name }) => [name, name]), one.name);
  const [rows, columns] = one.shape, [least, most, mean, deviation] = one.statistics.map(digits), shown = [one.first.length, one.first[0].length];
  const isJa = document.documentElement.lang === 'ja';
  const title = document.querySelector(`.figure:not([hidden]) rect[data-block="${shownBlock}"]`)?.getAttribute('aria-label').split(/[:：]/)[0] ?? '';
  // The letters of W_Q are a letter and its subscript.
  panel.querySelector('h2').replaceChildren(...title.split('_').map((text, i) => i ? part('sub', text) : text));
  document.getElementById('weights-figures').textContent = isJa ? `${one.name}：${rows} × ${columns} 個。最小 ${least}、最大 ${most}、平均 ${mean}、標準偏差 ${deviation}` : `${one.name}: ${rows} × ${columns} numbers. Minimum ${least}, maximum ${most}, mean ${mean}, standard deviation ${deviation}`;
  const isCut = shown[0] < rows || shown[1] < columns;
  document.getElementById('weights-note').textContent = !isCut ? (isJa ? '有効数字 4 桁に丸めています。' : 'Rounded to four digits.') : isJa ? `最初の ${shown[0]} 行 ${shown[1]} 列だけを、有効数字 4 桁で示します。上の統計はすべての数によるものです。` : `The first ${shown[0]} rows and ${shown[1]} columns only, rounded to four digits. The figures above cover all numbers.`;
  const largest = Math.max(...one.first.flat().map(Math.abs)) || 1;
  const cell = x => {
    const td = part('td', digits(x)), share = Math.abs(x) / largest;
    td.style.background = `color-mix(in srgb, var(${x < 0 ? '--minus' : '--plus'}) ${(45 * share).toFixed(0)}%, transparent)`;
    return td;
  };
  const head = document.createElement('tr'), list = one.first.map((row, i) => { const tr = document.createElement('tr'); tr.append(part('th', i + 1, { scope: 'row' }), ...row.map(cell)); return tr; });
  head.append(document.createElement('td'), ...one.first[0].map((_, i) => part('th', i + 1, { scope: 'col' })));
  const body = document.createElement('tbody'), top = document.createElement('thead');
  top.append(head);
  body.append(...list);
  panel.querySelector('table').replaceChildren(top, body);
  // The table says that it scrolls.
  dispatchEvent(new Event('resize'));
}
if (panel) {
  document.querySelector('main').append(panel);
  for (const id of ['weights-layer', 'weights-name']) document.getElementById(id).addEventListener('change', weights);
  document.getElementById('weights-back').addEventListener('click', () => { const [block] = [...document.querySelectorAll(`rect[data-block="${shownBlock}"]`)].filter(block => block.closest('.figure:not([hidden])')); block?.focus(); block?.scrollIntoView({ block: 'center' }); });
  document.addEventListener('shown', weights);
}
document.querySelectorAll('.figure').forEach(figure => {
  const fold = figure.querySelector('details'), rows = figure.querySelectorAll('tbody tr');
  figure.querySelectorAll('svg rect').forEach(block => {
    const number = Number((block.querySelector('title')?.textContent.match(/^(\d+) · /) || [])[1]);
    const row = rows[number - 1];
    if (!row) return;
    const open = () => {
      rows.forEach(other => other.toggleAttribute('data-chosen', other === row));
      shownBlock = number;
      weights();
      const isWeights = ofBlock().length > 0, target = isWeights ? panel.querySelector('h2') : row;
      if (!isWeights) fold.open = true;
      target.tabIndex = -1;
      target.focus();
      (isWeights ? panel : row).scrollIntoView({ block: isWeights ? 'nearest' : 'center' });
    };
    block.dataset.block = number;
    block.setAttribute('tabindex', '0');
    block.setAttribute('role', 'button');
    block.setAttribute('aria-label', block.querySelector('title').textContent);
    block.style.cursor = 'pointer';
    block.addEventListener('click', open);
    block.addEventListener('keydown', e => { if (e.key === 'Enter' || e.key === ' ') { e.preventDefault(); open(); } });
  });
});
