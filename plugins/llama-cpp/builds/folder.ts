/** The folder of builds: what is under way there, and what an add that was killed has left. */
import { randomBytes } from 'node:crypto'
import { mkdir, readdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'

/** Beside the builds, and no build itself. */
const UNDER_WAY = '.coming'

/** The names that one add uses there. Nobody else writes under them. */
export interface AddFolder {
  /** The file for an archive, which may begin with what an earlier add brought. */
  part (digest: string): Promise<string>
  folder (name: string): Promise<string>
  /** Removes all of it; with `keep`, the next add goes on with what is there of archives. */
  leave (keep: boolean): Promise<void>
}

const named = /^(\d+|left)\.[0-9a-f]+(?:-([0-9a-f]{64})\.part|-unpacked)$/

/** Makes a place to work in the folder of builds, and removes what dead ones left, apart from archives. */
export async function openWorkplace (builds: string): Promise<AddFolder> {
  const all = join(builds, UNDER_WAY)
  await mkdir(all, { recursive: true, mode: 0o700 })
  const id = randomBytes(6).toString('hex')
  const mine = `${process.pid}.${id}`
  for (const { name, digest } of await leftIn(all)) {
    if (digest === undefined) await rm(join(all, name), { recursive: true, force: true })
  }
  const parts = new Map<string, string>()
  return {
    async part (digest) {
      const hex = digest.replace('sha256:', '')
      const path = join(all, `${mine}-${hex}.part`)
      parts.set(path, join(all, `left.${id}-${hex}.part`))
      for (const { name, digest: has } of await leftIn(all)) {
        // One of several adds gets it; the others begin anew.
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

/** What nobody works on any more. */
async function leftIn (folder: string): Promise<{ name: string, digest: string | undefined }[]> {
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
