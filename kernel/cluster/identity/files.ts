import { closeSync, fstatSync, openSync, readFileSync } from 'node:fs'
import { HomeError } from '../../boot/home.js'

/** Where the identity lies in a home. */
export const identityFile = {
  key: 'node.key',
  certificate: 'node.crt',
  members: 'state/members.json',
  joinTokens: 'state/join-tokens.json'
} as const

/**
 * Text of a file; undefined when it is missing. Throws HomeError when it cannot be read and, for a secret,
 * when somebody but its owner could read or write it.
 */
export function readText (path: string, kind: 'secret' | 'public'): string | undefined {
  let file: number
  try {
    file = openSync(path, 'r')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw new HomeError(`cannot read ${path}: ${(error as Error).message}`)
  }
  try {
    if (kind === 'secret' && (fstatSync(file).mode & 0o077) !== 0) {
      throw new HomeError(`${path} can be read by others; run: chmod 600 ${path}`)
    }
    return readFileSync(file, 'utf8')
  } catch (error) {
    if (error instanceof HomeError) throw error
    throw new HomeError(`cannot read ${path}: ${(error as Error).message}`)
  } finally {
    closeSync(file)
  }
}
