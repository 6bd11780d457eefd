const frames = [...document.querySelectorAll('g[data-n]')];
const all = Number(frames[0].dataset.s);
function search(wanted) {
  let share = 0, covered = [];
  for (const frame of frames) {
    const rect = frame.querySelector('rect');
    rect.dataset.fill ??= rect.getAttribute('fill');
    const found = wanted && frame.dataset.n.includes(wanted);
    rect.setAttribute('fill', found ? '#c0f' : rect.dataset.fill);
    if (!found) continue;
    const left = Number(rect.getAttribute('x')), right = left + Number(rect.getAttribute('width'));
    if (covered.some(([a, b]) => a <= left + 0.1 && right <= b + 0.1)) continue;
    covered.push([left, right]);
    share += Number(frame.dataset.s);
  }
  document.getElementById('found').textContent = wanted ? `${wanted}: ${(100 * share / all).toFixed(1)} %` : '';
}
function ask() { search(prompt('Functions whose names contain:') ?? ''); }
document.getElementById('search').addEventListener('click', ask);
document.addEventListener('keydown', event => {
  if (event.ctrlKey && event.key === 'f') { event.preventDefault(); ask(); }
  if (event.key === 'Escape') search('');
});
