// Waits at the gateway until something about this notebook changes, then loads the page again: then it opens, or says more.
const since = document.querySelector("main").dataset.version;
let pause = 1000; // milliseconds until the next try when the gateway itself does not answer
async function follow() {
  try {
    const answer = await fetch(`/_tessera/wait?since=${since}`, { cache: "no-store" });
    if (answer.status < 500) return location.reload();
  } catch {
    // no connection: tried again below
  }
  setTimeout(follow, pause);
  pause = Math.min(pause * 2, 15000);
}
follow();
