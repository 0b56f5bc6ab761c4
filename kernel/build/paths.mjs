import { existsSync, readdirSync, readlinkSync, rmSync, symlinkSync } from 'node:fs'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

export const root = fileURLToPath(new URL('../../', import.meta.url))
export const dist = join(root, 'dist')

const SKIPPED = new Set(['test', 'node_modules', 'README.md'])

/** The files below a folder that a build depends on, relative to the root. */
export function * sources (folder) {
  for (const entry of readdirSync(join(root, folder), { withFileTypes: true })) {
    const path = `${folder}/${entry.name}`
    // Includes the test and the README of the scaffold that `svc plugin new` copies.
    const skipped = path.startsWith('plugins/packages/data/') ? false : SKIPPED.has(entry.name)
    if (entry.isDirectory()) {
      if (!skipped) yield * sources(path)
    } else if (!skipped) yield path
  }
}

/** Links svc as a local bin; without it, npx would install the checkout into its cache and build it again. */
export function linkBin () {
  const bin = join(root, 'node_modules/.bin')
  const to = relative(bin, join(dist, 'kernel/cli/main.js'))
  if (!existsSync(bin) || linkAt(join(bin, 'svc')) === to) return
  rmSync(join(bin, 'svc'), { force: true })
  symlinkSync(to, join(bin, 'svc'))
}

/** The target of a symbolic link; undefined if it cannot be read. */
export function linkAt (path) {
  try { return readlinkSync(path) } catch { return undefined }
}
