import { readFileSync, statSync } from 'node:fs'
import { identityFrom, IdentityError, type IdentityFiles, type IdentitySource } from './identity.js'

/** Identity from the operator's key and certificate files, reread when a file or a link to one changes. */
export function identityInFiles (files: IdentityFiles, now: () => number): IdentitySource {
  let seen: string | undefined
  return {
    authority: null,
    next () {
      const state = [files.cert, files.key].map(stateOf).join()
      if (state === seen) return null
      seen = state
      return identityFrom({ cert: read(files.cert, false), key: read(files.key, true) }, files, now())
    }
  }
}

/** The state of a file as text, which differs once the file has changed. */
function stateOf (path: string): string {
  try {
    const { ino, size, mtimeMs, mode } = statSync(path)
    return `${ino} ${size} ${mtimeMs} ${mode}`
  } catch (error) {
    return String((error as NodeJS.ErrnoException).code)
  }
}

/** Throws if all users may read a secret; its group may, since some systems share certificates that way. */
function read (path: string, secret: boolean): string {
  try {
    if (!secret || (statSync(path).mode & 0o007) === 0) return readFileSync(path, 'utf8')
  } catch (error) {
    throw new IdentityError(`cannot read ${path}: ${(error as Error).message}`)
  }
  throw new IdentityError(`${path} can be read by every user of this machine; run: chmod o= ${path}`)
}
