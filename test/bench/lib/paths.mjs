/** Paths. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import '../../tools/typescript.mjs'

export const here = fileURLToPath(new URL('..', import.meta.url))
export const root = fileURLToPath(new URL('../../..', import.meta.url))
export const dist = join(root, 'dist')
/**
 * Imports a module of the product or of its tests by its source path from the root: dist has only bundles.
 */
export const source = (path) => import(pathToFileURL(join(root, path)).href)
/** Generated files are stored below node_modules, which git ignores. */
export const cache = join(here, 'node_modules', '.cache', 'svc')

/** Data of espeak-ng: ESPEAK_DATA_PATH, else the data of the phonemiser's package; undefined without both. */
export function espeakData () {
  const places = [
    process.env.ESPEAK_DATA_PATH,
    join(here, 'node_modules', 'piper-phonemize', 'espeak-ng-data')
  ]
  return places.find((place) => place !== undefined && existsSync(join(place, 'phontab')))
}
