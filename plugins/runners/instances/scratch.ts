import { readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'

/** Folders of runners that are gone and are kept for a look at their output. */
const KEPT_FOLDERS = 4

/** Where the runners of a node have their folders, one each. */
export function runnersFolder (home: string): string {
  return join(home, 'run', 'runners')
}

/** Removes the folders of runners that are gone, but for the newest few. Never throws. */
export async function pruneScratch (folder: string, live: (runnerId: string) => boolean): Promise<void> {
  const names = await readdir(folder).catch(() => [])
  const dated = await Promise.all(
    names.map(async (name) => ({
      name,
      at: await stat(join(folder, name)).then(
        ({ mtimeMs }) => mtimeMs,
        () => 0
      )
    }))
  )
  const gone = dated
    .filter(({ name }) => !live(name))
    .sort((a, b) => b.at - a.at)
    .slice(KEPT_FOLDERS)
  await Promise.all(
    gone
      .filter(({ name }) => !live(name))
      .map(async ({ name }) => {
        await rm(join(folder, name), { recursive: true, force: true }).catch(() => {})
      })
  )
}
