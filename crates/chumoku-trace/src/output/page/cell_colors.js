
for (const box of document.querySelectorAll('.scroll')) watcher.observe(box);
// The colors of a page that recomputes nothing, a letter for each cell: A to H for positive numbers, a to h for negative
// ones, - for those that are not finite.
for (const row of document.querySelectorAll('tr[data-c]')) {
  const cells = row.querySelectorAll('td:not(.more)');
  [...row.dataset.c].forEach((letter, j) => {
    const kind = letter === '.' ? '' : letter === '-' ? 'none' : (letter < 'a' ? 'p' : 'm') + (letter.charCodeAt(0) & 15);
    if (kind) cells[j].classList.add(kind);
  });
  delete row.dataset.c;
}
