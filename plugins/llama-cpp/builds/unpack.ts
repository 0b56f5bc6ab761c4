/** Unpacks archives that others made: nothing in them may lead out of the folder they are put in. */
import { createReadStream } from 'node:fs'
import { symlink } from 'node:fs/promises'
import { join, posix } from 'node:path'
import { pipeline } from 'node:stream/promises'
import * as tar from 'tar'
import { diskError } from './download.js'
import { BuildError } from './release.js'

/** Ten times what a release has. */
const MOST_ENTRIES = 10_000
const MOST_BYTES = 8 * 2 ** 30

export interface Entry { path: string, type: string, size: number, link?: string | undefined }

/** Looks at the entries of one archive in turn; the result says what is wrong with it, if anything. Pure. */
export function createEntryCheck (): (entry: Entry) => string | null {
  let entries = 0
  let bytes = 0
  return ({ path, type, size, link }) => {
    entries++
    bytes += size
    if (entries > MOST_ENTRIES) return `more than ${MOST_ENTRIES} entries`
    if (bytes > MOST_BYTES) return `more than ${MOST_BYTES} bytes`
    if (!inside(path)) return `an entry that leads out of it: ${path}`
    if (type === 'File' || type === 'OldFile' || type === 'Directory') return null
    if (type !== 'SymbolicLink') return `${path}, which is neither a file, a folder nor a link (${type})`
    // Names of libraries are links to each other, side by side. From name to name nothing leads out.
    const to = link ?? ''
    return /^[^/\\\0]+$/.test(to) && to !== '..' && to !== '.' ? null
      : `a link to more than a name beside it: ${path} to ${to}`
  }
}

/** Whether a path stays in the folder it starts from. */
function inside (path: string): boolean {
  if (posix.isAbsolute(path) || /[\0\\]/.test(path)) return false
  return path.split('/').every((part) => part !== '..') && path !== ''
}

/** Unpacks a `.tar.gz` into an empty folder, after a look at all that is in it. @throws BuildError */
export async function unpack (file: string, folder: string, signal: AbortSignal): Promise<void> {
  const { wrong, links } = await look(file, signal)
  if (wrong !== null) throw new BuildError(`the archive is refused: it has ${wrong}`)
  try {
    await pipeline(createReadStream(file), tar.x({
      cwd: folder, strict: true, preserveOwner: false, noMtime: true, umask: 0o022,
      // The package makes no link to a link, as a library has: they are made below.
      filter: (_path, entry) => !('type' in entry) || entry.type !== 'SymbolicLink',
      // Neither set-user-id nor writable by others, whatever the archive says.
      onReadEntry: (entry) => { entry.mode = (entry.mode ?? 0o644) & 0o755 }
    }), { signal })
    for (const { path, to } of links) await symlink(to, join(folder, path))
  } catch (error) {
    throw failure(error, signal)
  }
}

interface Look { wrong: string | null, links: { path: string, to: string }[] }

/** What is wrong with the entries of an archive, and its links. @throws BuildError for a file that is none */
async function look (file: string, signal: AbortSignal): Promise<Look> {
  const judge = createEntryCheck()
  const stop = new AbortController()
  const links: Look['links'] = []
  let wrong: string | null = null
  const list = tar.t({ strict: true, onReadEntry ({ path, type, size, linkpath: link }) {
    wrong ??= judge({ path, type, size, link })
    // Not another byte is unpacked.
    if (wrong !== null) stop.abort()
    if (type === 'SymbolicLink') links.push({ path, to: link ?? '' })
  } })
  try {
    await pipeline(createReadStream(file), list, { signal: AbortSignal.any([signal, stop.signal]) })
  } catch (error) {
    if (wrong === null) throw failure(error, signal)
  }
  return { wrong, links }
}

function failure (error: unknown, signal: AbortSignal): unknown {
  if (signal.aborted || error instanceof BuildError) return error
  const { code, message } = error as NodeJS.ErrnoException
  if (/^E[A-Z]+$/.test(code ?? '')) return diskError(error)
  return new BuildError(`the archive cannot be unpacked: ${message}`, { cause: error })
}
