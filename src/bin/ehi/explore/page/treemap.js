// Leaves as rectangles whose areas are their documents: squarified, level by level of the tree.

/** Rectangles `{item, x, y, width, height}` of items with sizes, in a box; larger ones first. */
export function squarify(items, box) {
    const rest = items.filter(item => item.size > 0).sort((a, b) => b.size - a.size);
    const total = rest.reduce((sum, item) => sum + item.size, 0);
    const scale = total === 0 ? 0 : (box.width * box.height) / total;
    let { x, y, width, height } = box;
    const rectangles = [];
    let at = 0;
    while (at < rest.length) {
        const side = Math.min(width, height);
        let [end, sum, worst] = [at, 0, Infinity];
        while (end < rest.length) {
            const area = sum + rest[end].size * scale;
            const own = shape(rest[at].size * scale, rest[end].size * scale, area, side);
            if (own > worst) break;
            [worst, sum, end] = [own, area, end + 1];
        }
        const depth = side === 0 ? 0 : sum / side;
        let along = 0;
        for (const item of rest.slice(at, end)) {
            const length = depth === 0 ? 0 : (item.size * scale) / depth;
            rectangles.push(width >= height
                ? { item, x, y: y + along, width: depth, height: length }
                : { item, x: x + along, y, width: length, height: depth });
            along += length;
        }
        if (width >= height) [x, width] = [x + depth, Math.max(width - depth, 0)];
        else [y, height] = [y + depth, Math.max(height - depth, 0)];
        at = end;
    }
    return rectangles;
}

/** How far from a square the worst of a row is. */
function shape(largest, smallest, area, side) {
    return Math.max((side * side * largest) / (area * area), (area * area) / (side * side * smallest));
}

/** Rectangles of `[leaf, documents]`, those of one node of the tree side by side. */
export function treemap(leaves, branching, height, box) {
    if (height <= 1) return squarify(leaves.map(([leaf, size]) => ({ leaf, size })), box);
    const below = branching ** (height - 1);
    const groups = new Map();
    for (const [leaf, size] of leaves) {
        const child = Math.floor(leaf / below);
        const group = groups.get(child) ?? { child, size: 0, leaves: [] };
        group.size += size;
        group.leaves.push([leaf - child * below, size]);
        groups.set(child, group);
    }
    return squarify([...groups.values()], box).flatMap(({ item, ...own }) =>
        treemap(item.leaves, branching, height - 1, own).map(rectangle => {
            const leaf = rectangle.item.leaf + item.child * below;
            return { ...rectangle, item: { ...rectangle.item, leaf } };
        }));
}
