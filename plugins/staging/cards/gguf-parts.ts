/** GGUF models among the files of a repository or a folder. */

/** `name-00001-of-00003.gguf`: a part of a model. */
const PART = /-(\d{5})-of-(\d{5})\.gguf$/i

/** A model: one file, or its parts in their order. `parts` says how many there should be. */
export interface GgufModel<F> { name: string, files: F[], parts: number, bytes: number }

/** The models among GGUF files. Vision projectors (`mmproj-…`) lie beside some and are none themselves. */
export function ggufModels<F extends { path: string, size: number }> (files: readonly F[]): GgufModel<F>[] {
  const weights = files.filter(({ path }) => /\.gguf$/i.test(path) && !/(^|\/)mmproj[^/]*$/i.test(path))
  const sorted = [...weights].sort((a, b) => a.path < b.path ? -1 : 1)
  const groups = groupBy(sorted, ({ path }) => `${nameOf(path)} ${partsOf(path)}`)
  return [...groups.values()].map((files) => {
    const { path } = files[0]!
    const bytes = files.reduce((sum, { size }) => sum + size, 0)
    return { name: nameOf(path), files, parts: partsOf(path), bytes }
  })
}

const nameOf = (path: string): string => path.replace(PART, '').replace(/\.gguf$/i, '')
const partsOf = (path: string): number => Number(PART.exec(path)?.[2] ?? 1)

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
