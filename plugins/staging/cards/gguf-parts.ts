/** Matches one part of a split model: `name-00001-of-00003.gguf`. */
const PART = /-(\d{5})-of-(\d{5})\.gguf$/i

/** A model in one file or in several parts, in order. `parts` is the expected number of parts. */
export interface GgufModel<F> { name: string, files: F[], parts: number, bytes: number }

/** Companion files of a model: separate vision weights (`mmproj-…`) and draft models (`draft-…`). */
const VISION = /(^|\/)mmproj[^/]*\.gguf$/i
const DRAFTER = /(^|\/)((draft|drafter|assistant|mtp)[-_.][^/]*|[^/]*[-_.](draft|drafter))\.gguf$/i
/** Preferred vision weights, best first: most repositories have several precisions. */
const VISION_TYPES = [/[-_.]f16\.gguf$/i, /[-_.]bf16\.gguf$/i, /[-_.]q8_0\.gguf$/i]

const isModel = (path: string): boolean => /\.gguf$/i.test(path) && !VISION.test(path) && !DRAFTER.test(path)

/** Companion files of a model, by role. A draft model without a main model is not a companion. */
export function ggufCompanions<F extends { path: string, size: number }> (
  files: readonly F[]
): Map<F, string> {
  const sorted = [...files].sort((a, b) => a.size - b.size)
  const vision = sorted.filter(({ path }) => VISION.test(path))
  const typed = VISION_TYPES.flatMap((type) => vision.filter(({ path }) => type.test(path)))
  const eyes = typed[0] ?? vision[0]
  const drafter = sorted.some(({ path }) => isModel(path))
    ? sorted.find(({ path }) => DRAFTER.test(path))
    : undefined
  return new Map([
    ...eyes === undefined ? [] : [[eyes, 'vision_weights'] as const],
    ...drafter === undefined ? [] : [[drafter, 'assistant'] as const]
  ])
}

export function ggufModels<F extends { path: string, size: number }> (files: readonly F[]): GgufModel<F>[] {
  const models = files.filter(({ path }) => isModel(path))
  const weights = models.length > 0 ? models : files.filter(({ path }) => DRAFTER.test(path))
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

export function groupBy<T> (list: readonly T[], key: (entry: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>()
  for (const entry of list) {
    const group = groups.get(key(entry))
    if (group === undefined) groups.set(key(entry), [entry])
    else group.push(entry)
  }
  return groups
}
