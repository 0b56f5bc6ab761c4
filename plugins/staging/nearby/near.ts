/** Files of other programs on this machine that are those of a model. They are never written to. */
import { constants } from 'node:fs'
import { copyFile, link, readdir, rename, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import { inFolder, openInside, openOwn, pathOf } from '../files/open.js'
import { readFrom, readPieces } from '../peers/sources.js'
import type { HubFile } from '../hub/types.js'
import type { ChunkSource } from '../transfer/types.js'
import type { Verifier } from '../transfer/chunks.js'
import type { ManifestFile } from '../types.js'

/** A file of a model that lies on this machine: at `inner` below `root`, no step of which may be a link. */
export interface NearFile extends HubFile { root: string, inner: string }

/** Looks at the bytes of a file while they are read, and says what a manifest says of it. */
export interface FileCheck extends Verifier { file (): ManifestFile }

/** Files that are in an incoming folder already, under names of svc's own: no byte of them was copied. */
export interface Adopted { files: ManifestFile[], bytes: number }

const PREFIX = '.svc-near-'

/**
 * Takes files of this machine into an incoming folder without copying a byte: a clone where the file system
 * makes one, else a hard link. What was taken is read once and its hash compared; what is wrong, or cannot be
 * taken so, is left to the transfer. Throws the signal's reason, and PathError for the incoming folder.
 */
export async function adopt (
  folder: string, files: readonly NearFile[], check: (file: HubFile) => FileCheck, signal: AbortSignal
): Promise<Adopted> {
  await forget(folder)
  const found: ManifestFile[] = []
  for (const file of files) {
    signal.throwIfAborted()
    const name = nameOf(found.length)
    if (file.size === 0 || !await take(folder, name, file)) continue
    const checker = check(file)
    if (await readThrough(folder, name, file.size, checker, signal) && checker.right()) {
      found.push(checker.file())
    } else await forget(folder, name)
  }
  return { files: found, bytes: found.reduce((sum, { size }) => sum + size, 0) }
}

const nameOf = (i: number): string => `${PREFIX}${i}`

/** Removes one of them, or what an earlier run has left. */
async function forget (folder: string, only?: string): Promise<void> {
  await inFolder(folder, [], true, async (own) => {
    for (const name of await readdir(own.path)) {
      if (only === undefined ? name.startsWith(PREFIX) : name === only) await unlink(join(own.path, name))
    }
  })
}

/** False where the file is not there, or this file system has neither clones nor links across to it. */
async function take (folder: string, name: string, { root, inner, size }: NearFile): Promise<boolean> {
  const steps = inner.split('/')
  const last = steps.pop()!
  try {
    return await inFolder(folder, [], true, async (own) => {
      const to = join(own.path, name)
      const file = await openInside(root, inner, 'read')
      try {
        if ((await file.stat()).size !== size) return false
        const { COPYFILE_EXCL, COPYFILE_FICLONE_FORCE } = constants
        await copyFile(pathOf(file, join(root, inner)), to, COPYFILE_EXCL | COPYFILE_FICLONE_FORCE)
        return true
      } catch {
        await unlink(to).catch(() => {})
        await inFolder(root, steps, false, async (from) => { await link(join(from.path, last), to) })
        return true
      } finally {
        await file.close()
      }
    })
  } catch {
    return false
  }
}

/** Shows a checker what is under that name, which is no link; false where it is of another size. */
async function readThrough (
  folder: string, name: string, size: number, checker: FileCheck, signal: AbortSignal
): Promise<boolean> {
  const file = await openOwn(folder, name, 'read').catch(() => undefined)
  if (file === undefined) return false
  try {
    if ((await file.stat()).size !== size) return false
    for await (const piece of readPieces(file, { start: 0, end: size })) {
      signal.throwIfAborted()
      checker.update(piece)
    }
    return true
  } finally {
    await file.close()
  }
}

/** Gives what was adopted its name in the model. */
export async function settle (folder: string, { files }: Adopted): Promise<void> {
  for (const [i, { path }] of files.entries()) {
    const steps = path.split('/')
    const last = steps.pop()!
    await inFolder(folder, [], false, async (own) => {
      await inFolder(folder, steps, true, async (inner) => {
        await rename(join(own.path, nameOf(i)), join(inner.path, last))
      })
    })
  }
}

/** The files of this machine as a source of a transfer in whole files; `pathAt` names that of a chunk. */
export function nearSource (
  files: readonly NearFile[], pathAt: (chunk: number) => string
): ChunkSource {
  const byPath = new Map(files.map((file) => [file.path, file]))
  return {
    id: 'this machine', kind: 'peer',
    has: (chunk) => byPath.has(pathAt(chunk)),
    read: async (path, range, signal) => {
      const { root, inner } = byPath.get(path)!
      return readFrom(root, inner, range, signal)
    }
  }
}
