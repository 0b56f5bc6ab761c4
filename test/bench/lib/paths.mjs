/** Where things lie. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import '../../tools/typescript.mjs'

export const here = fileURLToPath(new URL('..', import.meta.url))
export const root = fileURLToPath(new URL('../../..', import.meta.url))
export const dist = join(root, 'dist')
/** A module of the product or of its tests by the path of its source from the root: dist has bundles. */
export const source = (path) => import(pathToFileURL(join(root, path)).href)
/** Made files: below node_modules, which git ignores. */
export const cache = join(here, 'node_modules', '.cache', 'svc')

/** Data of espeak-ng: ESPEAK_DATA_PATH, else those of the phonemiser's package; undefined without both. */
export function espeakData () {
  const places = [
    process.env.ESPEAK_DATA_PATH,
    join(here, 'node_modules', 'piper-phonemize', 'espeak-ng-data')
  ]
  return places.find((place) => place !== undefined && existsSync(join(place, 'phontab')))
}
