
// The vectors on a token's path, from the numbers at the moment.
const vector = row => ({ x: length(row), long: spelled(length(row)), numbers: row.slice(0, 6).map(writer([row])).join('  ') + (row.length > 6 ? '  …' : '') });
// The output of each head, times its rows of the weights that follow.
const contributions = joined => {
  const next = steps.find(step => step.op === 'Product' && step.of[0] === joined.id), weights = next && values[next.of[1]];
  let from = 0;
  return joined.of.map(id => {
    const row = values[id][token], own = weights?.slice(from, from += row.length);
    return { step: byId.get(id), after: next && byId.get(next.of[1]).sym, ...vector(own ? operations.Product([[row], own])[0] : row) };
  });
};
const pathSteps = () => steps.filter(step => step.path).flatMap(step => {
  const rows = values[step.id], row = rows[rows.length === 1 ? 0 : token], own = { step, ...vector(row) };
  if (step.path !== 1) delete own.long;
  if (step.path === 2) own.answer = `${step.labels[1][first(row)] ?? first(row) + 1} ${writer([row])(Math.max(...row))}`;
  return step.op === 'Joined' ? [...contributions(step), own] : [own];
});
