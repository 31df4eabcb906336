// Shows the steps: their matrices, equations and formulas, which depend on options.
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

const addView = (step, figure, isTransposed) => {
  const view = { step, figure, cells: cellsOf(figure), isTransposed };
  step.views.push(view);
  viewOf.set(figure, view);
  watcher.observe(figure.querySelector('.scroll'));
};
const cellOf = (view, i, j) => view.isTransposed ? view.cells[j]?.[i] : view.cells[i]?.[j];
for (const step of steps) {
  step.views = [];
  const figure = place(step);
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
  const name = el(step.at ? 'a' : 'span', '', ...symbols(step.sym + (flip ? 'ᵀ' : '')));
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
// A step that is left out at the start was written with every option on.
for (const step of variable) step.written = isOff(step) ? null : written(step);
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
      const shown = symbols(from ? from.sym : part.trim());
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
  if (token >= 0) followToken();
};
// A step that is left out is computed as if it were not, so that it has numbers when it returns.
const evaluateStep = step => isOff(step) ? operations[step.op](matrices(step.of.map(id => id === null ? null : operand(id))), step) : evaluate(step);

