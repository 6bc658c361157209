// The browser's two stores of small values. A browser may forbid them: then values live as long as the page.

const inMemory = new Map();

function kept(store) {
  const use = (work, otherwise) => {
    try {
      return work(globalThis[store]);
    } catch {
      return otherwise();
    }
  };
  return {
    get: (name) =>
      use(
        (real) => real.getItem(name),
        () => inMemory.get(store + name) ?? null,
      ),
    set: (name, value) =>
      use(
        (real) => real.setItem(name, value),
        () => void inMemory.set(store + name, value),
      ),
    remove: (name) =>
      use(
        (real) => real.removeItem(name),
        () => void inMemory.delete(store + name),
      ),
  };
}

export const forThisTab = kept("sessionStorage");
export const forThisBrowser = kept("localStorage");
