/** Unpacks untrusted archives: no entry may leave the target folder. */
import { createReadStream } from 'node:fs'
import { symlink } from 'node:fs/promises'
import { join, posix } from 'node:path'
import { pipeline } from 'node:stream/promises'
import * as tar from 'tar'
import { diskError, BuildError } from './release.js'

/** Limit on entries in an archive, ten times the number in a release. */
const MOST_ENTRIES = 10_000
const MOST_BYTES = 8 * 2 ** 30

export interface Entry { path: string, type: string, size: number, link?: string | undefined }

/** Returns a check to call with each entry of one archive; it returns the problem or null. Pure. */
export function createEntryCheck (): (entry: Entry) => string | null {
  let entries = 0
  let bytes = 0
  return ({ path, type, size, link }) => {
    entries++
    bytes += size
    if (entries > MOST_ENTRIES) return `more than ${MOST_ENTRIES} entries`
    if (bytes > MOST_BYTES) return `more than ${MOST_BYTES} bytes`
    if (!inside(path)) return `an entry outside its folder: ${path}`
    if (type === 'File' || type === 'OldFile' || type === 'Directory') return null
    if (type !== 'SymbolicLink') return `${path}, which is neither a file, a folder nor a link (${type})`
    // Allow only links to a bare file name, as libraries have: they cannot lead out of the folder.
    const to = link ?? ''
    return /^[^/\\\0]+$/.test(to) && to !== '..' && to !== '.' ? null
      : `a link to another folder: ${path} to ${to}`
  }
}

/** Whether a path is relative and stays inside its folder. */
function inside (path: string): boolean {
  if (posix.isAbsolute(path) || /[\0\\]/.test(path)) return false
  return path.split('/').every((part) => part !== '..') && path !== ''
}

/** Unpacks a `.tar.gz` into an empty folder after checking all entries. @throws BuildError */
export async function unpack (file: string, folder: string, signal: AbortSignal): Promise<void> {
  const { problem, links } = await inspect(file, signal)
  if (problem !== null) throw new BuildError(`the archive is refused: it has ${problem}`)
  try {
    await pipeline(createReadStream(file), tar.x({
      cwd: folder, strict: true, preserveOwner: false, noMtime: true, umask: 0o022,
      // tar refuses links to links, which libraries have, so they are created below.
      filter: (_path, entry) => !('type' in entry) || entry.type !== 'SymbolicLink',
      // Drop set-user-id bits and write access for group and others.
      onReadEntry: (entry) => { entry.mode = (entry.mode ?? 0o644) & 0o755 }
    }), { signal })
    for (const { path, to } of links) await symlink(to, join(folder, path))
  } catch (error) { throw failure(error, signal) }
}

interface Inspection { problem: string | null, links: { path: string, to: string }[] }

/** Checks the entries and collects the links. @throws BuildError if the file is not an archive */
async function inspect (file: string, signal: AbortSignal): Promise<Inspection> {
  const problemOf = createEntryCheck()
  const stop = new AbortController()
  const links: Inspection['links'] = []
  let problem: string | null = null
  const list = tar.t({ strict: true, onReadEntry ({ path, type, size, linkpath: link }) {
    problem ??= problemOf({ path, type, size, link })
    // A bad entry rejects the archive, so do not decompress the rest.
    if (problem !== null) stop.abort()
    if (type === 'SymbolicLink') links.push({ path, to: link ?? '' })
  } })
  try {
    await pipeline(createReadStream(file), list, { signal: AbortSignal.any([signal, stop.signal]) })
  } catch (error) { if (problem === null) throw failure(error, signal) }
  return { problem, links }
}

function failure (error: unknown, signal: AbortSignal): unknown {
  if (signal.aborted || error instanceof BuildError) return error
  const { code, message } = error as NodeJS.ErrnoException
  if (/^E[A-Z]+$/.test(code ?? '')) return diskError(error)
  return new BuildError(`the archive cannot be unpacked: ${message}`, { cause: error })
}
