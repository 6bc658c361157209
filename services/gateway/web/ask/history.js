// The conversations, kept in this browser (IndexedDB) and nowhere else. Where the browser forbids it, in memory.

const MOST = 500;
const inMemory = { heads: new Map(), bodies: new Map() };
const channel = "BroadcastChannel" in globalThis ? new BroadcastChannel("conversations") : null;
let opening = null;

// What is listed of a conversation: {id, owner, title, updated}; newest first.
export async function list(owner) {
  const heads = await all("heads");
  return heads.filter((head) => head.owner === owner).sort((a, b) => b.updated - a.updated);
}

export async function get(id) {
  const [head, body] = await Promise.all([one("heads", id), one("bodies", id)]);
  return head && body ? { ...head, turns: body.turns } : null;
}

export async function put({ id, owner, title, updated, turns }) {
  await change((stores) => {
    stores.heads.put({ id, owner, title, updated });
    stores.bodies.put({ id, turns });
  });
  const known = await list(owner);
  if (known.length > MOST) await remove(...known.slice(MOST).map((head) => head.id));
}

export async function rename(id, title) {
  const head = await one("heads", id);
  if (head) await change((stores) => stores.heads.put({ ...head, title }));
}

export function remove(...ids) {
  return change((stores) =>
    ids.forEach((id) => {
      stores.heads.delete(id);
      stores.bodies.delete(id);
    }),
  );
}

export async function removeAll(owner) {
  await remove(...(await list(owner)).map((head) => head.id));
}

// Calls back when another tab has changed something.
export function onChangeElsewhere(listener) {
  channel?.addEventListener("message", listener);
}

function database() {
  opening ??= new Promise((resolve) => {
    const request = globalThis.indexedDB?.open("sabueso", 1);
    if (!request) return resolve(null);
    request.onupgradeneeded = () =>
      ["heads", "bodies"].forEach((name) => request.result.createObjectStore(name, { keyPath: "id" }));
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => resolve(null);
  }).catch(() => null);
  return opening;
}

const result = (request) =>
  new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });

async function all(store) {
  const db = await database();
  return db ? result(db.transaction(store).objectStore(store).getAll()) : [...inMemory[store].values()];
}

async function one(store, id) {
  const db = await database();
  return db ? result(db.transaction(store).objectStore(store).get(id)) : inMemory[store].get(id);
}

async function change(work) {
  const db = await database();
  if (!db) {
    const stores = Object.entries(inMemory).map(([name, map]) => [
      name,
      { put: (value) => map.set(value.id, structuredClone(value)), delete: (id) => map.delete(id) },
    ]);
    work(Object.fromEntries(stores));
  } else {
    const transaction = db.transaction(["heads", "bodies"], "readwrite");
    const done = new Promise((resolve, reject) => {
      transaction.oncomplete = resolve;
      transaction.onerror = transaction.onabort = () => reject(transaction.error);
    });
    work({ heads: transaction.objectStore("heads"), bodies: transaction.objectStore("bodies") });
    await done;
  }
  channel?.postMessage("changed");
}
