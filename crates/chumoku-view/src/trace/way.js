
// Follows a token: its row in every step, and the vectors that it becomes.
const way = $('way'), chooser = $('token');
let token = -1;
// How many rows of a matrix belong to each token. All keys and values take part in a token's attention, so they are
// marked only where they are computed.
const rowsPer = view => view.step.tokenRows ?? (view === view.step.views[0] ? view.step.keyRows : undefined);
const markRows = () => {
  for (const step of steps) for (const view of step.views) {
    const per = rowsPer(view);
    const mark = (node, k) => { if (token < 0) delete node.dataset.way; else node.dataset.way = Math.floor(k / per) === token ? 'on' : 'off'; };
    if (per) view.cells.forEach((row, r) => view.isTransposed ? row.forEach(mark) : mark(row[0].parentElement, r));
  }
};
// The output of each head, times its rows of the weights that followToken.
const contributions = joined => {
  const next = steps.find(step => step.op === 'Product' && step.of[0] === joined.id), weights = next && values[next.of[1]];
  let from = 0;
  return joined.of.map(id => {
    const row = values[id][token], own = weights?.slice(from, from += row.length);
    return { step: { ...byId.get(id), way: 1 }, after: next && byId.get(next.of[1]).sym, row: own ? operations.Product([[row], own])[0] : row };
  });
};
const stations = () => steps.filter(step => step.way).flatMap(step => {
  const rows = values[step.id], own = { step, row: rows[rows.length === 1 ? 0 : token] };
  return step.op === 'Joined' ? [...contributions(step), own] : [own];
});
const station = ({ step, after, row }, size) => {
  const name = el(step.at ? 'a' : 'b', '', ...symbols(step.sym)), title = (step.card?.querySelector('h3') ?? step.figure?.querySelector('.name'))?.querySelectorAll('.t') ?? [];
  if (step.at) name.href = `#${step.at}`;
  const write = writer([row]), head = el('span', '', name, ...(after ? [' · ', ...symbols(after)] : []), ' '), item = el('li', '', head);
  if (!after) head.append(...[...title].map(text => text.cloneNode(true)));
  if (step.way === 2) {
    const best = first(row);
    item.append(el('b', '', el('bdi', '', step.labels[1][best] ?? best + 1), ` ${write(row[best])}`));
  } else if (step.way === 1) {
    const bar = el('i', 'bar-of'), x = length(row);
    bar.style.inlineSize = `${size ? x / size * 100 : 0}%`;
    item.append(el('span', 'track', bar), el('span', 'long', spelled(x)));
  }
  item.append(el('small', '', row.slice(0, 6).map(write).join('  '), row.length > 6 ? '  …' : ''));
  return item;
};
const followToken = () => {
  markRows();
  $('way-box').hidden = token < 0;
  if (token < 0) return;
  const all = stations(), size = Math.max(...all.filter(own => own.step.way === 1).map(own => length(own.row)).filter(Number.isFinite));
  way.replaceChildren(...all.map(own => station(own, size)));
};
const choose = to => {
  token = to;
  chooser.value = to < 0 ? '' : String(to + 1);
  link('token', to < 0 ? null : to + 1);
  followToken();
};
const readToken = () => {
  const to = Number(linked().get('token')) - 1;
  if (chooser && Number.isInteger(to) && to !== token && to >= 0 && to < chooser.options.length - 1) choose(to);
};
if (chooser) {
  chooser.addEventListener('change', () => choose(Number(chooser.value) - 1));
  // The name of a row chooses it too.
  board.addEventListener('click', e => {
    const name = e.target.closest('tbody th'), view = name && viewOf.get(name.closest('figure')), per = view && !view.isTransposed && rowsPer(view);
    if (!per) return;
    const to = Math.floor([...name.closest('tbody').children].indexOf(name.parentElement) / per);
    choose(to === token ? -1 : to);
  });
  addEventListener('keydown', e => {
    const by = { '[': -1, ']': 1 }[e.key];
    if (by && !isTyping(e)) choose(Math.min(Math.max(token + by, -1), chooser.options.length - 2));
  });
  addEventListener('hashchange', readToken);
}
