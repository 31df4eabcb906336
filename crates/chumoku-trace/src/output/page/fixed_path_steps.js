
// A page with too many numbers to recompute: the vectors on a token's path are those of the start.
const { steps, path: fixed } = JSON.parse($('program').textContent);
for (const step of steps) {
  const figure = place(step);
  step.views = figure ? [{ step, figure, cells: cellsOf(figure) }] : [];
  if (figure) viewOf.set(figure, step.views[0]);
}
const pathSteps = () => fixed.map(own => ({ step: steps.find(step => step.at === own.at) ?? own, after: own.after, ...own.rows[own.rows.length === 1 ? 0 : token] }));
$('live').hidden = false;
readToken();
