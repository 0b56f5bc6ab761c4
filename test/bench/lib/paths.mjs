import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import '../../tools/typescript.mjs'

export const here = fileURLToPath(new URL('..', import.meta.url))
export const root = fileURLToPath(new URL('../../..', import.meta.url))
export const dist = join(root, 'dist')
/**
 * Imports a product or test module by its source path from the root, because dist has only bundles.
 */
export const source = (path) => import(pathToFileURL(join(root, path)).href)
/** Folder for generated files, under node_modules, which git ignores. */
export const cache = join(here, 'node_modules', '.cache', 'svc')

/** Folder of espeak-ng data: ESPEAK_DATA_PATH or the phonemizer package's; undefined if both are missing. */
export function espeakData () {
  const places = [
    process.env.ESPEAK_DATA_PATH,
    join(here, 'node_modules', 'piper-phonemize', 'espeak-ng-data')
  ]
  return places.find((place) => place !== undefined && existsSync(join(place, 'phontab')))
}
