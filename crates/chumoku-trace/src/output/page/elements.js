
// Elements and symbols.
const el = (tag, className, ...children) => {
  const node = document.createElement(tag);
  if (className) node.className = className;
  node.append(...children);
  return node;
};
// Text after `_` and the number of a head in brackets become subscripts.
const symbol = text => {
  const parts = text.split(/(_[\p{L}\p{N}]*(?:\[\d+\])?|\[\d+\])/u).filter(Boolean);
  return parts.map(part => {
    const index = part.match(/^_?([^[\]_]*)\[?(\d*)\]?$/), isIndex = /^_[\p{L}\p{N}]|^\[\d+\]$/u.test(part);
    return isIndex ? el('sub', '', [index[1], index[2]].filter(Boolean).join(',')) : part;
  });
};
// As `with_subscripts` of chumoku-view: few fonts have these letters. The transposition sign is no part of a subscript.
const LETTERS = { ᵀ: 'T', ᵢ: 'i', ⱼ: 'j' };
const symbols = text => text.split(/(ᵀ|[ᵢⱼ]+)/).flatMap(part => !(part[0] in LETTERS) ? symbol(part) :
  el(part === 'ᵀ' ? 'sup' : 'sub', '', [...part].map(letter => LETTERS[letter]).join('')));
// Every place that shows a step's matrix: its cells, row by row, and whether it is transposed.
const viewOf = new Map();
const cellsOf = figure => [...figure.querySelectorAll('tbody tr')].map(row => [...row.querySelectorAll('td:not(.more)')]).filter(row => row.length);
// Finds a step's matrix and its card.
const place = step => {
  step.figure = step.at && $(step.at) || null;
  step.card = step.figure?.closest('.step') ?? null;
  // An input may be shown in the card of another step.
  if (step.card && Number(step.card.dataset.s) !== step.id) step.card = null;
  return step.figure;
};
