import { createHash } from 'node:crypto'
import {
  lstatSync, readdirSync, readFileSync, readlinkSync, realpathSync, renameSync, rmSync, symlinkSync
} from 'node:fs'
import { dirname, join, relative, sep } from 'node:path'
import { packageRoot } from '../boot/package.js'
import { makeFolder, readVersioned } from '../boot/home.js'
import { untrustedOwner } from '../config/file.js'
import type { Manifest } from '../api/plugin.js'

/** Record of an accepted plugin, stored beside the plugin's folder. */
export interface PackageRecord {
  readonly name: string
  readonly package: string
  readonly version: string
  readonly installed: string
  /** `sha256`: a hash over the names and hashes of all files. `files`: file hashes by POSIX path. */
  readonly sha256: string
  readonly files: Readonly<Record<string, string>>
  readonly module: string
  /** The serialisable part of the manifest. */
  readonly manifest: Manifest
}

export const packagesFolder = (home: string): string => join(home, 'plugins')

export const recordPath = (home: string, folder: string): string =>
  join(packagesFolder(home), `${folder}.json`)

/** The folder in `<home>/plugins` that contains a module; undefined for a module that was not installed. */
export function folderOf (home: string, module: string): string | undefined {
  const path = relative(packagesFolder(home), module)
  const [folder = ''] = path.split(sep)
  return folder === '' || folder === '..' || folder === path ? undefined : folder
}

/** The accepted record for a folder, or undefined. Throws HomeError if the record is invalid. */
export function readRecord (home: string, folder: string): PackageRecord | undefined {
  return readVersioned<PackageRecord & { format: number }>(recordPath(home, folder), 1)
}

/** A file in a plugin's package that svc does not trust, and the reason. */
export class PackageFault extends Error {
  override readonly name = 'PackageFault'
  readonly file: string
  constructor (file: string, why: string) {
    super(`${file} ${why}`)
    this.file = file
  }
}

/** File hashes by POSIX path. Throws PackageFault for special files and files that others can write. */
export function hashFolder (root: string): Record<string, string> {
  const files: Record<string, string> = {}
  const visit = (path: string): void => {
    const full = join(root, path)
    const stat = lstatSync(full)
    const shown = path.split(sep).join('/') || '.'
    const untrusted = untrustedOwner(stat.uid)
    if (untrusted !== null) throw new PackageFault(shown, untrusted)
    if (stat.isSymbolicLink()) throw new PackageFault(shown, 'is a link')
    if ((stat.mode & 0o022) !== 0) throw new PackageFault(shown, 'may be written by group or others')
    if (stat.isDirectory()) for (const name of readdirSync(full).sort()) visit(join(path, name))
    else if (stat.isFile()) files[shown] = createHash('sha256').update(readFileSync(full)).digest('hex')
    else throw new PackageFault(shown, 'is not a regular file')
  }
  visit('')
  return files
}

/** The first file that differs from its accepted state, and the difference; null if all match. */
export function faultOf (home: string, folder: string, record: PackageRecord): PackageFault | null {
  let files: Record<string, string>
  try {
    const root = join(packagesFolder(home), folder)
    if (realpathSync(root) !== join(realpathSync(packagesFolder(home)), folder)) {
      return new PackageFault('.', 'lies elsewhere')
    }
    files = hashFolder(root)
  } catch (error) {
    if (error instanceof PackageFault) return error
    return new PackageFault('.', `cannot be read: ${(error as Error).message}`)
  }
  for (const [path, hash] of Object.entries(record.files)) {
    if (files[path] === undefined) return new PackageFault(path, 'is missing')
    if (files[path] !== hash) return new PackageFault(path, 'has changed')
  }
  const added = Object.keys(files).find((path) => record.files[path] === undefined)
  return added === undefined ? null : new PackageFault(added, 'was added')
}

/** Links `svc/plugin` of the running svc into the home, so that installed plugins can import it. */
export function linkSvc (home: string): void {
  const link = join(packagesFolder(home), 'node_modules', 'svc')
  const root = packageRoot()
  try {
    if (readlinkSync(link) === root) return
  } catch { /* There is no link yet. */ }
  makeFolder(dirname(link))
  const aside = `${link}.${process.pid}`
  rmSync(aside, { force: true })
  symlinkSync(root, aside, 'dir')
  renameSync(aside, link)
}
