// Lists whose lines stay where they are.

// Makes `nodes` the children of `container` and touches only what has to move: a node that is taken out and put in
// again loses the focus, and a click whose button was pressed on it is never heard of.
export function place(container, nodes) {
  const wanted = new Set(nodes);
  for (const node of [...container.children]) if (!wanted.has(node)) node.remove();
  nodes.forEach((node, index) => {
    const there = container.children[index];
    if (there !== node) container.insertBefore(node, there ?? null);
  });
}
