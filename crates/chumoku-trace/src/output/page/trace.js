// Recomputes the steps when an input or an option changes.
const note = () => {
  $('bad').hidden = !document.querySelector('td.bad');
  const isChanged = Object.keys(on).some(key => on[key] !== atStart[key]);
  const isEdited = isChanged || steps.some(step => step.given?.some((row, i) => row.some((x, j) => !Object.is(real(x), values[step.id][i][j]))));
  document.body.classList.toggle('edited', isEdited);
  $('undo').disabled = !isEdited && $('bad').hidden;
};
const mark = (cell, isBad) => { cell.classList.toggle('bad', isBad); cell.setAttribute('aria-invalid', String(isBad)); };
const edit = (step, i, j, cell) => {
  const text = cell.textContent.trim().replaceAll('\u2212', '-'), row = step.entered[i];
  row[j] = /^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i.test(text) ? Number(text) : NaN;
  // The shares of a target are used only if they sum to 1.
  const isShared = row.every(x => x >= 0) && Math.abs(total(row) - 1) <= 5e-3;
  const isFine = step.shares ? isShared : Number.isFinite(row[j]);
  for (const [k, own] of step.views[0].cells[i].entries()) if (step.shares || k === j) mark(own, !isFine);
  if (isFine) {
    if (step.shares) values[step.id][i] = [...row]; else values[step.id][i][j] = row[j];
    compute();
    showAll();
  }
  note();
};
const setUp = (step, cell, i, j) => {
  cell.contentEditable = 'plaintext-only';
  cell.setAttribute('role', 'textbox');
  cell.setAttribute('aria-label', `${step.sym} ${i + 1}, ${j + 1}`);
  // Tab reaches the first cell of a matrix, arrow keys the others.
  cell.tabIndex = i + j ? -1 : 0;
  cell.addEventListener('focus', () => {
    if (cell.classList.contains('bad')) return;
    const x = values[step.id][i][j];
    cell.textContent = Number.isFinite(x) ? String(x) : odd(x);
    getSelection().selectAllChildren(cell);
  });
  cell.addEventListener('input', () => edit(step, i, j, cell));
  cell.addEventListener('blur', () => { if (!cell.classList.contains('bad')) cell.textContent = writer(values[step.id])(values[step.id][i][j]); });
  cell.addEventListener('keydown', event => {
    const place = getSelection(), isOne = !place.isCollapsed;
    const ways = { Enter: [1, 0], ArrowDown: [1, 0], ArrowUp: [-1, 0] };
    if (isOne || place.anchorOffset === 0) ways.ArrowLeft = [0, -1];
    if (isOne || place.anchorOffset === cell.textContent.length) ways.ArrowRight = [0, 1];
    const by = ways[event.key];
    if (!by || event.isComposing) return;
    event.preventDefault();
    step.views[0].cells[i + by[0]]?.[j + by[1]]?.focus();
  });
};
// Steps appear and disappear with their options.
const restructure = () => {
  for (const step of variable) {
    step.card.hidden = isOff(step);
    document.querySelectorAll(`nav li[data-s="${step.id}"]`).forEach(item => { item.hidden = isOff(step); });
    if (!isOff(step)) rewrite(step);
  }
  const order = steps.filter(step => step.at && !isOff(step)).map(step => step.id);
  for (const place of document.querySelectorAll('.k')) {
    const k = order.indexOf(Number(place.dataset.s));
    place.textContent = k < 0 ? '' : `${k + 1}. `;
  }
  // The headings of groups count their steps.
  document.querySelectorAll('nav details').forEach((outline, i) => {
    const count = outline.querySelectorAll('li:not([hidden])').length, says = document.querySelectorAll(`#group-${i + 1} .count .t`);
    for (const said of says) said.textContent = said.lang === 'en' ? `${count} step${count === 1 ? '' : 's'}` : `${count} ステップ`;
  });
  // The answer ends before a step that is left out.
  const cut = chain.findIndex(({ id }) => isOff(byId.get(id)));
  if (cut === 0) close(); else if (cut > 0) { chain.length = cut; term = -1; }
};
const sayBeta = () => { if ($('beta')) $('beta').textContent = `${spelled(on.beta)}${on.beta > 0 ? ` (T = ${spelled(1 / on.beta)})` : ''}`; };
const setOption = (key, to) => {
  on[key] = to;
  sayBeta();
  compute();
  restructure();
  showAll();
  note();
};
const CONTROLS = ['causal', 'mask', 'bias', 'scale', 'max', 'beta'].filter(key => $(`control-${key}`));
for (const key of CONTROLS) {
  const box = $(`control-${key}`);
  box.addEventListener('input', () => setOption(key, key === 'beta' ? Number(box.value) : box.checked));
}

// ---- start ----
given();
compute();
for (const ref of document.querySelectorAll('.ref')) ref.replaceWith(copy(byId.get(Number(ref.dataset.s)), ref.dataset.t !== undefined));
for (const step of steps) {
  if (!step.figure) continue;
  const { cells } = step.views[0];
  step.figure.querySelector('.scroll').removeAttribute('tabindex');
  if (step.given) cells.forEach((row, i) => row.forEach((cell, j) => { if (i < step.given.length) setUp(step, cell, i, j); }));
  else if (cells[0]?.[0]) cells[0][0].tabIndex = 0;
}
$('undo').addEventListener('click', () => {
  document.querySelectorAll('td.bad').forEach(cell => mark(cell, false));
  Object.assign(on, atStart);
  for (const key of CONTROLS) {
    const box = $(`control-${key}`);
    if (key === 'beta') box.value = String(on.beta); else box.checked = on[key];
  }
  sayBeta();
  given(); compute(); restructure(); showAll(); note();
});
const open = () => {
  const target = location.hash.length > 1 && !location.hash.includes('=') && $(decodeURIComponent(location.hash.slice(1)));
  if (target) for (let box = target.closest('details'); box; box = box.parentElement.closest('details')) box.open = true;
  if (target) target.scrollIntoView();
  const [at, i, j] = (linked().get('why') ?? '').split(','), step = at && steps.find(own => own.at === at);
  const cell = step && !isOff(step) && { id: step.id, i: i - 1, j: j - 1 };
  if (cell && values[cell.id][cell.i]?.[cell.j] !== undefined && !isSame(chain[0], cell)) { select(cell); reveal(cell, true); }
};
addEventListener('hashchange', open);
sayBeta();
$('live').hidden = false;
open();
readToken();
