'use strict';
// Every page's link, and its place in a frame.
// What is shown stands in the address, so that a link shows what its sender saw.
// In a frame of the service's page there is no address: the frame's name holds the link, and the page around is told of it.
const FRAMED = 'chumoku:', isFramed = parent !== self && self.name.startsWith(FRAMED);
const tell = said => parent.postMessage({ chumoku: said }, '*');
const linked = () => new URLSearchParams(isFramed ? self.name.slice(FRAMED.length) : location.hash.slice(1));
function link(params) {
  if (isFramed) {
    self.name = FRAMED + params;
    tell({ link: String(params) });
    return;
  }
  // Some browsers refuse this for a file on disk; the page then works without the link.
  try { history.replaceState(null, '', '#' + params); } catch { /* nothing is lost */ }
}
if (isFramed) {
  // Browsers observe nothing in frames that are out of sight, so the first height is told without being observed.
  const tellHeight = () => tell({ height: Math.ceil(document.body.getBoundingClientRect().height) });
  addEventListener('load', tellHeight);
  new ResizeObserver(tellHeight).observe(document.body);
}
