/** Temporary files for builds that are being installed, and leftovers of installations that were killed. */
import { randomBytes } from 'node:crypto'
import { mkdir, readdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'

/** Folder for temporary files; its name is not a valid build name. */
const WORK_FOLDER = '.coming'

/** The temporary files of one installation; their names are unique. */
export interface AddFolder {
  /** The path for an archive; an earlier installation may have left the file's first bytes there. */
  part (digest: string): Promise<string>
  folder (name: string): Promise<string>
  /** Removes the temporary files; `keep` leaves partial archives for the next installation. */
  leave (keep: boolean): Promise<void>
}

const named = /^(\d+|left)\.[0-9a-f]+(?:-([0-9a-f]{64})\.part|-unpacked)$/

/** Creates a folder for temporary files; removes those of exited processes, except partial archives. */
export async function openWorkplace (builds: string): Promise<AddFolder> {
  const all = join(builds, WORK_FOLDER)
  await mkdir(all, { recursive: true, mode: 0o700 })
  const id = randomBytes(6).toString('hex')
  const mine = `${process.pid}.${id}`
  for (const { name, digest } of await leftoversIn(all)) {
    if (digest === undefined) await rm(join(all, name), { recursive: true, force: true })
  }
  const parts = new Map<string, string>()
  return {
    async part (digest) {
      const hex = digest.replace('sha256:', '')
      const path = join(all, `${mine}-${hex}.part`)
      parts.set(path, join(all, `left.${id}-${hex}.part`))
      for (const { name, digest: has } of await leftoversIn(all)) {
        // The rename gives a partial archive to only one of several processes; the others start from zero.
        if (has === hex && await rename(join(all, name), path).then(() => true, () => false)) break
      }
      return path
    },
    async folder (name) {
      const path = join(all, `${mine}-unpacked`, name)
      await mkdir(path, { recursive: true, mode: 0o700 })
      return path
    },
    async leave (keep) {
      await rm(join(all, `${mine}-unpacked`), { recursive: true, force: true })
      for (const [path, left] of parts) {
        if (keep) await rename(path, left).catch(() => {})
        else await rm(path, { force: true })
      }
    }
  }
}

/** Temporary files whose process has ended. */
async function leftoversIn (folder: string): Promise<{ name: string, digest: string | undefined }[]> {
  return (await readdir(folder).catch(() => [])).flatMap((name) => {
    const [, owner, digest] = named.exec(name) ?? []
    return owner === undefined || (owner !== 'left' && alive(Number(owner))) ? [] : [{ name, digest }]
  })
}

function alive (pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH'
  }
}
