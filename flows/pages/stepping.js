// One frame at a time, chosen by keys or buttons (after tokens.js); asks no network.

const frames = [...document.querySelectorAll(".frame")];
let current = 0;

function go(place) {
  current = Math.min(Math.max(place, 0), frames.length - 1);
  frames.forEach((frame, number) => { frame.hidden = number !== current; });
  byId("place").textContent = `${number(current + 1)} of ${number(frames.length)}`;
  byId("back").disabled = byId("first").disabled = current === 0;
  byId("on").disabled = byId("last").disabled = current === frames.length - 1;
}

const moves = {
  ArrowRight: () => current + 1,
  ArrowLeft: () => current - 1,
  Home: () => 0,
  End: () => frames.length - 1,
};
document.addEventListener("keydown", (event) => {
  if (event.altKey || event.ctrlKey || event.metaKey || !(event.key in moves)) return;
  event.preventDefault();
  go(moves[event.key]());
});
for (const [id, key] of [["first", "Home"], ["back", "ArrowLeft"], ["on", "ArrowRight"], ["last", "End"]]) {
  byId(id).addEventListener("click", () => go(moves[key]()));
}
window.addEventListener("beforeprint", () => frames.forEach((frame) => { frame.hidden = false; }));
window.addEventListener("afterprint", () => go(current));
go(0);
document.documentElement.classList.add("ready");
