/** The one with the least; the first of equals. The list is not empty. */
export function smallestOf<T> (list: readonly T[], size: (entry: T) => number): T {
  return list.reduce((least, entry) => size(entry) < size(least) ? entry : least)
}

/** Entries by key, in the order of their first. */
export function groupBy<T> (list: readonly T[], key: (entry: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>()
  for (const entry of list) {
    const group = groups.get(key(entry))
    if (group === undefined) groups.set(key(entry), [entry])
    else group.push(entry)
  }
  return groups
}
