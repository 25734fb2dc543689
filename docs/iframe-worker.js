/* Pages opened from a disk may start no worker, so their search runs in a hidden frame. */
if (location.protocol === "file:") {
  window.IFrameWorker = window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      const inside = frame.contentWindow;
      const told = (target, data) => target.dispatchEvent(new MessageEvent("message", { data }));
      inside.postMessage = (data) => told(this, data);
      this.postMessage = (data) => this.ready.then(() => told(inside, data));
      this.ready = new Promise((loaded) => {
        const script = inside.document.createElement("script");
        script.src = new URL(address, document.baseURI);
        script.onload = loaded;
        inside.document.head.append(script);
      });
    }
  };
}
