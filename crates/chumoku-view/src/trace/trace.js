// Shows the steps, recomputes them when an input or an option changes, and answers where a number comes from.
const byId = new Map(steps.map(step => [step.id, step])), values = [];
const isOff = step => step.control === 'mask' ? !on.causal && !on.mask : step.control === 'bias' ? !on.bias : step.control === 'max' && !on.max;
// A step that hands on the result of a step that is left out takes over its operation.
const definition = step => {
  while (step.op === 'ProductsTransposed' && step.of.length === 1 && isOff(byId.get(step.of[0]))) step = byId.get(step.of[0]);
  return step;
};
// A step that is left out stands for its operand; the largest score is not subtracted then.
const operand = id => {
  while (id !== null && isOff(byId.get(id))) id = byId.get(id).op === 'Largest' ? null : byId.get(id).of[0];
  return id;
};
const operands = step => definition(step).of.map(operand);
const matrices = ids => ids.map(id => id === null ? null : values[id]);
const evaluate = step => operations[definition(step).op](matrices(operands(step)), definition(step));

// ---- elements ----
const el = (tag, className, ...children) => {
  const node = document.createElement(tag);
  if (className) node.className = className;
  node.append(...children);
  return node;
};
// Text after `_` and the number of a head in brackets become subscripts.
const symbol = text => {
  const parts = text.split(/(_[\p{L}\p{N}ᵢⱼ]*(?:\[\d+\])?|\[\d+\])/u).filter(Boolean);
  return parts.map(part => {
    const index = part.match(/^_?([^[\]_]*)\[?(\d*)\]?$/), isIndex = /^_[\p{L}\p{N}]|^\[\d+\]$/u.test(part);
    return isIndex ? el('sub', '', [index[1], index[2]].filter(Boolean).join(',')) : part;
  });
};
// The transposition sign is no part of a subscript.
const symbols = text => text.split(/(ᵀ)/).flatMap(symbol);

// Every place that shows a step's matrix: its cells, row by row, and whether it is transposed.
const viewOf = new Map();
// A matrix that is wider than its place says that it scrolls.
const watcher = new ResizeObserver(all => requestAnimationFrame(() => {
  const wide = all.map(({ target }) => target.scrollWidth > target.clientWidth + 1);
  all.forEach(({ target }, k) => { target.classList.toggle('more-right', wide[k]); });
}));
const addView = (step, figure, isTransposed) => {
  const rows = [...figure.querySelectorAll('tbody tr')].map(row => [...row.querySelectorAll('td:not(.more)')]).filter(row => row.length);
  const view = { step, figure, cells: rows, isTransposed };
  step.views.push(view);
  viewOf.set(figure, view);
  watcher.observe(figure.querySelector('.scroll'));
};
const cellOf = (view, i, j) => view.isTransposed ? view.cells[j]?.[i] : view.cells[i]?.[j];
for (const step of steps) {
  step.views = [];
  const figure = step.at && $(step.at);
  step.figure = figure || null;
  step.card = figure?.closest('.step') ?? null;
  // An input may be shown in the card of another step.
  if (step.card && Number(step.card.dataset.s) !== step.id) step.card = null;
  step.lines = step.card ? [...step.card.querySelectorAll('.expanded .x')] : [];
  if (!figure) continue;
  addView(step, figure, false);
  const heads = q => [...figure.querySelectorAll(q)].map(th => th.textContent);
  step.labels = [heads('tbody th[scope]'), heads('thead th')];
}
const given = () => { for (const step of steps) if (step.given) {
  values[step.id] = step.given.map(row => row.map(real));
  step.entered = step.given.map(row => row.map(real));
} };

// A copy of a matrix beside its result.
const copy = (step, isTransposed) => {
  const whole = values[step.id], write = writer(whole), flip = isTransposed ? 1 : 0;
  const size = [whole.length, whole[0].length], shown = size.map(n => Math.min(n, SHOWN)), own = step.views[0];
  const [rows, columns] = flip ? [shown[1], shown[0]] : shown, labels = step.labels ?? [[], []];
  const body = el('tbody'), label = (tag, text, scope) => { const th = el(tag, '', el('bdi', '', text)); th.scope = scope; return th; };
  const cut = [flip ? size[1] > rows : size[0] > rows, flip ? size[0] > columns : size[1] > columns];
  for (let i = 0; i < rows; i++) {
    const tr = el('tr');
    if (labels[flip].length) tr.append(label('th', labels[flip][i] ?? '', 'row'));
    for (let j = 0; j < columns; j++) {
      const [a, b] = flip ? [j, i] : [i, j], from = own?.cells[a]?.[b], td = el('td');
      td.textContent = from && !from.isContentEditable ? from.textContent : write(whole[a][b]);
      td.className = from ? from.className.replace(/\b(at|bad|sel|src|now)\b/g, '').trim() : tint(whole[a][b], largestOf(whole));
      tr.append(td);
    }
    if (cut[1]) tr.append(el('td', 'more', '…'));
    body.append(tr);
  }
  const table = el('table'), corner = labels[flip].length ? [el('td')] : [];
  if (labels[1 - flip].length) table.append(el('thead', '', el('tr', '', ...corner, ...labels[1 - flip].slice(0, columns).map(text => label('th', text, 'col')))));
  if (cut[0]) body.append(el('tr', '', ...corner, el('td', 'more', '⋮')));
  table.append(body);
  const name = el(step.at ? 'a' : 'span', '', ...symbols(step.sym), flip ? 'ᵀ' : '');
  if (step.at) { name.href = `#${step.at}`; name.tabIndex = -1; }
  const figure = el('figure', `m copy${columns > 14 ? ' wide' : ''}`, el('figcaption', '', name), el('div', 'scroll', table));
  addView(step, figure, isTransposed);
  return figure;
};
const largestOf = a => a.flat().filter(Number.isFinite).reduce((m, x) => Math.max(m, Math.abs(x)), 0);
const tint = (x, size) => {
  const level = Math.round(Math.abs(x) / size * 8);
  return !Number.isFinite(x) ? 'none' : level >= 1 ? (x > 0 ? 'p' : 'm') + level : '';
};

// ---- formulas that depend on options ----
const TEMPLATES = {
  Scaled: p => { const f = factorOf(p), n = rootOf(f); return n === 1 ? '{0}' : n ? `{0} / √${n}` : `${f} · {0}`; },
  Masked: () => '{0} + (0 | −∞)', Biased: () => '{0} + b', Largest: () => 'maxⱼ {0}', OneHot: () => 'onehot(argmaxⱼ {0})',
  Exponentials: (p, ids) => ids[1] == null ? 'exp({0})' : 'exp({0} − {1})',
  SoftmaxGradient: () => '{0} ∘ ({1} − Σⱼ {0} ∘ {1})', ProductsTransposed: () => '{0}',
};
const written = step => {
  const made = definition(step), ids = made.of.map(operand);
  return JSON.stringify([made.op, ids, made.op === 'Scaled' && factorOf(made)]);
};
const isVariable = step => step.own !== undefined || step.control || step.of.some(id => id !== null && byId.get(id).control);
const variable = steps.filter(step => step.card && isVariable(step));
for (const step of variable) step.written = written(step);
// Writes a step's formula and equation anew if an option changed them.
const rewrite = step => {
  const now = written(step);
  if (now === step.written) return;
  step.written = now;
  const made = definition(step), ids = made.of.map(operand), template = TEMPLATES[made.op](made, ids);
  const text = template.replace(/\{(\d)\}/g, (_, k) => byId.get(ids[k]).sym);
  step.card.querySelector('.formula').replaceChildren(...symbols(`${step.sym} = ${text}`));
  const box = step.figure.closest('.eq'), seen = new Set(), parts = [];
  for (const part of template.split(/(\{\d\})/)) {
    const k = part.match(/^\{(\d)\}$/)?.[1], from = k === undefined ? null : byId.get(ids[k]);
    if (!from || seen.has(from)) {
      const shown = from ? symbols(from.sym) : [part.trim()];
      if (parts.at(-1)?.className === 'op') parts.at(-1).append(' ', ...shown); else if (part.trim()) parts.push(el('span', 'op', ...shown));
      continue;
    }
    seen.add(from);
    // An input stays where it can be changed.
    const own = from.figure?.parentElement === box && from.given ? from.figure : copy(from, false);
    parts.push(own);
  }
  for (const figure of box.querySelectorAll('.copy')) if (!parts.includes(figure)) forget(figure);
  box.replaceChildren(...parts, step.figure.parentElement);
};
const forget = figure => {
  const view = viewOf.get(figure);
  view.step.views.splice(view.step.views.indexOf(view), 1);
  viewOf.delete(figure);
  watcher.unobserve(figure.querySelector('.scroll'));
};

// ---- numbers ----
// The number that is spelled out below a step, as in expansion.rs: not an exponential of the largest score.
const expandable = (step, a) => {
  const made = definition(step), isTrivial = x => made.op === 'Exponentials' && operands(step)[1] != null && (x === 1 || x === 0);
  let best = null;
  a.slice(0, 6).forEach((row, i) => row.slice(0, 6).forEach((x, j) => {
    if (!Number.isFinite(x)) return;
    const old = best && a[best[0]][best[1]];
    if (!best || (isTrivial(old) !== isTrivial(x) ? isTrivial(old) : Math.abs(x) > Math.abs(old) * (1 + 1e-9))) best = [i, j];
  }));
  return best;
};
const spell = (step, of, i, j) => {
  const made = definition(step);
  return expansions[made.op](of, made.source === undefined ? made : { ...made, source: values[made.source] }, i, j);
};
const show = (step, a) => {
  if (!step.views.length) return;
  const write = writer(a), size = largestOf(a);
  const at = step.op === 'Given' || !step.lines.length ? null : expandable(step, a);
  for (const view of step.views) {
    const isOriginal = view === step.views[0] && view.figure === step.figure;
    view.cells.forEach((row, r) => row.forEach((cell, c) => {
      const [i, j] = view.isTransposed ? [c, r] : [r, c];
      if (i >= a.length || cell.classList.contains('bad')) return;
      const mark = isOriginal && at && at[0] === i && at[1] === j ? ' at' : '', kind = (tint(a[i][j], size) + mark).trim();
      if (cell.className !== kind) cell.className = kind;
      const text = write(a[i][j]);
      if (cell !== document.activeElement || !cell.isContentEditable) if (cell.textContent !== text) cell.textContent = text;
    }));
  }
  if (!at) return;
  const spelt = spell(step, matrices(operands(step)), ...at);
  for (const line of step.lines) {
    line.textContent = `(${at[0] + 1},${at[1] + 1}) = ${spelt(line.closest('.t')?.lang)} = ${write(a[at[0]][at[1]])}`;
  }
};
const compute = () => { for (const step of steps) if (step.op !== 'Given') values[step.id] = evaluateStep(step); };
const showAll = () => {
  for (const step of steps) show(step, values[step.id]);
  if (chain.length) ask();
};
// A step that is left out is computed as if it were not, so that it has numbers when it returns.
const evaluateStep = step => isOff(step) ? operations[step.op](matrices(step.of.map(id => id === null ? null : operand(id))), step) : evaluate(step);

// ---- changes ----
const note = () => {
  $('bad').hidden = !document.querySelector('td.bad');
  const isChanged = Object.keys(on).some(key => on[key] !== atStart[key]);
  const isEdited = isChanged || steps.some(step => step.given?.some((row, i) => row.some((x, j) => !Object.is(real(x), values[step.id][i][j]))));
  document.body.classList.toggle('edited', isEdited);
  $('undo').disabled = !isEdited && $('bad').hidden;
};
const mark = (cell, isBad) => { cell.classList.toggle('bad', isBad); cell.setAttribute('aria-invalid', String(isBad)); };
const edit = (step, i, j, cell) => {
  const text = cell.textContent.trim().replace('\u2212', '-'), row = step.entered[i];
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

// ---- where a number comes from ----
// The questions, each about an operand of the one before.
let chain = [], marked = [], term = -1;
const unmark = () => { for (const cell of marked) cell.classList.remove('sel', 'src', 'now'); marked = []; };
const light = ({ id, i, j }, kind) => {
  for (const view of byId.get(id).views) {
    const cell = cellOf(view, i, j);
    if (cell) { cell.classList.add(kind); marked.push(cell); }
  }
};
// The text of a number's computation with marks for its operands, and all operands that it uses.
const explain = ({ id, i, j }) => {
  const step = byId.get(id), used = new Set();
  if (step.op === 'Given') return { text: lang() === 'ja' ? '入力' : 'given', used: [], isGiven: true };
  const of = operands(step).map(k => k === null ? null : values[k].map((row, a) => row.map((x, b) => new Cell(used, k, a, b, x))));
  const made = definition(step), rows = made.source === undefined ? undefined : values[made.source];
  const source = rows?.map((row, a) => row.map((x, b) => new Cell(used, made.source, a, b, x)));
  const text = expansions[made.op](of, source ? { ...made, source } : made, i, j)(lang());
  return { text, used: [...used] };
};
const MARKS = /\u0001(\d+),(\d+),(\d+)\u0002([^\u0003]*)\u0003/g;
const asCell = ([, id, i, j]) => ({ id: Number(id), i: Number(i), j: Number(j) });
const named = ({ id, i, j }) => [...symbols(byId.get(id).sym), `(${i + 1},${j + 1})`];
const valueAt = ({ id, i, j }) => writer(values[id])(values[id][i][j]);
// A zero that has a reason.
const reason = ({ id, i, j }) => {
  const step = byId.get(id), [a, g] = matrices(operands(step)), isJa = lang() === 'ja';
  if (definition(step).op !== 'SoftmaxGradient' || Math.abs(values[id][i][j]) > 1e-12) return '';
  if (a[i][j] === 0) return isJa ? 'この重みは 0 なので、勾配も 0' : 'this weight is 0, and so is the gradient';
  if (g[i].every((x, k) => a[i][k] === 0 || Math.abs(x - g[i][j]) <= 1e-12)) {
    return isJa ? '行の勾配がすべて等しく、ソフトマックスは一律の差に影響されない' : 'all gradients of the row are equal, and softmax ignores shifts';
  }
  return '';
};
// Splits a sum into its terms.
const termsOf = text => {
  let depth = 0, start = 0;
  const found = [];
  for (let k = 0; k < text.length; k++) {
    if (text[k] === '(') depth++; else if (text[k] === ')') depth--;
    else if (depth === 0 && text.startsWith(' + ', k)) { found.push(text.slice(start, k)); start = k + 3; }
  }
  return [...found, text.slice(start)];
};
// The sum of the first terms, if they are products of operands.
const partial = (terms, count) => {
  const own = t => {
    const rest = t.replace(MARKS, '').replace(/[()·\s]/g, '');
    return rest ? NaN : [...t.matchAll(MARKS)].map(asCell).reduce((p, c) => p * values[c.id][c.i][c.j], 1);
  };
  return terms.slice(0, count).reduce((s, t) => s + own(t), 0);
};
const line = (of, k) => {
  const { text, isGiven } = explain(of), item = el('li'), next = chain[k + 1], parts = termsOf(text);
  const words = [0, 1].map(axis => byId.get(of.id).labels?.[axis]?.[axis ? of.j : of.i]).filter(Boolean).join(' → ');
  item.append(el('b', '', ...named(of)), ...(words ? [' ', el('small', '', el('bdi', '', words))] : []), isGiven ? ': ' : ' = ');
  const isPlaying = k === chain.length - 1 && term >= 0;
  parts.forEach((part, n) => {
    const box = el('span', isPlaying ? n === term ? 'term now' : n > term ? 'term later' : 'term' : 'term');
    let from = 0;
    for (const match of part.matchAll(MARKS)) {
      box.append(part.slice(from, match.index));
      from = match.index + match[0].length;
      const to = asCell(match), button = el('button', next && next.id === to.id && next.i === to.i && next.j === to.j ? 'n on' : 'n', match[4]);
      button.type = 'button';
      button.title = `${byId.get(to.id).sym}(${to.i + 1},${to.j + 1})`;
      button.setAttribute('aria-label', `${button.title}: ${match[4]}`);
      button.addEventListener('click', () => {
        const at = [...item.querySelectorAll('button')].indexOf(button);
        follow(k, to);
        $('chain').children[k]?.querySelectorAll('button')[at]?.focus({ preventScroll: true });
      });
      box.append(button);
    }
    box.append(part.slice(from));
    item.append(n ? ' + ' : '', box);
  });
  const sum = isPlaying && term < parts.length - 1 ? partial(parts, term + 1) : NaN;
  if (!Number.isNaN(sum)) item.append(el('span', 'sum', ` → ${spelled(sum)}`));
  if (!isGiven) item.append(' = ', el('b', 'result', valueAt(of)));
  const why = isGiven ? '' : reason(of);
  if (why) item.append(el('span', 'reason', ` ${why}`));
  return item;
};
// Writes the answer and lights up the numbers that the last question is about.
const ask = () => {
  unmark();
  const last = chain.at(-1), first = chain[0], answer = explain(last);
  const lit = term < 0 ? [] : [...(termsOf(answer.text)[term] ?? '').matchAll(MARKS)].map(asCell);
  for (const cell of answer.used) light(cell, 'src');
  for (const cell of lit) light(cell, 'now');
  light(last, 'sel');
  const title = lang() === 'ja' ? [...named(first), ` = ${valueAt(first)} になる理由`] : ['Why is ', ...named(first), ` = ${valueAt(first)}?`];
  $('why-title').replaceChildren(...title);
  $('chain').replaceChildren(...chain.map(line));
  $('why').hidden = false;
  root.classList.add('asking');
};
const follow = (k, to) => {
  chain = [...chain.slice(0, k + 1), to];
  term = -1;
  ask();
  reveal(to);
};
const calm = matchMedia('(prefers-reduced-motion: reduce)');
const reveal = ({ id, i, j }, isAtOnce) => {
  const view = byId.get(id).views[0], cell = view && cellOf(view, i, j) || view?.figure;
  if (!cell) return;
  for (let box = cell.closest('details'); box; box = box.parentElement.closest('details')) box.open = true;
  cell.scrollIntoView({ block: 'nearest', inline: 'nearest', behavior: calm.matches || isAtOnce ? 'instant' : 'smooth' });
};
const select = cell => {
  chain = [cell];
  term = -1;
  ask();
  const { at } = byId.get(cell.id);
  if (at) link('why', `${at},${cell.i + 1},${cell.j + 1}`);
};
const close = () => {
  pause();
  unmark();
  chain = [];
  $('why').hidden = true;
  root.classList.remove('asking');
  link('why', null);
};
// From the last question down to an input: the largest term of each number, and in it what was computed, if anything was.
const down = () => {
  const size = c => Math.abs(values[c.id][c.i][c.j]), isComputed = c => byId.get(c.id).op !== 'Given';
  for (let k = 0; chain.length && k < 60; k++) {
    const { text, isGiven } = explain(chain.at(-1));
    if (isGiven) break;
    const all = termsOf(text).map(t => [...t.matchAll(MARKS)].map(asCell)).filter(cells => cells.length && cells.every(c => Number.isFinite(size(c))));
    if (!all.length) break;
    const weigh = cells => cells.reduce((p, c) => p * size(c), 1);
    const cells = all.reduce((best, own) => weigh(own) > weigh(best) ? own : best), computed = cells.filter(isComputed);
    chain.push((computed.length ? computed : cells).reduce((best, c) => size(c) > size(best) ? c : best));
  }
  term = -1;
  ask();
  reveal(chain.at(-1));
};
const placeOf = cell => {
  const view = viewOf.get(cell.closest('figure')), row = cell.parentElement, tbody = row.parentElement;
  const r = [...tbody.children].indexOf(row), c = [...row.querySelectorAll('td')].indexOf(cell);
  return view && view.cells[r]?.[c] === cell ? { view, r, c, of: view.isTransposed ? { id: view.step.id, i: c, j: r } : { id: view.step.id, i: r, j: c } } : null;
};
const isInput = view => view.step.given && view === view.step.views[0];
const board = $('steps');
const isSame = (a, b) => a && a.id === b.id && a.i === b.i && a.j === b.j;
board.addEventListener('click', e => {
  const cell = e.target.closest('td'), place = cell && placeOf(cell);
  if (!place || isInput(place.view)) return;
  cell.tabIndex = -1;
  cell.focus({ preventScroll: true });
  if (!isSame(chain[0], place.of) || chain.length > 1) select(place.of);
});
board.addEventListener('focusin', e => {
  const cell = e.target.closest('td'), place = cell && placeOf(cell);
  if (!place) return;
  if (!isInput(place.view)) { if (!isSame(chain[0], place.of)) select(place.of); return; }
  // An input lights up wherever it is used.
  if (!chain.length) { unmark(); light(place.of, 'src'); }
});
board.addEventListener('keydown', e => {
  const cell = e.target.closest('td'), place = cell && placeOf(cell);
  if (!place || isInput(place.view)) return;
  const { view, r, c } = place, width = view.cells[r].length;
  const to = { ArrowDown: [r + 1, c], ArrowUp: [r - 1, c], ArrowLeft: [r, c - 1], ArrowRight: [r, c + 1], Home: [r, 0], End: [r, width - 1] }[e.key];
  if (to) {
    e.preventDefault();
    const next = view.cells[to[0]]?.[to[1]];
    if (next) { next.tabIndex = next.tabIndex === 0 ? 0 : -1; next.focus(); }
  } else if (e.key === 'Enter') {
    e.preventDefault();
    down();
    $('chain').querySelector('button')?.focus({ preventScroll: true });
  }
});
$('down').addEventListener('click', down);
$('close').addEventListener('click', () => { const first = chain[0]; close(); if (first) cellOf(byId.get(first.id).views[0] ?? { cells: [] }, first.i, first.j)?.focus(); close(); });
document.addEventListener('lang', () => { if (chain.length) ask(); });

// ---- play: term by term, cell by cell, as on a blackboard ----
const playable = steps.filter(step => step.op !== 'Given' && step.card);
let timer = null;
const press = isOn => {
  $('play').setAttribute('aria-pressed', String(isOn));
  $('play').querySelector('.on').hidden = !isOn;
  $('play').querySelector('.off').hidden = isOn;
};
const pause = () => {
  clearInterval(timer);
  timer = null;
  press(false);
};
const nextCell = by => {
  const order = playable.filter(step => !isOff(step)), last = chain[0];
  let k = order.findIndex(step => step.id === last?.id), i = last?.i ?? 0, j = (last?.j ?? -1) + by;
  if (k < 0) { k = 0; i = 0; j = 0; }
  const cells = () => order[k].views[0].cells;
  if (j >= cells()[i].length) { i++; j = 0; }
  if (i >= cells().length) { k = (k + 1) % order.length; i = 0; }
  if (j < 0) {
    i--;
    if (i < 0) { k = (k + order.length - 1) % order.length; i = cells().length - 1; }
    j = cells()[i].length - 1;
  }
  return { id: order[k].id, i, j };
};
const go = (by, byCell) => {
  const first = chain[0], count = first && byId.get(first.id).op !== 'Given' ? termsOf(explain(first).text).length : 0;
  if (first && chain.length > 1) { chain = [first]; term = -1; }
  if (first && !byCell && term + by >= 0 && term + by < count) term += by;
  else {
    select(nextCell(by));
    term = byCell ? -1 : by > 0 ? 0 : Math.max(0, termsOf(explain(chain[0]).text).length - 1);
  }
  ask();
  reveal(chain[0]);
};
const play = () => {
  if (timer !== null) { pause(); return; }
  press(true);
  const tick = () => go(1, calm.matches);
  timer = setInterval(tick, calm.matches ? 1500 : 700);
  tick();
};
$('play').addEventListener('click', play);
$('next').addEventListener('click', () => { pause(); go(1, false); });
$('back').addEventListener('click', () => { pause(); go(-1, false); });
addEventListener('keydown', e => {
  if (isTyping(e) || e.target.matches('input')) return;
  const isCell = e.target.closest?.('td');
  if (e.key === 'Escape' && chain.length) $('close').click();
  else if (e.key === 'p' || (e.key === ' ' && isCell)) { e.preventDefault(); play(); }
  else if (e.key === '.') { pause(); go(1, false); }
  else if (e.key === ',') { pause(); go(-1, false); }
});
const foldAll = isOpen => document.querySelectorAll('main details').forEach(box => { box.open = isOpen; });
$('fold').addEventListener('click', () => foldAll(false));
$('unfold').addEventListener('click', () => foldAll(true));

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
  const cell = step && { id: step.id, i: i - 1, j: j - 1 };
  if (cell && values[cell.id][cell.i]?.[cell.j] !== undefined && !isSame(chain[0], cell)) { select(cell); reveal(cell, true); }
};
addEventListener('hashchange', open);
sayBeta();
$('live').hidden = false;
open();
