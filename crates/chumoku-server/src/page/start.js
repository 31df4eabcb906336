// Asks the service for its models, and opens the tabs that have models.
const ROOMS = { text: textRoom, two: twoRoom, translation: translationRoom, writing: writingRoom, table: tableRoom };

function drawServing() {
  const [only, ...others] = S.models;
  $('serving').textContent = others.length ? T.serving(S.models.length) : only ? named(only) : '';
}
redraws.push(drawServing);

async function start() {
  try {
    S.info = await ask('info');
  } catch (error) {
    showProblem(error, start);
    return;
  }
  S.models = S.info.models;
  for (const [name, open] of Object.entries(ROOMS)) $('tab-' + name).hidden = !open();
  const there = rooms(), asked = $('tab-' + location.hash.slice(1));
  $('tabs').hidden = !there.length;
  speak();
  if (!there.length) showProblem(new Refused('none'));
  else enter(there.includes(asked) ? asked : there[0]);
  root.dataset.ready = '1';
}
addEventListener('hashchange', () => {
  const tab = $('tab-' + location.hash.slice(1));
  if (tab && !tab.hidden) enter(tab);
});
speak();
start();
