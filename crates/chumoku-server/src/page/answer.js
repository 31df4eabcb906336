// Answers: a class with bars, labels, a number with its interval, or marked spans.

// Number of bars before the rest is folded.
const BARS = 8;

// Merges both forms of the answer: the object with the prediction, and the score of each class.
async function answerTo(model, inputs, columns, signal) {
  const body = { model: model.model_id, inputs, ...Object.keys(columns).length && { columns } };
  const full = ask('predict', { ...body, full: true }, signal);
  if (model.kind === 'tagger') return { full: await full, scores: [] };
  const [object, scores] = await Promise.all([full, ask('predict', body, signal)]);
  return { full: object, scores };
}

// Summarizes the answer in a few words.
function inWords({ full }) {
  if (full.spans) return full.spans.length ? T.spansFound(full.spans.length) : T.noSpans;
  if (full.labels) return full.labels.map(l => l.label).join(T.list) || T.noLabel;
  if (full.score !== undefined) return String(full.score);
  return T.answered(full.label, percent(full.probability));
}

function bars(scores, chosen, heading) {
  const row = ({ label, score }) => {
    const fill = el('span', { class: 'fill' });
    fill.style.width = percent(score, 2) + '%';
    return el('tr', { class: chosen.includes(label) ? 'chosen' : '' }, el('th', { scope: 'row', title: label }, el('bdi', { text: label })),
      el('td', { class: 'meter', 'aria-hidden': 'true' }, el('span', { class: 'track' }, fill)), el('td', { class: 'whole', text: T.percent(percent(score)) }));
  };
  const table = rows => el('table', { class: 'classes', 'aria-label': heading }, el('tbody', {}, ...rows.map(row)));
  if (scores.length <= BARS + 2) return [table(scores)];
  const rest = scores.slice(BARS);
  return [table(scores.slice(0, BARS)), el('details', { class: 'more' }, el('summary', { text: T.moreClasses(rest.length) }), el('div', { class: 'wide', tabIndex: 0 }, table(rest)))];
}

// Shows a text with its spans marked, each with its label.
function marked(text, spans) {
  const letters = [...text], parts = [], kinds = [...new Set(spans.map(s => s.label))];
  let at = 0;
  for (const { start, end, label, probability } of spans) {
    if (start < at) continue;
    parts.push(letters.slice(at, start).join(''));
    parts.push(el('mark', { class: `kind-${kinds.indexOf(label) % 6}`, title: `${label} ${T.percent(percent(probability))}` }, letters.slice(start, end).join(''), el('small', { text: label })));
    at = end;
  }
  parts.push(letters.slice(at).join(''));
  return el('p', { class: 'marked', dir: 'auto' }, ...parts);
}

// Renders the answer; `text` is the input.
function answerNodes({ full, scores }, text) {
  const verdict = (label, more = '') => el('p', { class: 'verdict' }, el('bdi', { text: label }), ' ', el('span', { text: more }));
  if (full.spans) {
    const list = el('ul', { class: 'spans' }, ...full.spans.map(s => el('li', {}, el('bdi', { text: s.text }), ' ', el('strong', { text: s.label }), ' ', el('span', { class: 'note', text: T.percent(percent(s.probability)) }))));
    return [el('p', { class: 'verdict small-verdict', text: inWords({ full }) }), ...full.spans.length ? [marked(text, full.spans), list] : []];
  }
  if (full.score !== undefined) return [verdict(full.score), el('p', { class: 'note', text: T.number(full.score, full.low, full.high) })];
  if (full.labels) {
    const chosen = full.labels.map(l => l.label);
    return [verdict(inWords({ full })), el('p', { class: 'note small', text: chosen.length ? T.labelsChosen : '' }), ...bars(scores, chosen, T.labelHead)];
  }
  const levels = full.levels?.length > 1 ? [el('p', { class: 'note small', text: T.between }), el('p', { class: 'levels' }, ...full.levels.map(l => el('span', {}, el('bdi', { text: l.label.split('/').pop() }), ' ', el('small', { text: T.percent(percent(l.probability)) }))))] : [];
  return [verdict(full.label, T.percent(percent(full.probability))), ...levels, ...bars(scores, [full.label], T.classHead)];
}

// A box that shows answers one after another, and renders them again after a change of language.
function answerBox(box) {
  let now = null;
  const draw = () => box.replaceChildren(el('h2', { class: 'eyebrow', text: T.answer }), ...now ? answerNodes(now.answer, now.text) : [el('p', { class: 'note', text: T.waiting })]);
  redraws.push(draw);
  return {
    show(answer, text) { now = { answer, text }; box.removeAttribute('aria-busy'); draw(); },
    wait() { box.setAttribute('aria-busy', 'true'); },
    clear() { now = null; box.removeAttribute('aria-busy'); draw(); },
  };
}

// ---- models ----
// The models of a tab: the selected one, with a selector if there are several.
function modelsOf(room, fits) {
  const select = $(room + '-model'), list = S.models.filter(fits);
  select.replaceChildren(...list.map(model => el('option', { value: model.model_id, text: model.model_id })));
  const old = remembered('sessionStorage', select.id);
  if (list.some(model => model.model_id === old)) select.value = old;
  select.parentElement.hidden = list.length < 2;
  const say = () => [...select.options].forEach((option, i) => { option.textContent = named(list[i]); });
  say();
  redraws.push(say);
  return {
    any: list.length > 0,
    get now() { return list.find(model => model.model_id === select.value) ?? list[0]; },
    onChange(act) { select.addEventListener('change', () => { remember('sessionStorage', select.id, select.value); act(); }); },
  };
}
const named = model => `${model.model_id} (${T.kinds[model.tells_numbers ? 'numbers' : model.kind] ?? model.kind})`;
const predicts = model => ['classifier', 'ngrams', 'tagger'].includes(model.kind);

// Fields for the feature columns of a model; returns the values that are filled in.
function columnFields(box, changed) {
  let shown = '';
  return model => {
    const names = model.columns ?? [];
    if (shown !== JSON.stringify(names)) {
      shown = JSON.stringify(names);
      box.replaceChildren(...names.map(name => {
        const input = el('input', { type: 'text', name });
        input.addEventListener('input', changed);
        return el('label', {}, el('bdi', { text: name }), ' ', input);
      }));
    }
    return Object.fromEntries([...box.querySelectorAll('input')].filter(input => input.value.trim()).map(input => [input.name, input.value]));
  };
}
