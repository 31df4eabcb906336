// A block of the map leads to its row in the table, by pointer or keyboard.
document.querySelectorAll('.figure').forEach(figure => {
  const fold = figure.querySelector('details'), rows = figure.querySelectorAll('tbody tr');
  figure.querySelectorAll('svg rect').forEach(block => {
    const number = Number((block.querySelector('title')?.textContent.match(/^(\d+) · /) || [])[1]);
    const row = rows[number - 1];
    if (!row) return;
    const open = () => {
      fold.open = true;
      rows.forEach(other => other.toggleAttribute('data-chosen', other === row));
      row.tabIndex = -1;
      row.focus();
      row.scrollIntoView({ block: 'center' });
    };
    block.setAttribute('tabindex', '0');
    block.setAttribute('role', 'button');
    block.setAttribute('aria-label', block.querySelector('title').textContent);
    block.style.cursor = 'pointer';
    block.addEventListener('click', open);
    block.addEventListener('keydown', e => { if (e.key === 'Enter' || e.key === ' ') { e.preventDefault(); open(); } });
  });
});
