import { HubError } from './errors.js'
import { groupBy, smallestOf } from './lists.js'
import type { Choosable } from './select.js'

const SPLIT = /-(\d{5})-of-(\d{5})\.gguf$/
/** Taken when nothing is asked for: the usual balance of size and quality. */
const PREFERRED = 'q4_k_m'

interface Model<F> { name: string, files: F[], parts: number, bytes: number }

/**
 * Chooses one GGUF model, all parts of it when it is split: the one whose name ends in the variant, else
 * Q4_K_M, else the smallest. Vision projectors (`mmproj-…`) are no models. Throws HubError `not_found`.
 */
export function chooseGguf<F extends Choosable> (files: readonly F[], variant: string | undefined): Set<F> {
  const models = modelsOf(files)
  const complete = models.filter(({ files, parts }) => files.length === parts)
  const names = (): string => models.slice(0, 20).map(({ name }) => name).join(', ')
  if (complete.length === 0) {
    throw new HubError('not_found', `no GGUF file of the model is there with all its parts: ${names()}`)
  }
  const asked = complete.find((model) => isVariant(model.name, variant ?? PREFERRED))
  if (asked === undefined && variant !== undefined) {
    const known = `it has ${names()}`
    throw new HubError('not_found', `the model has no GGUF variant "${variant.slice(0, 40)}"; ${known}`)
  }
  return new Set((asked ?? smallestOf(complete, ({ bytes }) => bytes)).files)
}

function modelsOf<F extends Choosable> (files: readonly F[]): Model<F>[] {
  const models = files.filter(({ path }) => !/(^|\/)mmproj[^/]*$/i.test(path))
  const groups = groupBy(models, ({ path }) => path.replace(SPLIT, '').replace(/\.gguf$/, ''))
  return [...groups].map(([name, files]) => ({
    name,
    files,
    parts: Number(SPLIT.exec(files[0]!.path)?.[2] ?? 1),
    bytes: files.reduce((sum, { size }) => sum + size, 0)
  }))
}

function isVariant (name: string, variant: string): boolean {
  const lower = name.toLowerCase()
  const wanted = variant.toLowerCase()
  return lower === wanted || ['-', '.', '_', '/'].some((mark) => lower.endsWith(mark + wanted))
}
