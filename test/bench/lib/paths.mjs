/** Where things lie. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

export const here = fileURLToPath(new URL('..', import.meta.url))
export const root = fileURLToPath(new URL('../../..', import.meta.url))
export const dist = join(root, 'dist')
/** Made files: below node_modules, which git ignores. */
export const cache = join(here, 'node_modules', '.cache', 'svc')

/** The data of espeak-ng: from the package that brings the phonemiser, else from the system; or undefined. */
export function espeakData () {
  const places = [join(here, 'node_modules', 'piper-phonemize', 'espeak-ng-data'),
    '/usr/share/espeak-ng-data', '/usr/lib/x86_64-linux-gnu/espeak-ng-data', '/usr/lib/aarch64-linux-gnu/espeak-ng-data']
  return places.find((place) => existsSync(join(place, 'phontab')))
}
