// The person's key: in this tab, or in this browser if asked for. It never stands in an address that a server sees.

import { forThisBrowser, forThisTab } from "../ui/storage.js";

export const key = {
  get: () => forThisTab.get("key") ?? forThisBrowser.get("key") ?? "",
  get remembered() {
    return forThisBrowser.get("key") !== null;
  },
  set(value, remember) {
    this.forget();
    (remember ? forThisBrowser : forThisTab).set("key", value.trim());
  },
  forget() {
    for (const store of [forThisTab, forThisBrowser]) {
      store.remove("key");
      store.remove("owner");
    }
  },
  // Whose conversations are shown: the tenant and the name of the key, as the gateway says them.
  get owner() {
    return forThisTab.get("owner") ?? forThisBrowser.get("owner") ?? "";
  },
  set owner(value) {
    (this.remembered ? forThisBrowser : forThisTab).set("owner", value);
  },
};

// `make up` prints an address with the key behind #, which no server and no log ever sees.
const given = new URLSearchParams(location.hash.slice(1)).get("key");
if (given) {
  if (given !== key.get()) key.set(given, false);
  history.replaceState(null, "", location.pathname);
}
