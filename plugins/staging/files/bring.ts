import { constants } from 'node:fs'
import { copyFile, link, lstat, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { openInside, parentOf, pathOf } from './open.js'

/** A local file for `path` of a model, at `inner` below `root`; no part of `inner` may be a symbolic link. */
export interface LocalFile { path: string, size: number, root: string, inner: string }

/** `clone` and `link` share the blocks on disk; `copy` does so only if the file system supports it. */
export type CopyMethod = 'clone' | 'link' | 'copy'

/**
 * Brings local files into an incoming folder, each by the first of `ways` that works; skips files that
 * already have the expected size. The following transfer verifies the bytes and fetches missing ones. Throws
 * the signal's reason.
 */
export async function bringFiles (
  folder: string, files: readonly LocalFile[], ways: readonly CopyMethod[], signal: AbortSignal
): Promise<void> {
  for (const file of files) {
    signal.throwIfAborted()
    const there = await lstat(join(folder, file.path)).catch(() => undefined)
    if (there?.size === file.size) continue
    for (const way of ways) {
      if (await bringFile(folder, file, way).then(() => true, () => false)) break
    }
  }
}

/** Replaces an existing file at `path`. Throws PathError or a system error. */
export async function bringFile (
  folder: string, { path, root, inner }: Omit<LocalFile, 'size'>, way: CopyMethod
): Promise<void> {
  await parentOf(folder, path, true, async ({ path: parent }, name) => {
    const to = join(parent, name)
    await rm(to, { force: true })
    try {
      if (way !== 'link') {
        const mode = way === 'clone' ? constants.COPYFILE_FICLONE_FORCE : constants.COPYFILE_FICLONE
        await copyBytes({ root, inner }, { root: folder, inner: path }, mode)
      } else await parentOf(root, inner, false, async (from, own) => { await link(join(from.path, own), to) })
    } catch (error) {
      await rm(to, { force: true })
      throw error
    }
  })
}

type Place = Pick<LocalFile, 'root' | 'inner'>

async function copyBytes (from: Place, to: Place, mode: number): Promise<void> {
  const file = await openInside(to.root, to.inner, 'create')
  try {
    const source = await openInside(from.root, from.inner, 'read')
    await copyFile(pathOf(source, join(from.root, from.inner)), pathOf(file, join(to.root, to.inner)), mode)
      .finally(async () => { await source.close() })
    await file.chmod(0o600)
  } finally { await file.close() }
}
